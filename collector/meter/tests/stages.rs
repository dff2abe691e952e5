//! Each stage of the pipeline alone, at its limits.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::accounts::{Accounts, Charge};
use phasemeter_meter::accrual::UtilizedCost;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{CycleChange, CycleDetector, Pattern, PatternKind, Snapshot};
use phasemeter_meter::phase::{Account, Phase, Thresholds};
use phasemeter_meter::reading::{Basis, Interval, Reading};
use phasemeter_meter::reorder::{CAPACITY, ReorderBuffer};
use phasemeter_meter::savings::Savings;
use phasemeter_meter::savings::estimate::Estimate;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::recommendation::{Recommendation, Saving, Target};
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_meter::series::Quantity;
use phasemeter_meter::span::{PhaseSpan, SpanBuilder, SpanLabel};
use phasemeter_meter::staleness::{READINGS_NEEDED, StaleAfter, estimate};
use phasemeter_meter::timeline::{TimeSlice, Timeline};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use phasemeter_meter::utilization_feed::UtilizationFeed;
use phasemeter_meter::waste::{WasteByCategory, WasteClassifier};
use proptest::prelude::*;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn percent(percent: u32) -> Utilization {
    Utilization::from_percent(percent).unwrap()
}

fn slice(from: u64, to: u64, account: Account) -> TimeSlice {
    TimeSlice { from: at(from), to: at(to), account, weighted: 0 }
}

/// Whole seconds in one account, at a nano-dollar per second.
fn charge(from: u64, to: u64, account: Account) -> Charge {
    let cost = NanoUsd(i128::from(to - from));
    let slice = slice(from * 1_000, to * 1_000, account);
    Charge { slice, cost, utilized: UtilizedCost::ZERO }
}

mod reorder {
    use super::*;

    fn filled(allowed_lateness: Nanos, millis: &[u64]) -> ReorderBuffer {
        let mut buffer = ReorderBuffer::new(allowed_lateness);
        millis.iter().for_each(|millis| buffer.push(Reading::at(at(*millis))).unwrap());
        buffer
    }

    fn popped(buffer: &mut ReorderBuffer) -> Vec<Timestamp> {
        std::iter::from_fn(|| buffer.pop()).map(|reading| reading.at).collect()
    }

    #[test]
    fn buffer_releases_readings_older_than_the_watermark() {
        let mut buffer = filled(Nanos::from_secs(2), &[0, 1_000, 2_500]);
        assert_eq!(popped(&mut buffer), [at(0)], "nothing before 0.5 s is accepted any more");
        assert_eq!(buffer.next_at(), Some(at(1_000)));
        buffer.push(Reading::at(at(3_000))).unwrap();
        assert_eq!(popped(&mut buffer), [], "another reading at 1 s would be accepted");
        buffer.push(Reading::at(at(3_001))).unwrap();
        assert_eq!(popped(&mut buffer), [at(1_000)]);
        assert_eq!(buffer.next_at(), Some(at(2_500)));
        let rest: Vec<_> =
            std::iter::from_fn(|| buffer.drain()).map(|reading| reading.at).collect();
        assert_eq!(rest, [at(2_500), at(3_000), at(3_001)]);
        assert_eq!(buffer.next_at(), None);
    }

    #[test]
    fn buffer_releases_the_oldest_above_capacity() {
        let all: Vec<_> = (0..CAPACITY as u64).collect();
        let mut buffer = filled(Nanos::from_secs(86_400), &all);
        assert_eq!(buffer.pop(), None, "filled to capacity");
        for _ in 0..2 {
            buffer.push(Reading::at(at(CAPACITY as u64))).unwrap();
        }
        assert_eq!(popped(&mut buffer), [at(0), at(1)], "the oldest are released early");
        buffer.push(Reading::at(at(1))).unwrap();
        assert!(buffer.push(Reading::at(at(0))).is_err(), "older than a released one");
    }

    proptest! {
        /// Released are exactly the readings older than the newest by more than the lateness.
        #[test]
        fn readings_wait_exactly_the_allowed_lateness(
            times in prop::collection::vec(0_u64..20_000, 1..200), lateness in 0_u64..3_000,
        ) {
            let mut buffer = ReorderBuffer::new(Nanos::from_millis(lateness));
            let (mut taken, mut out) = (Vec::new(), Vec::new());
            for millis in times {
                if buffer.push(Reading::at(at(millis))).is_ok() {
                    taken.push(millis);
                }
                out.extend(std::iter::from_fn(|| buffer.pop()).map(|reading| reading.at));
                let newest = *taken.iter().max().unwrap();
                let mut due: Vec<_> =
                    taken.iter().filter(|millis| **millis + lateness < newest).copied().collect();
                due.sort_unstable();
                prop_assert_eq!(&out, &due.into_iter().map(at).collect::<Vec<_>>());
            }
        }
    }
}

mod staleness {
    use super::*;

    #[test]
    fn stale_after_fixed_needs_no_estimate() {
        assert_eq!(StaleAfter::Estimated.fixed(), None);
        assert_eq!(StaleAfter::Fixed(Nanos(7)).fixed(), Some(Nanos(7)));
        assert_eq!(
            StaleAfter::from_interval(Nanos::from_secs(2)).fixed(),
            Some(Nanos::from_secs(6))
        );
        assert_eq!(StaleAfter::from_interval(Nanos(1)).fixed(), Some(Nanos::SECOND));
    }

    /// Fifty long intervals, then short ones: the 51st short one decides.
    #[test]
    fn estimate_needs_only_the_first_readings() {
        let times: Vec<_> =
            (0..200_u64).map(|i| at(i.min(50) * 10_000 + i.saturating_sub(50) * 2_000)).collect();
        let first = estimate(times.iter().copied().take(READINGS_NEEDED));
        assert_eq!(first, Nanos::from_secs(6));
        assert_eq!(first, estimate(times.iter().copied()));
        assert_eq!(estimate(times.iter().copied().take(READINGS_NEEDED - 1)), Nanos::from_secs(30));
    }
}

mod timeline {
    use super::*;

    fn timeline(start: u64) -> Timeline {
        Timeline::new(at(start), Thresholds::default())
    }

    fn busy(from: u64, to: u64) -> TimeSlice {
        let weighted = 1_000_000 * u128::from(to - from) * 1_000_000;
        TimeSlice { weighted, ..slice(from, to, Account::ComputeBound) }
    }

    #[test]
    fn whole_seconds_of_one_utilization_are_one_slice() {
        let (mut timeline, mut out) = (timeline(500), Vec::new());
        timeline.observe(at(500), at(10_500), percent(100), &mut |slice| out.push(slice));
        assert_eq!(out, [busy(500, 1_000), busy(1_000, 10_000)]);
        timeline.finalize(at(10_500), &mut |slice| out.push(slice));
        assert_eq!(out[2..], [busy(10_000, 10_500)]);
    }

    #[test]
    fn second_is_classified_when_it_is_over() {
        let (mut timeline, mut out) = (timeline(0), Vec::new());
        timeline.observe(at(0), at(1_000), percent(100), &mut |slice| out.push(slice));
        timeline.advance(at(999), &mut |slice| out.push(slice));
        assert_eq!(out, []);
        timeline.advance(at(1_000), &mut |slice| out.push(slice));
        assert_eq!(out, [busy(0, 1_000)]);
    }

    #[test]
    fn adjacent_observations_are_one_slice() {
        let (mut timeline, mut out) = (timeline(0), Vec::new());
        timeline.observe(at(0), at(200), percent(100), &mut |slice| out.push(slice));
        timeline.observe(at(200), at(500), percent(100), &mut |slice| out.push(slice));
        timeline.cut();
        timeline.observe(at(500), at(700), percent(100), &mut |slice| out.push(slice));
        timeline.finalize(at(700), &mut |slice| out.push(slice));
        assert_eq!(out, [busy(0, 500), busy(500, 700)]);
    }

    /// Of two readings at one instant, the last one applies to the seconds after.
    #[test]
    fn second_is_held_if_any_reading_in_it_is() {
        let (mut timeline, mut out) = (timeline(0), Vec::new());
        timeline.record_held(true);
        timeline.record_held(false);
        timeline.observe(at(0), at(4_000), percent(0), &mut |slice| out.push(slice));
        let expected = [slice(0, 1_000, Account::IdleHeld), slice(1_000, 4_000, Account::IdleFree)];
        assert_eq!(out, expected);
        // Whole seconds without a contradicting reading are one slice.
        timeline.observe(at(4_000), at(6_000), percent(0), &mut |slice| out.push(slice));
        timeline.record_held(true);
        timeline.observe(at(6_000), at(8_000), percent(0), &mut |slice| out.push(slice));
        let expected =
            [slice(4_000, 6_000, Account::IdleFree), slice(6_000, 8_000, Account::IdleHeld)];
        assert_eq!(out[2..], expected);
    }

    #[test]
    fn holding_is_known_after_the_first_record() {
        let (mut timeline, mut out) = (timeline(0), Vec::new());
        assert!(!timeline.is_holding_known());
        timeline.observe(at(0), at(1_000), percent(0), &mut |slice| out.push(slice));
        timeline.advance(at(1_000), &mut |slice| out.push(slice));
        timeline.record_held(false);
        assert!(timeline.is_holding_known());
        timeline.observe(at(1_000), at(3_000), percent(0), &mut |slice| out.push(slice));
        let accounts: Vec<_> = out.iter().map(|slice| slice.account).collect();
        assert_eq!(accounts, [Account::IdleUnknown, Account::IdleFree]);
    }
}

mod patterns {
    use super::*;

    const LOW: u32 = 100_000;

    fn observe(
        detector: &mut CycleDetector,
        from: u64,
        low: u32,
        high: u32,
        rises: u64,
    ) -> Vec<CycleChange> {
        let ppm = |ppm| Utilization::from_ppm(ppm).unwrap();
        let cycles = (0..rises).flat_map(|rise| {
            let start = from + rise * 10_000;
            [(at(start), ppm(low)), (at(start + 5_000), ppm(high))]
        });
        cycles.filter_map(|(at, utilization)| detector.observe(at, utilization)).collect()
    }

    #[test]
    fn cycles_need_both_thresholds() {
        for (low, high, bouncing) in
            [(LOW - 1, 700_000, true), (LOW, 700_000, false), (LOW - 1, 699_999, false)]
        {
            let mut detector = CycleDetector::default();
            observe(&mut detector, 0, low, high, 11);
            assert_eq!(
                detector.bouncing_since(&Snapshot::default()).is_some(),
                bouncing,
                "{low}–{high}"
            );
        }
    }

    #[test]
    fn pattern_since_a_snapshot_ignores_earlier_cycles() {
        let mut detector = CycleDetector::default();
        observe(&mut detector, 0, 0, 1_000_000, 21);
        let earlier = detector.snapshot();
        assert_eq!(detector.bouncing_since(&earlier), None);
        detector.interrupt();
        detector.observe(at(299_000), percent(0));
        // A fifth of each of these ten cycles is high.
        for cycle in 0..=10_u64 {
            let start = 300_000 + cycle * 20_000;
            detector.observe(at(start), percent(100));
            detector.observe(at(start + 4_000), percent(0));
        }
        let since = detector.bouncing_since(&earlier).unwrap();
        assert_eq!(since.period, Some(Nanos::from_secs(20)));
        assert_eq!(since.duty_cycle, Some(200_000));
        let all = detector.bouncing_since(&Snapshot::default()).unwrap();
        assert_eq!(all.period, Some(Nanos::from_secs(10)));
        assert_eq!(all.duty_cycle, Some((100 + 40) * 1_000_000 / (200 + 200)));
    }

    #[test]
    fn rise_after_an_interruption_begins_a_stretch_without_cycles() {
        let mut detector = CycleDetector::default();
        assert_eq!(
            observe(&mut detector, 0, 0, 1_000_000, 1),
            [CycleChange::StretchStarted(at(5_000))]
        );
        detector.interrupt();
        let changes = observe(&mut detector, 20_000, 0, 1_000_000, 2);
        assert_eq!(
            changes,
            [CycleChange::StretchStarted(at(25_000)), CycleChange::StretchExtended(at(35_000))]
        );
        detector.interrupt();
        assert_eq!(
            observe(&mut detector, 50_000, 0, 1_000_000, 1),
            [],
            "it may still continue the stretch"
        );
    }

    #[test]
    fn pattern_needs_ten_readings_and_30_seconds() {
        // From the 5th to the 95th percentile.
        let steady = |of: u32| Some(percent(if of == 5 { 40 } else { of - 25 }));
        let calm = |readings, seconds| {
            Pattern::without_bouncing(steady, readings, Nanos::from_secs(seconds))
                .map(|pattern| pattern.kind)
        };
        assert_eq!(calm(10, 30), Some(PatternKind::Steady), "40–70 %");
        assert_eq!(calm(9, 30), None);
        assert_eq!(calm(10, 29), None);
        assert_eq!(calm(1_000, 3_600), Some(PatternKind::Steady));
        let flat = |ppm| {
            let utilization = Utilization::from_ppm(ppm);
            Pattern::without_bouncing(|_| utilization, 10, Nanos::from_secs(30))
                .map(|pattern| pattern.kind)
        };
        assert_eq!(flat(LOW - 1), Some(PatternKind::Idle));
        assert_eq!(flat(LOW), Some(PatternKind::Steady));
        let kinds =
            [PatternKind::Idle, PatternKind::Steady, PatternKind::Bouncing, PatternKind::Mixed];
        assert_eq!(kinds.map(PatternKind::name), ["idle", "steady", "bouncing", "mixed"]);
    }
}

mod spans {
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
        let start =
            |millis| spans(&[charge(1, 3, IDLE), charge(3, 9, BUSY)]).0.final_start(at(millis));
        assert_eq!(start(999), None);
        for millis in [1_000, 2_000, 5_000, 8_999] {
            assert_eq!(start(millis), Some(at(1_000)), "{millis} ms");
        }
        assert_eq!(start(9_000), None);
    }
}

mod waste {
    use super::*;

    fn waste(classifier: &WasteClassifier, charges: &[Charge]) -> WasteByCategory {
        let mut accounts = Accounts::default();
        charges.iter().for_each(|charge| accounts.post(charge));
        classifier.by_category_since(&WasteClassifier::default(), &accounts, true)
    }

    /// The second of the last rise is starvation only if another cycle follows.
    #[test]
    fn starvation_ends_with_the_last_cycle() {
        let charges = [charge(10, 11, Account::IdleFree), charge(11, 12, Account::Underutilized)];
        let mut classifier = WasteClassifier::default();
        classifier.apply(CycleChange::StretchStarted(at(10_000)), false);
        charges.iter().for_each(|charge| classifier.post(charge));
        let outside =
            WasteByCategory { starvation: NanoUsd(0), idle: NanoUsd(1), underload: NanoUsd(1) };
        assert_eq!(waste(&classifier, &charges), outside);
        classifier.apply(CycleChange::StretchExtended(at(11_000)), false);
        let inside = WasteByCategory { starvation: NanoUsd(2), ..WasteByCategory::default() };
        assert_eq!(waste(&classifier, &charges), inside, "everything before the rise");
    }

    #[test]
    fn phase_sums_its_accounts() {
        let mut accounts = Accounts::default();
        for (seconds, account) in (1_u64..).zip(Account::ALL) {
            accounts.post(&charge(0, seconds, account));
        }
        let time = |phase| accounts.phase(phase).time;
        assert_eq!(time(Phase::Idle), Nanos::from_secs(1 + 2 + 3));
        assert_eq!(time(Phase::Underutilized), Nanos::from_secs(4));
        assert_eq!(time(Phase::ComputeBound), Nanos::from_secs(6));
        assert_eq!(accounts.observed().time, Nanos::from_secs(21));
        assert_eq!(accounts.all().time, Nanos::from_secs(28));
    }
}

mod gpu {
    use super::*;

    /// Records the times of readings, and counts boundaries.
    #[derive(Default)]
    struct Received {
        readings: Vec<Timestamp>,
        boundaries: usize,
    }

    impl Observer for Received {
        fn reading(&mut self, reading: &Reading) {
            self.readings.push(reading.at);
        }

        fn boundary(&mut self, _at: Timestamp, _gpu: &GpuMeter) {
            self.boundaries += 1;
        }
    }

    fn config() -> MeterConfig {
        MeterConfig {
            stale_after: StaleAfter::Fixed(Nanos::from_secs(3)),
            ..MeterConfig::default()
        }
    }

    fn meter(config: MeterConfig) -> GpuMeter {
        GpuMeter::new(config, Rate::new(3_600_000_000_000), None)
    }

    fn reading(millis: u64, utilization: u32) -> Reading {
        Reading { utilization: Ok(percent(utilization)), ..Reading::at(at(millis)) }
    }

    /// One reading per second, all at this utilization.
    fn push(meter: &mut GpuMeter, seconds: std::ops::RangeInclusive<u64>, utilization: u32) {
        for second in seconds {
            meter.push(reading(second * 1_000, utilization), &mut ()).unwrap();
        }
    }

    fn interval(basis: Basis, from: u64, to: u64, utilization: u32) -> Interval {
        Interval { basis, from: at(from), to: at(to), utilization: percent(utilization) }
    }

    #[test]
    fn bill_uses_the_configured_basis() {
        let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
        push(&mut meter, 0..=0, 0);
        assert!(meter.push_interval(interval(Basis::GpmSm, 0, 10_000, 50)));
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 5_000, 100)));
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 5_000, 8_000, 100)));
        assert!(
            !meter.push_interval(interval(Basis::NvmlSamples, 0, 8_000, 10)),
            "already covered"
        );
        assert_eq!(meter.feeds().count(), 3);
        push(&mut meter, 1..=10, 0);
        meter.finish(&mut ());
        let summary = meter.summary();
        assert_eq!(summary.basis, Basis::NvmlSamples);
        assert_eq!(summary.accounts[Account::ComputeBound].time, Nanos::from_secs(8));
        assert_eq!(summary.accounts[Account::IdleUnknown].time, Nanos::from_secs(2), "as polled");
        assert_eq!(summary.mean_ppm(), Some(800_000));
        let weighted: Vec<_> =
            meter.feeds().map(|measure| (measure.basis(), measure.weighted())).collect();
        let seconds = 1_000_000_000_u128;
        assert_eq!(
            weighted,
            [
                (Basis::NvmlGpu, 0),
                (Basis::GpmSm, 500_000 * 10 * seconds),
                (Basis::NvmlSamples, 1_000_000 * 8 * seconds)
            ]
        );
        assert!(
            !meter.push_interval(interval(Basis::GpmSm, 9_000, 9_500, 1)),
            "below the watermark"
        );
    }

    #[test]
    fn feed_counts_each_interval_once() {
        let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
        push(&mut meter, 0..=0, 0);
        // Changes every 500 ms, then a gap that ends at a reading.
        for burst in 0..10 {
            let from = burst * 20_000 + 3_000;
            for (change, utilization) in (0..4).zip([100, 50, 100, 50]) {
                let from = from + change * 500;
                let half = interval(Basis::NvmlSamples, from, from + 500, utilization);
                assert!(meter.push_interval(half));
            }
        }
        let measured: Vec<_> = meter.feeds().map(UtilizationFeed::is_measured).collect();
        assert_eq!(measured, [false, false], "nothing is final yet");
        push(&mut meter, 1..=200, 0);
        meter.finish(&mut ());
        assert!(meter.feeds().all(UtilizationFeed::is_measured));
        let samples = meter.feeds().last().unwrap();
        assert_eq!(samples.distribution().all_readings().count, 40);
        assert_eq!(samples.update_period(), Some(Nanos::from_millis(500)));
        assert_eq!(meter.window_totals(at(200_000)).mean_reading(Basis::NvmlSamples), Some(0.75));
    }

    #[test]
    fn overlapping_interval_counts_from_where_it_is_not_covered() {
        let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
        push(&mut meter, 0..=0, 0);
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 1_000, 100)));
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 500, 3_000, 40)));
        push(&mut meter, 1..=3, 0);
        meter.finish(&mut ());
        let feed = meter.feeds().last().unwrap();
        assert_eq!(feed.distribution().all_readings().count, 2);
        assert_eq!(feed.weighted(), (1_000_000 + 2 * 400_000) * 1_000_000_000);
    }

    /// Two readings between gaps contain a single change, so no time between changes.
    #[test]
    fn update_period_ignores_gaps() {
        for basis in [Basis::NvmlGpu, Basis::NvmlSamples] {
            let mut meter = meter(MeterConfig { basis, ..config() });
            meter.push(reading(0, 0), &mut ()).unwrap();
            for burst in 1..30 {
                let from = burst * 60_000;
                if basis == Basis::NvmlSamples {
                    assert!(meter.push_interval(interval(basis, from, from + 1_000, 100)));
                    assert!(meter.push_interval(interval(basis, from + 1_000, from + 2_000, 0)));
                }
                let polled = if basis == Basis::NvmlGpu { [100, 0] } else { [0, 0] };
                meter.push(reading(from, polled[0]), &mut ()).unwrap();
                meter.push(reading(from + 1_000, polled[1]), &mut ()).unwrap();
            }
            meter.finish(&mut ());
            assert_eq!(meter.summary().update_period, None, "{basis:?}");
        }
    }

    #[test]
    fn feed_capacity_is_bounded() {
        let mut measure = UtilizationFeed::new(Basis::NvmlSamples);
        let next = |millis| interval(Basis::NvmlSamples, millis, millis + 1, 100);
        assert!((0..65_536).all(|millis| measure.push(next(millis), at(0))));
        assert!(!measure.push(next(65_536), at(0)));
    }

    #[test]
    fn bill_ignores_other_bases() {
        let mut meter = meter(config());
        push(&mut meter, 0..=0, 0);
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 9_000, 100)));
        push(&mut meter, 1..=9, 0);
        meter.finish(&mut ());
        let summary = meter.summary();
        assert_eq!((summary.basis, summary.mean_ppm()), (Basis::NvmlGpu, Some(0)));
    }

    #[test]
    fn readings_are_recorded_in_order() {
        let mut meter = meter(config());
        let mut received = Received::default();
        assert_eq!((meter.first_reading_at(), meter.last_reading()), (None, None));
        meter.push(reading(1_000, 50), &mut received).unwrap();
        assert_eq!((meter.first_reading_at(), meter.last_reading()), (Some(at(1_000)), None));
        meter.push(reading(500, 50), &mut received).unwrap();
        assert_eq!((meter.first_reading_at(), meter.last_reading()), (Some(at(500)), None));
        meter.push(reading(3_500, 50), &mut received).unwrap();
        assert_eq!(received.readings, [at(500), at(1_000)]);
        assert_eq!(meter.last_reading(), Some(&reading(1_000, 50)));
        assert_eq!(meter.first_reading_at(), Some(at(500)));
        meter.finish(&mut received);
        assert_eq!(meter.last_reading(), Some(&reading(3_500, 50)));
        assert_eq!(received.boundaries, 0, "none are configured");
    }

    #[test]
    fn readings_wait_for_the_estimate_of_stale_after() {
        let mut meter = meter(MeterConfig::default());
        let mut received = Received::default();
        for second in 0..102 + 2 {
            assert_eq!(received.readings.len(), 0, "{second} readings");
            meter.push(reading(second * 1_000, 50), &mut received).unwrap();
            assert_eq!(meter.first_reading_at(), Some(at(0)));
        }
        // Two more are in the reorder buffer.
        meter.push(reading(104_000, 50), &mut received).unwrap();
        assert_eq!(received.readings.len(), 102);
    }

    #[test]
    fn finish_is_a_boundary_if_configured() {
        let every = Nanos::from_secs(10);
        let mut meter = meter(MeterConfig { boundary_every: every, ..config() });
        let mut received = Received::default();
        for second in 0..=25 {
            meter.push(reading(second * 1_000, 50), &mut received).unwrap();
        }
        assert_eq!(received.boundaries, 2);
        meter.finish(&mut received);
        assert_eq!(received.boundaries, 3);
    }

    #[test]
    fn memory_holds_a_gpu_after_its_total_is_set() {
        let mut meter = meter(config());
        let idle = |meter: &mut GpuMeter, second: u64| {
            let memory_used = Bytes::from_mebibytes(500);
            let reading = Reading { memory_used, ..reading(second * 1_000, 0) };
            meter.push(reading, &mut ()).unwrap();
        };
        (0..=9).for_each(|second| idle(&mut meter, second));
        assert!(!meter.summary().holding_known);
        meter.set_memory_total(Bytes::from_mebibytes(1_000));
        (10..=20).for_each(|second| idle(&mut meter, second));
        meter.finish(&mut ());
        let summary = meter.summary();
        assert!(summary.holding_known);
        // The readings after 7 s were still in the reorder buffer.
        assert_eq!(summary.accounts[Account::IdleUnknown].time, Nanos::from_secs(7));
        assert_eq!(summary.accounts[Account::IdleHeld].time, Nanos::from_secs(13));
    }

    #[test]
    fn update_period_is_the_median_time_between_changes() {
        let mut meter = meter(config());
        for tick in 0..100_u64 {
            let utilization = if tick / 5 % 2 == 0 { 20 } else { 80 };
            meter.push(reading(tick * 100, utilization), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        assert_eq!(meter.summary().update_period, Some(Nanos::from_millis(500)));
    }

    #[test]
    fn final_span_start_is_the_start_of_its_span() {
        let mut meter = meter(config());
        push(&mut meter, 0..=20, 80);
        assert_eq!(meter.final_span_start(at(10_000)), Some(at(0)));
        assert_eq!(meter.final_span_start(at(30_000)), None);
    }

    #[test]
    fn window_without_sessions_is_the_whole_run() {
        let hold = StaleAfter::Fixed(Nanos::from_secs(3_600));
        let mut meter = meter(MeterConfig { stale_after: hold, ..config() });
        let hours = |hours: u64| hours * 3_600_000;
        for hour in 0..=72 {
            meter.push(reading(hours(hour), 50), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        let observed = meter.window_series().sum(Quantity::Utilization).observed;
        assert_eq!(observed, Nanos::from_millis(hours(72)));
        assert_eq!(meter.window_totals(at(hours(72))).span, Some((at(0), at(hours(72)))));
    }

    #[test]
    fn rate_change_splits_the_cost_of_its_second() {
        let mut meter = meter(config());
        push(&mut meter, 0..=3, 100);
        meter.change_rate(at(5_250), Rate::new(0).unwrap()).unwrap();
        push(&mut meter, 4..=10, 100);
        meter.finish(&mut ());
        let accounts = meter.summary().accounts;
        // $3,600 per hour is a dollar per second.
        assert_eq!(accounts.all().cost, NanoUsd(5_250_000_000));
        assert_eq!(accounts.waste(), NanoUsd::ZERO);
    }
}

mod savings {
    use super::*;

    fn saving(value: f64) -> Saving {
        Estimate::of(Fraction::new(value).unwrap())
    }

    fn savings(advised: &[(Target, Saving)]) -> Savings {
        let gpus = ["a".to_owned()];
        let recommendations: Vec<_> = advised
            .iter()
            .map(|(target, saving)| Recommendation {
                policy: "test",
                code: "test",
                target: *target,
                saving: *saving,
                gpus: &gpus,
            })
            .collect();
        let waste = WasteByCategory { idle: NanoUsd(50), ..WasteByCategory::default() };
        let rate = Rate::new(1).unwrap();
        let gpu = PricedGpu { id: "a", rate, bill: NanoUsd(100), waste, tensor_measured: false };
        Savings::of(&[gpu], &recommendations).unwrap()
    }

    const IDLE: Target = Target::ALL[1];

    #[test]
    fn saving_is_capped_only_above_the_waste() {
        assert!(!savings(&[(IDLE, saving(0.5))]).capped);
        assert!(savings(&[(IDLE, saving(0.500_000_001))]).capped);
    }

    #[test]
    fn recommendation_without_saving_does_not_count() {
        let found = savings(&[(IDLE, saving(0.0)), (Target::Rate, saving(0.1))]);
        assert_eq!(found.counted, [false, true]);
        assert_eq!(found.total.usd.expected, NanoUsd(10));
        // Only the idle category has waste.
        assert_eq!(savings(&[(Target::ALL[0], saving(0.3))]).counted, [false]);
    }

    #[test]
    fn target_names_are_distinct() {
        let names: std::collections::BTreeSet<_> = Target::ALL
            .iter()
            .map(|target| target.name())
            .filter(|name| !name.is_empty())
            .collect();
        assert_eq!(names.len(), Target::ALL.len());
    }
}
