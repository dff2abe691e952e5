//! Memory of a meter is bounded, whatever it reads. In a process of its own, which does nothing else.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Bytes, Millijoules, Milliwatts, Timestamp, Utilization};

/// Maximum memory of a meter, in KiB.
const LIMIT: u64 = 64;

const METERS: u64 = 400;

/// More readings than there are bins of memory, points of a series, or different durations.
const READINGS: u64 = 3_000;

/// Readings an hour apart after that: more than there are periods.
const HOURS: u64 = 2_000;

/// Resident memory of this process, in KiB.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// No value repeats: memory up to 4 TiB, utilization in ppm, times in milliseconds. Utilization
/// bounces, so that cycles are counted.
fn reading(tick: u64) -> Reading {
    let low = tick.is_multiple_of(2);
    let ppm = if low { tick * 317 % 90_000 } else { 700_000 + tick * 991 % 300_000 };
    let hours = tick.saturating_sub(READINGS) * 3_600_000;
    let millis = 1_785_110_400_000 + tick * 1_000 + tick * 379 % 997 + hours;
    Reading {
        utilization: Ok(Utilization::from_ppm(u32::try_from(ppm).unwrap()).unwrap()),
        memory_used: Bytes::from_mebibytes(tick * 1_390),
        power: Milliwatts::new(u32::try_from(tick).unwrap()),
        energy: Some(Millijoules(tick * 200_000)),
        ..Reading::at(Timestamp::from_millis(millis).unwrap())
    }
}

#[test]
fn meter_takes_at_most_64_kib() {
    let before = resident();
    let mut meters: Vec<_> = (0..METERS)
        .map(|_| GpuMeter::new(MeterConfig::default(), Rate::new(3_000_000_000), None))
        .collect();
    // The readings of all GPUs alternate, as in a log.
    for tick in 0..READINGS + HOURS {
        for meter in &mut meters {
            meter.push(reading(tick), &mut ()).unwrap();
        }
    }
    meters.iter_mut().for_each(|meter| meter.finish(&mut ()));
    let each = (resident() - before) / METERS;
    println!("{each} KiB");
    assert!(each <= LIMIT, "{each} KiB");
    assert!(meters.iter().all(|meter| meter.summary().memory_p95.is_some()));
}
