//! The count of a stream is the truth, whatever the order of its points, and however often each arrives.

#![allow(clippy::cast_precision_loss, reason = "small numbers")]

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_work::counter::{Cumulative, CumulativePoint, Delta, DeltaPoint};
use proptest::prelude::*;

const START: u64 = 1_000;

fn at(seconds: u64) -> Timestamp {
    Timestamp::EPOCH + Nanos::from_secs(START + seconds)
}

/// Increments of each second, cut by resets.
fn segments() -> impl Strategy<Value = Vec<Vec<u32>>> {
    prop::collection::vec(prop::collection::vec(0..1_000_u32, 1..20), 1..4)
}

/// An order of `n` points in which each is at least once.
fn arrivals(n: usize) -> impl Strategy<Value = Vec<usize>> {
    let again = prop::collection::vec(0..n.max(1), 0..10);
    again.prop_flat_map(move |again| Just((0..n).chain(again).collect::<Vec<_>>()).prop_shuffle())
}

fn with_arrivals() -> impl Strategy<Value = (Vec<Vec<u32>>, Vec<usize>)> {
    segments().prop_flat_map(|segments| {
        let points = segments.iter().map(Vec::len).sum();
        (Just(segments), arrivals(points))
    })
}

fn total(segments: &[Vec<u32>]) -> u64 {
    segments.iter().flatten().copied().map(u64::from).sum()
}

proptest! {
    #[test]
    fn cumulative_stream_counts_each_increment_once((segments, order) in with_arrivals()) {
        let mut points = Vec::new();
        let mut second = 0;
        for segment in &segments {
            let (start, mut value) = (second, 0_u64);
            for increment in segment {
                second += 1;
                value += u64::from(*increment);
                points.push(CumulativePoint { start: Some(at(start)), at: at(second), value: value as f64 });
            }
        }
        let mut stream = Cumulative::new(at(0));
        let mut sum = 0;
        for index in order {
            sum += stream.add(points[index]);
        }
        prop_assert_eq!(sum, total(&segments));
        prop_assert_eq!(stream.counted(), sum);
    }

    #[test]
    fn delta_stream_counts_each_increment_once((segments, order) in with_arrivals()) {
        let increments = segments.concat();
        let mut stream = Delta::default();
        let mut sum = 0;
        for index in order {
            let (start, value) = (at(index as u64), f64::from(increments[index]));
            sum += stream.add(DeltaPoint { start, at: start + Nanos::SECOND, value });
        }
        prop_assert_eq!(sum, total(&segments));
    }

    /// Without start times, in order: a fall is a reset, and the first value precedes the run.
    #[test]
    fn stream_without_start_counts_from_its_first_value(segments in segments()) {
        let mut stream = Cumulative::new(at(0));
        let (mut second, mut sum, mut expected, mut last) = (0, 0, 0, None);
        for segment in &segments {
            let mut value = 0;
            for increment in segment {
                second += 1;
                value += u64::from(*increment);
                expected += match last {
                    None => 0,
                    Some(before) if value >= before => value - before,
                    Some(_) => value,
                };
                last = Some(value);
                let point = CumulativePoint { start: None, at: at(second), value: value as f64 };
                sum += stream.add(point);
                prop_assert_eq!(stream.add(point), 0, "a duplicate");
            }
        }
        prop_assert_eq!(sum, expected);
    }
}

#[test]
fn work_before_the_run_is_not_counted() {
    let mut stream = Cumulative::new(at(100));
    let point = |second, value| CumulativePoint { start: Some(at(0)), at: at(second), value };
    assert_eq!(stream.add(point(110, 5_000.0)), 0);
    assert_eq!(stream.add(point(120, 5_010.0)), 10);
    assert_eq!(stream.add(point(115, 5_004.0)), 0, "late");
}

/// Scenario: a server restarts, and its sender keeps the start time of the first point.
/// Guarantee: what it counts afterwards is work, as without a start time, even if it restarts again.
#[test]
fn fall_under_the_same_start_is_a_reset() {
    let values = [0.0, 7_000.0, 13_500.0, 500.0, 9_000.0, 12_000.0, 0.0, 4_500.0];
    for start in [Some(at(0)), None] {
        let mut stream = Cumulative::new(at(0));
        for (second, value) in (1..).zip(values) {
            stream.add(CumulativePoint { start, at: at(second), value });
        }
        assert_eq!(stream.counted(), 30_000, "{start:?}");
        let late = CumulativePoint { start, at: at(3), value: 13_500.0 };
        assert_eq!(stream.add(late), 0, "{start:?}");
        assert_eq!(stream.falls(), if start.is_some() { 2 } else { 0 });
    }
}

#[test]
fn invalid_values_are_ignored() {
    let mut stream = Cumulative::new(at(0));
    let mut delta = Delta::default();
    for value in [f64::NAN, f64::INFINITY, -1.0] {
        assert_eq!(stream.add(CumulativePoint { start: Some(at(0)), at: at(1), value }), 0);
        assert_eq!(delta.add(DeltaPoint { start: at(0), at: at(1), value }), 0);
    }
    assert_eq!(delta.add(DeltaPoint { start: at(0), at: at(1), value: 0.5 }), 0);
    assert_eq!(delta.add(DeltaPoint { start: at(1), at: at(2), value: 0.5 }), 1, "halves add up");
}

#[test]
fn deltas_that_overlap_counted_time_are_ignored() {
    let mut delta = Delta::default();
    let point = |from, to, value| DeltaPoint { start: at(from), at: at(to), value };
    assert_eq!(delta.add(point(10, 20, 4.0)), 4);
    assert_eq!(delta.add(point(15, 25, 4.0)), 0);
    assert_eq!(delta.add(point(0, 30, 4.0)), 0);
    assert_eq!(delta.add(point(20, 30, 4.0)), 4);
    assert_eq!(delta.add(point(0, 10, 1.0)), 1, "late, but its time was not counted");
}

/// As receivers of Prometheus pages may adjust it: the first point of a stream starts at its own time.
#[test]
fn stream_that_starts_at_its_first_point_counts_from_there() {
    let mut stream = Cumulative::new(at(0));
    let point =
        |start, second, value| CumulativePoint { start: Some(at(start)), at: at(second), value };
    assert_eq!(stream.add(point(10, 10, 5_000.0)), 0, "done before");
    assert_eq!(stream.add(point(10, 20, 5_010.0)), 10);
    assert_eq!(stream.add(point(30, 30, 7.0)), 7, "a reset");
    assert_eq!(stream.add(point(30, 40, 9.0)), 2);
    assert_eq!(stream.add(point(60, 60, 20.0)), 11, "an interruption");
    assert_eq!(stream.add(point(60, 60, 20.0)), 0, "a duplicate");
    assert_eq!(stream.add(point(30, 35, 8.0)), 0, "late");
}
