//! The buffer of mapped values: instants are completed, ordered, held, and not billed twice.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod exporters;
mod holders;
mod holding;
mod identity;
mod limit;
mod many;
mod mig;
mod refusals;

use phasemeter_meter::energy_source::PowerBasis;
use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, MIG_PROFILES, MissingReason};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_sources::mapping::{
    ArrivedAt, GpuId, GpuLabels, GpuValue, HeldReading, LabeledHolder, MigInstance, PodLabels,
    ReadingBuffer, Value,
};
use proptest::prelude::*;

const HOLD: Nanos = Nanos::from_secs(90);

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_millis(seconds * 1_000).unwrap()
}

fn labels(uuid: &str) -> GpuLabels {
    GpuLabels { id: GpuId::uuid(uuid.to_owned()), ..GpuLabels::default() }
}

fn percent(percent: u32) -> Utilization {
    Utilization::from_percent(percent).unwrap()
}

fn utilization(uuid: &str, seconds: u64, basis: Basis, value: u32) -> GpuValue {
    GpuValue {
        gpu: labels(uuid),
        at: at(seconds),
        quantity: Some(Quantity::Utilization),
        rank: 0,
        basis: Some(basis),
        value: Ok(Value::Utilization(basis, percent(value))),
    }
}

fn power(uuid: &str, at: Timestamp, watts: u32) -> GpuValue {
    let value = Ok(Value::Power(Milliwatts::new(watts * 1_000).unwrap(), PowerBasis::Metric));
    GpuValue { gpu: labels(uuid), at, quantity: Some(Quantity::Power), rank: 0, basis: None, value }
}

fn arrival(seconds: u64) -> Nanos {
    Nanos::from_secs(1_000 + seconds)
}

/// The buffer after readings every 15 s that arrive at once.
fn every_15_seconds(count: u64) -> ReadingBuffer {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    for i in 0..count {
        let value = utilization("GPU-a", i * 15, Basis::DcgmGpu, 50);
        buffer.insert(value, arrival(i * 15));
    }
    buffer
}

fn times(released: &[HeldReading]) -> Vec<u64> {
    released.iter().map(|held| held.reading.at.whole_second()).collect()
}

#[test]
fn reading_is_released_once_it_was_held() {
    let mut buffer = every_15_seconds(7);
    assert_eq!(times(&buffer.release(arrival(89))), [0_u64; 0]);
    assert_eq!(times(&buffer.release(arrival(105))), [0, 15]);
    let rest = buffer.release_all();
    assert_eq!(times(&rest), [30, 45, 60, 75, 90]);
    assert!(rest.iter().all(|held| held.stale_after == Nanos::from_secs(45)));
    assert!(rest.iter().all(|held| held.billed_elsewhere.is_empty() && held.pauses.is_empty()));
}

#[test]
fn values_of_one_instant_are_one_reading_in_any_order() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let near = Timestamp::from_millis(15_200).unwrap();
    buffer.insert(power("GPU-a", near, 300), arrival(0));
    buffer.insert(utilization("GPU-a", 15, Basis::DcgmSm, 20), arrival(1));
    buffer.insert(utilization("GPU-a", 15, Basis::DcgmGpu, 90), arrival(2));
    let released = buffer.release_all();
    let [HeldReading { reading, basis, .. }] = &released[..] else { panic!("{released:?}") };
    assert_eq!(
        (reading.at, *basis, reading.utilization),
        (at(15), Basis::DcgmGpu, Ok(percent(90)))
    );
    assert_eq!(reading.power.map(Milliwatts::get), Some(300_000));
}

#[test]
fn memory_is_what_is_used_and_free_unless_it_is_measured() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let mut insert = |seconds, quantity, value: fn(Bytes) -> Value, mebibytes| {
        let value = Ok(value(Bytes::from_mebibytes(mebibytes).unwrap()));
        let value = GpuValue {
            gpu: labels("GPU-a"),
            at: at(seconds),
            quantity: Some(quantity),
            rank: 0,
            basis: None,
            value,
        };
        buffer.insert(value, arrival(seconds));
        buffer.release(arrival(seconds));
        buffer.identities()[0].memory_total.map(|bytes| bytes.get() >> 20)
    };
    assert_eq!(insert(0, Quantity::MemoryUsed, Value::MemoryUsed, 4_000), None);
    assert_eq!(insert(15, Quantity::MemoryFree, Value::MemoryFree, 77_000), None);
    assert_eq!(insert(15, Quantity::MemoryUsed, Value::MemoryUsed, 3_000), None, "it is held");
    assert_eq!(insert(105, Quantity::MemoryFree, Value::MemoryFree, 77_000), Some(80_000));
    assert_eq!(insert(120, Quantity::MemoryTotal, Value::MemoryTotal, 81_559), Some(80_000));
    assert_eq!(insert(210, Quantity::MemoryUsed, Value::MemoryUsed, 3_000), Some(81_559));
}

#[test]
fn configured_basis_is_preferred() {
    let mut buffer = ReadingBuffer::new(HOLD, Some(Basis::DcgmSm), None);
    buffer.insert(utilization("GPU-a", 15, Basis::DcgmGpu, 90), arrival(0));
    buffer.insert(utilization("GPU-a", 15, Basis::DcgmSm, 20), arrival(0));
    assert_eq!(buffer.release_all()[0].basis, Basis::DcgmSm);
}

#[test]
fn second_sender_of_a_gpu_adds_no_readings() {
    let mut buffer = every_15_seconds(7);
    for i in 0..6 {
        buffer.insert(utilization("GPU-a", i * 15 + 7, Basis::HwGpu, 3), arrival(i * 15 + 7));
    }
    assert_eq!(times(&buffer.release_all()), [0, 15, 30, 45, 60, 75, 90]);
}

/// A value that is missing or corrupt costs a reading of its own sender, not of another one.
#[test]
fn missing_value_of_a_second_sender_ends_no_reading() {
    let missing = |basis: Basis, seconds: u64| {
        let value = utilization("GPU-a", seconds, basis, 0);
        GpuValue { value: Err(MissingReason::Unreadable), ..value }
    };
    let mut buffer = every_15_seconds(7);
    buffer.insert(missing(Basis::HwGpu, 37), arrival(37));
    buffer.insert(missing(Basis::DcgmGpu, 52), arrival(52));
    let released = buffer.release_all();
    assert_eq!(times(&released), [0, 15, 30, 45, 52, 60, 75, 90]);
    let missing: Vec<_> = released.iter().filter(|it| it.reading.utilization.is_err()).collect();
    assert_eq!(missing.len(), 1);
    assert_eq!(missing[0].reading.utilization, Err(MissingReason::Unreadable));
}

#[test]
fn pause_is_longer_than_stale_after() {
    let mut buffer = every_15_seconds(7);
    buffer.insert(utilization("GPU-a", 300, Basis::DcgmGpu, 50), arrival(300));
    let last = buffer.release_all().pop().unwrap();
    assert_eq!((last.billed_elsewhere, last.pauses), (vec![], vec![(at(135), at(300))]));
}

#[test]
fn time_billed_elsewhere_is_named_and_its_readings_are_dropped() {
    let mut buffer = every_15_seconds(20);
    buffer.cover("GPU-a", at(40), at(100), "agent", Nanos::ZERO);
    buffer.cover("GPU-a", at(100), at(160), "agent", Nanos::ZERO);
    let released = buffer.release_all();
    assert_eq!(times(&released)[..4], [0, 15, 30, 165]);
    assert_eq!(released[3].billed_elsewhere, [(at(40), at(160))]);
    assert_eq!(released[3].pauses, [(at(160), at(165))]);
    assert_eq!(buffer.handed_over(0), None, "it came back");
    buffer.cover("GPU-a", at(300), at(400), "agent", Nanos::ZERO);
    assert_eq!(buffer.handed_over(0), Some(at(300)));
    let mut other = every_15_seconds(3);
    other.cover("GPU-b", at(0), at(100), "agent", Nanos::ZERO);
    assert_eq!(other.release_all().len(), 3, "another GPU");
}

#[test]
fn gpu_in_mig_mode_without_activity_of_an_instance_is_not_supported() {
    let mut buffer = ReadingBuffer::new(HOLD, None, None);
    let instance = |id: &str, profile: &str| {
        Some(MigInstance { id: id.to_owned(), profile: Some(profile.to_owned()) })
    };
    for (id, profile) in [("9", "1g.10gb"), ("2", "3g.40gb"), ("9", "1g.10gb")] {
        let mut value = match id {
            "9" => holders::memory(15, 5_000),
            _ => utilization("GPU-a", 15, Basis::DcgmGrEngine, 90),
        };
        value.gpu.instance = instance(id, profile);
        buffer.insert(value, arrival(0));
    }
    assert_eq!(buffer.identities()[0].attributes[MIG_PROFILES], "3g.40gb 1g.10gb");
    let released = buffer.release_all();
    assert_eq!(released[0].reading.utilization, Err(MissingReason::NotSupported));
}

#[test]
fn late_or_excessive_values_are_dropped_and_counted() {
    let mut buffer = every_15_seconds(7);
    buffer.release(arrival(105));
    assert!(buffer.insert(utilization("GPU-a", 10, Basis::DcgmGpu, 1), arrival(106)).is_late);
    assert_eq!(buffer.dropped(), 1);
    for instant in 0..2_000 {
        buffer.insert(utilization("GPU-a", 1_000 + instant, Basis::DcgmGpu, 1), arrival(107));
    }
    let of_first = buffer.release_all().iter().filter(|held| held.buffer_index == 0).count();
    assert_eq!(of_first, 1_024);
}

#[test]
fn gpu_is_final_once_it_is_silent_or_billed_elsewhere() {
    let mut buffer = every_15_seconds(7);
    let final_until = |buffer: &ReadingBuffer, seconds: u64| {
        buffer.final_until(arrival(seconds), at(seconds)).collect::<Vec<_>>()
    };
    buffer.release(arrival(150));
    assert_eq!(final_until(&buffer, 150), [], "readings are held");
    buffer.release(arrival(180));
    assert_eq!(final_until(&buffer, 90 + 90 + 45), [], "the last one represents the present");
    assert_eq!(final_until(&buffer, 226), [(0, at(226))]);
    buffer.insert(utilization("GPU-a", 230, Basis::DcgmGpu, 50), arrival(230));
    assert_eq!(final_until(&buffer, 300), []);
    buffer.cover("GPU-a", at(200), at(400), "agent", Nanos::ZERO);
    buffer.release_all();
    assert_eq!(final_until(&buffer, 301), [(0, at(230))], "another meter bills it");
}

proptest! {
    /// Guarantee: what arrives within the hold of its time is never late, and readings of a GPU are in order, however
    /// far ahead the clock of another sender of the same GPU is.
    #[test]
    fn clock_of_one_sender_makes_no_reading_of_another_late(
        delays in prop::collection::vec(0_u64..90, 40),
        ahead in prop::collection::vec(0_u64..=300, 40),
    ) {
        let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
        let mut arrivals: Vec<_> = (0..40).zip(delays).map(|(i, delay)| (i * 15 + delay, i * 15, 0)).collect();
        arrivals.extend((0..40).zip(ahead).map(|(i, ahead)| (i * 15, i * 15 + ahead, ahead)));
        arrivals.sort_unstable();
        let mut released = Vec::new();
        for (now, time, ahead) in arrivals {
            released.extend(times(&buffer.release(arrival(now))));
            let ahead = Nanos::from_secs(ahead);
            let value = utilization("GPU-a", time, Basis::DcgmGpu, 50);
            let inserted = buffer.insert(value, ArrivedAt { at: arrival(now), ahead });
            prop_assert!(!inserted.is_late, "{time} at {now}");
        }
        released.extend(times(&buffer.release_all()));
        prop_assert!(released.is_sorted());
        prop_assert!((0..40).all(|i| released.contains(&(i * 15))));
    }

    /// In any order of arrival, the same readings are released; what is billed elsewhere and pauses lie
    /// between readings, and apart.
    #[test]
    fn order_of_arrival_changes_nothing(
        instants in prop::collection::btree_set(0_u64..2_000, 1..60),
        covered in prop::collection::vec((0_u64..2_000, 0_u64..300), 0..4),
        seed in any::<u64>(),
    ) {
        let release = |order: &[u64]| {
            let mut buffer = ReadingBuffer::new(HOLD, None, Some(Nanos::from_secs(45)));
            for (from, length) in &covered {
                buffer.cover("GPU-a", at(*from), at(from + length), "agent", Nanos::ZERO);
            }
            for instant in order {
                buffer.insert(utilization("GPU-a", *instant, Basis::DcgmGpu, 5), arrival(0));
                buffer.insert(power("GPU-a", at(*instant), 100), arrival(0));
            }
            buffer.release_all()
        };
        let sorted: Vec<u64> = instants.into_iter().collect();
        let mut shuffled = sorted.clone();
        shuffled.sort_by_key(|instant| (instant ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let released = release(&sorted);
        prop_assert_eq!(&release(&shuffled), &released);
        let mut last = None;
        for held in &released {
            let elsewhere = &held.billed_elsewhere;
            for (from, to) in elsewhere.iter().chain(&held.pauses) {
                prop_assert!(last.is_some_and(|last| last <= *from) && from < to);
                prop_assert!(*to <= held.reading.at);
            }
            let overlaps = |pause: &(Timestamp, Timestamp)| {
                elsewhere.iter().any(|(from, to)| pause.0 < *to && *from < pause.1)
            };
            prop_assert!(!held.pauses.iter().any(overlaps));
            last = Some(held.reading.at);
        }
    }
}
