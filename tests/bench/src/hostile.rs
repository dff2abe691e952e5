//! An audit of a log made to cost as much memory and time as possible: many GPUs, each of whose values
//! differs from all before, and an export between any two rows.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use crate::child::Usage;
use crate::costs::grouped;
use crate::paths::Paths;
use crate::{BenchError, audit};

/// Numbers of GPUs: the difference of two runs is the cost of the additional GPUs.
const GPUS: [u64; 2] = [4, 20];

/// Rows per GPU, more than an export interval apart.
const TICKS: u64 = 9_000;

const HEADER: &str = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W], \
                      total_energy_consumption [mJ]";

/// Runs the audits and prints the tables.
pub(crate) fn bench(paths: &Paths) -> Result<(), BenchError> {
    println!("Audit of a hostile log: {} rows per GPU, exported after each\n", grouped(TICKS));
    print(paths, "without policies", audit::run_with_export)?;
    print(paths, "with policies", audit::run_with_export_and_policies)
}

/// Runs an audit of each log and prints a table.
fn print(
    paths: &Paths,
    title: &str,
    audit: impl Fn(&Paths, &[PathBuf]) -> Result<Usage, BenchError>,
) -> Result<(), BenchError> {
    println!("{title:28}{:>12}{:>16}{:>16}", "peak", "peak per GPU", "CPU time per row");
    let mut first = None;
    for gpus in GPUS {
        let log = paths.file(&format!("hostile-{gpus}.csv"));
        write(&log, gpus).map_err(BenchError::at(&log))?;
        let bytes = fs::metadata(&log).map_err(BenchError::at(&log))?.len();
        let usage = audit(paths, std::slice::from_ref(&log))?;
        let mebibytes = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (few, base) = *first.get_or_insert((gpus, usage.peak));
        let per_gpu = usage.peak.saturating_sub(base).checked_div(gpus - few);
        let per_gpu = per_gpu.map_or_else(String::new, |bytes| format!("{} KiB", bytes / 1_024));
        let name = format!("{gpus} GPUs, {:.1} MiB", mebibytes(bytes));
        let micros = usage.cpu.as_secs_f64() * 1e6 / (gpus * TICKS) as f64;
        println!("{name:28}{:>8.1} MiB{per_gpu:>16}{micros:>13.1} µs", mebibytes(usage.peak));
    }
    println!();
    Ok(())
}

/// Writes the log of this many GPUs.
fn write(path: &Path, gpus: u64) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "{HEADER}")?;
    for tick in 0..TICKS {
        // 61 s apart, then 1 s longer every time the hour is full.
        let seconds = tick * 61 + tick * tick / 3_600;
        let (day, hour) = (1 + seconds / 86_400, seconds / 3_600 % 24);
        let (minute, second) = (seconds / 60 % 60, seconds % 60);
        for gpu in 0..gpus {
            let (percent, rest) = (tick * 7 % 100, tick * 13 % 100);
            let mebibytes = (tick + gpu) % 8_192 * 512;
            writeln!(
                out,
                "2026/07/{day:02} {hour:02}:{minute:02}:{second:02}.000, {gpu}, {percent}.{rest:02}, \
                 {mebibytes}, {}.00, {}",
                tick % 700,
                tick * 61_000,
            )?;
        }
    }
    out.flush()
}
