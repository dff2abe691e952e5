//! The timeline: seconds and their accounts.

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
    let expected = [slice(4_000, 6_000, Account::IdleFree), slice(6_000, 8_000, Account::IdleHeld)];
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
