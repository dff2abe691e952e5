//! Phase spans.

use super::*;

const LEAST: Nanos = Nanos::from_secs(5);

fn spans(charges: &[Charge]) -> (SpanBuilder, Vec<PhaseSpan>) {
    let (mut spans, mut out) = (SpanBuilder::new(LEAST), Vec::new());
    charges.iter().for_each(|charge| spans.post(charge, &mut |span| out.push(*span)));
    (spans, out)
}

fn finished(charges: &[Charge]) -> Vec<(SpanLabel, u64, u64)> {
    let (mut spans, mut out) = spans(charges);
    spans.finish(&mut |span| out.push(*span));
    let seconds = |at: Timestamp| at.whole_second();
    out.iter().map(|span| (span.label, seconds(span.from), seconds(span.to))).collect()
}

const PRODUCTIVE: SpanLabel = SpanLabel::Phase(Phase::Productive);
const IDLE: Account = Account::IdleFree;
const BUSY: Account = Account::Productive;
const HALF: Account = Account::Underutilized;

#[test]
fn short_segments_of_minimum_length_together_are_a_mixed_span() {
    let first = charge(0, 10, BUSY);
    let short = [charge(10, 12, IDLE), charge(12, 15, HALF)];
    let end = [first, short[0], short[1]];
    assert_eq!(finished(&end), [(PRODUCTIVE, 0, 10), (SpanLabel::Mixed, 10, 15)]);
    let between = [first, short[0], short[1], charge(15, 25, BUSY)];
    let expected = [(PRODUCTIVE, 0, 10), (SpanLabel::Mixed, 10, 15), (PRODUCTIVE, 15, 25)];
    assert_eq!(finished(&between), expected);
    let start = [short[0], short[1], charge(15, 25, BUSY)];
    assert_eq!(finished(&start), [(SpanLabel::Mixed, 10, 15), (PRODUCTIVE, 15, 25)]);
}

#[test]
fn shorter_runs_join_the_span_before_or_after() {
    let short = [charge(10, 12, IDLE), charge(12, 14, HALF)];
    let after = [charge(0, 10, BUSY), short[0], short[1], charge(14, 20, BUSY)];
    assert_eq!(finished(&after), [(PRODUCTIVE, 0, 14), (PRODUCTIVE, 14, 20)]);
    assert_eq!(finished(&after[..3]), [(PRODUCTIVE, 0, 14)]);
    assert_eq!(finished(&after[1..]), [(PRODUCTIVE, 10, 20)]);
}

#[test]
fn span_start_is_final_from_the_minimum_length() {
    let start = |charges: &[Charge], millis| spans(charges).0.final_start(at(millis));
    let four = [charge(1, 5, BUSY)];
    assert_eq!(start(&four, 2_000), None, "still shorter than a span");
    let five = [charge(1, 6, BUSY)];
    assert_eq!(start(&five, 2_000), Some(at(1_000)));
    assert_eq!(start(&five, 1_000), Some(at(1_000)));
    assert_eq!(start(&five, 999), None);
    assert_eq!(start(&five, 6_000), None);
}

#[test]
fn short_first_segment_is_final_with_its_span() {
    let start = |millis| spans(&[charge(1, 3, IDLE), charge(3, 9, BUSY)]).0.final_start(at(millis));
    assert_eq!(start(999), None);
    for millis in [1_000, 2_000, 5_000, 8_999] {
        assert_eq!(start(millis), Some(at(1_000)), "{millis} ms");
    }
    assert_eq!(start(9_000), None);
}
