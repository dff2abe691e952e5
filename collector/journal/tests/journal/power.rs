//! Journals of runs whose machine has lost its power.

use phasemeter_engine::pipeline::Pipeline;
use phasemeter_journal::VERSION;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Millijoules, Nanos, Utilization};

use crate::damage::{assert_complete, begin, clock, expected, go_on_at, killed};
use crate::made_again::end;
use crate::run::{at, identities, run};

/// What a disk writes at once.
const SECTOR: usize = 512;

/// After the records of which a length is known, the next one says how many of them were durable when it was appended.
/// Returns their bytes.
fn durable(journal: &[u8], lengths: &[usize]) -> usize {
    let record = &journal[*lengths.last().unwrap()..];
    let number = u64::from_le_bytes(record[12..20].try_into().unwrap());
    // The first record is that of the beginning.
    lengths[usize::try_from(number).unwrap() - 2]
}

/// Numbers that follow from the one before.
fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

/// Scenario: the power fails after a step, and of what was not synced any sectors survive. The machine is started again.
/// Guarantee: the run goes on, from all that had left at least; nothing that it exports is lost or changed. It is synced only
/// where requests are made.
#[test]
fn run_goes_on_after_a_loss_of_power() {
    let (killed, (expected, made)) = (killed(begin(VERSION)), expected());
    let (mut random, mut lost, mut synced) = (7, 0, vec![]);
    for after in 0..killed.lengths.len() - 1 {
        let lengths = &killed.lengths[..=after];
        let mut kept = 0;
        let reboot = clock("another boot", 20, 40_000);
        let (from, then) = go_on_at(&killed, reboot, |bytes| {
            kept = durable(bytes, lengths);
            bytes.truncate(lengths[after]);
            bytes[kept..].chunks_mut(SECTOR).for_each(|sector| {
                if next(&mut random).is_multiple_of(2) {
                    sector.fill(0);
                }
            });
            let tail = bytes.len() - kept + 1;
            bytes.truncate(kept + usize::try_from(next(&mut random)).unwrap() % tail);
        })
        .unwrap();
        let left = killed.left_until[after];
        assert!(lengths[from - 1] >= kept, "after {after}: {from}");
        assert!(made[from - 1] >= left, "after {after}: {left} had left of {}", made[from - 1]);
        assert_complete(&killed.left[..left], &then, &expected);
        lost += after + 1 - from;
        synced.push(kept);
    }
    synced.dedup();
    assert!(lost > 0);
    let made_in = made.windows(2).filter(|two| two[0] < two[1]).count();
    assert!(synced.len() <= made_in + 1, "{} of {made_in}", synced.len());
}

/// Guarantee: after a reboot, too, a run whose journal has lost or changed a durable step is not continued, and neither is one if
/// the wall clock is before its end, or more than an hour after it.
#[test]
fn run_does_not_go_on_from_less_than_was_durable() {
    let killed = killed(begin(VERSION));
    let (_, before) = killed.lengths.split_last().unwrap();
    let reboot = || clock("another boot", 20, 40_000);
    let mut kept = 0;
    assert!(go_on_at(&killed, reboot(), |bytes| kept = durable(bytes, before)).is_some());
    for place in (0..kept).step_by(kept / 100) {
        let flipped = go_on_at(&killed, reboot(), |bytes| bytes[place] ^= 1 << (place % 8));
        assert!(flipped.is_none(), "flipped in byte {place}");
    }
    for millis in [0, 32_000, 3_640_000] {
        assert!(go_on_at(&killed, clock("another boot", 20, millis), |_| {}).is_none(), "{millis}");
    }
}

/// Scenario: a run goes on after a reboot, at which the energy counter of a GPU has begun again at zero.
/// Guarantee: its energy is what was counted before and since, and the time between is unobserved.
#[test]
fn counter_that_begins_again_at_a_reboot_adds_what_it_counted() {
    let (mut pipeline, _) = run(None);
    let gpus = identities();
    gpus.iter().for_each(|gpu| pipeline.add(gpu, at(0)));
    let read = |pipeline: &mut Pipeline<'_>, from: u64, energy: u64| {
        for tick in 0..=100 {
            let reading = Reading {
                utilization: Ok(Utilization::from_percent(50).unwrap()),
                energy: Some(Millijoules(energy + tick * 10_000)),
                ..Reading::at(at(from + tick * 100))
            };
            pipeline.ingest(0, &reading, &gpus).unwrap().unwrap();
        }
    };
    read(&mut pipeline, 0, 5_000_000_000);
    read(&mut pipeline, 600_000, 70_000);
    let summary = &end(pipeline, &gpus, 610_000)[0];
    assert_eq!(summary.energy.joules(), Some(2_000.0));
    assert_eq!(summary.length(), Nanos::from_secs(610));
    assert_eq!(summary.unobserved.no_reading, Nanos::from_secs(589));
}
