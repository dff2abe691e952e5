//! Generates the audited log: eight GPUs at 10 Hz in the format of
//! `nvidia-smi --query-gpu=… --format=csv,nounits`.
//!
//! Deterministic.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The first tick: 2026-07-27T00:00:00Z, in milliseconds since the epoch.
const START: u64 = 1_785_110_400_000;
/// Number of GPUs.
pub(crate) const GPUS: u64 = 8;
/// Memory of each GPU in MiB.
pub(crate) const MEMORY_TOTAL: u64 = 81_559;
const HEADER: &str = "timestamp, index, utilization.gpu [%], memory.used [MiB], \
                      memory.total [MiB], power.draw [W], temperature.gpu";

/// Writes a log with this many rows unless it exists. A partial log is never left at `path`.
pub(crate) fn write(path: &Path, rows: u64) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let unfinished = path.with_extension("part");
    let mut out = BufWriter::new(File::create(&unfinished)?);
    writeln!(out, "{HEADER}")?;
    for row in 0..rows {
        Row::at(row / GPUS, row % GPUS).write(&mut out)?;
    }
    out.into_inner()?.sync_all()?;
    fs::rename(unfinished, path)
}

/// Writes a log of one node with this many GPUs unless it exists.
pub(crate) fn write_fleet(path: &Path, gpus: u64, ticks: u64) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "{HEADER}")?;
    for row in 0..ticks * gpus {
        Row::at(row / gpus, row % gpus).write(&mut out)?;
    }
    out.flush()
}

/// One GPU at one tick.
pub(crate) struct Row {
    /// Milliseconds since the epoch.
    pub(crate) millis: u64,
    gpu: u64,
    /// Utilization.
    pub(crate) percent: u32,
    /// Memory in use.
    pub(crate) mebibytes: u64,
    /// Power, in hundredths of a watt.
    pub(crate) centiwatts: u32,
}

impl Row {
    /// A pure function of tick and GPU.
    pub(crate) fn at(tick: u64, gpu: u64) -> Self {
        // A driver updates its value every two ticks.
        let noise = scatter((tick / 2) * GPUS + gpu);
        let starved = (tick / (200 + 40 * gpu)).is_multiple_of(3);
        let percent = if starved { noise % 4 } else { 60 + noise % 41 };
        Self {
            millis: START + tick * 100,
            gpu,
            percent,
            mebibytes: u64::from(30_000 + noise % 64) + 4_000 * gpu,
            centiwatts: 11_500 + 545 * percent + scatter(u64::from(noise) ^ tick) % 400,
        }
    }

    /// Writes it in the format of `nvidia-smi`. Only July 27 to 31 is supported: 34,560,000 rows.
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let Self { millis, gpu, percent, mebibytes, centiwatts } = self;
        let (second, fraction) = ((millis - START) / 1_000, (millis - START) % 1_000);
        let (minute, hour, day) = (second / 60 % 60, second / 3_600 % 24, second / 86_400);
        let (second, watts, rest) = (second % 60, centiwatts / 100, centiwatts % 100);
        let (day, celsius) = (27 + day, 32 + percent / 4);
        write!(out, "2026/07/{day} {hour:02}:{minute:02}:{second:02}.{fraction:03}, {gpu}, ")?;
        writeln!(out, "{percent}, {mebibytes}, {MEMORY_TOTAL}, {watts}.{rest:02}, {celsius}")
    }
}

/// A pseudo-random number below 2^31, a pure function of its argument.
fn scatter(of: u64) -> u32 {
    let z = of.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((z ^ (z >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_matches_nvidia_smi_format() {
        let mut out = Vec::new();
        Row::at(863_999, 7).write(&mut out).unwrap();
        let row = String::from_utf8(out).unwrap();
        assert_eq!(row, "2026/07/27 23:59:59.900, 7, 77, 58062, 81559, 535.92, 51\n");
    }
}
