//! Writes the log of an instance as `nvidia-smi --format=csv` would.

use std::io::{self, Write};

use time::UtcDateTime;

use crate::fleet::Fleet;
use crate::prng::Prng;
use crate::trace::Sample;

/// 2026-07-27T00:00:00Z, a Monday, in seconds since the epoch.
const MONDAY: f64 = 1_785_110_400.0;

const HEADER: &str = "timestamp, index, uuid, name, utilization.gpu [%], memory.used [MiB], \
                      memory.total [MiB], power.draw [W], enforced.power.limit [W]";

/// Power without a process, with one, and of a kernel that computes nothing, as shares of the limit.
const IDLE: f64 = 0.1;
const HELD: f64 = 0.14;
const HUNG: f64 = 0.2;
const FULL: f64 = 0.9;

/// The ID of a GPU.
pub(crate) fn uuid(gpu: usize) -> String {
    format!("GPU-00000000-0000-4000-8000-{gpu:012}")
}

/// Writes the log of one instance.
pub(crate) fn write(fleet: &Fleet, instance: usize, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEADER}")?;
    let model = fleet.offer.model;
    let total = 0.96 * model.memory_gib * 1_024.0;
    let mut noise = Prng::of(fleet.number, 4 + instance as u64);
    let gpus: Vec<_> = fleet.gpus_of(instance).map(|gpu| (gpu, uuid(gpu))).collect();
    let readings = fleet.traces.first().map_or(0, |trace| trace.0.len());
    for at in 0..readings {
        let timestamp = timestamp(MONDAY + at as f64 * fleet.interval);
        for (index, (gpu, uuid)) in gpus.iter().enumerate() {
            let Some(sample) = fleet.traces.get(*gpu).and_then(|trace| trace.0.get(at)) else {
                continue;
            };
            let used = (sample.memory_gib * 1_024.0).min(total);
            let percent = (sample.load * 100.0).round() as u64;
            let watts = model.watts * (power(*sample) + noise.within((0.0, 0.01)));
            writeln!(
                out,
                "{timestamp}, {index}, {uuid}, {}, {percent} %, {used:.0} MiB, {total:.0} MiB, {watts:.2} W, \
                 {:.2} W",
                model.name, model.watts,
            )?;
        }
    }
    Ok(())
}

/// Power as a share of the limit.
fn power(sample: Sample) -> f64 {
    let idle = if sample.is_held() { HELD } else { IDLE };
    if sample.hangs { HUNG } else { idle + (FULL - idle) * sample.load }
}

/// Formats an instant as `nvidia-smi` does.
fn timestamp(seconds: f64) -> String {
    let at = UtcDateTime::from_unix_timestamp(seconds as i64).unwrap_or(UtcDateTime::UNIX_EPOCH);
    let (year, month, day) = (at.year(), u8::from(at.month()), at.day());
    let (hour, minute, second) = at.as_hms();
    format!("{year}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.000")
}
