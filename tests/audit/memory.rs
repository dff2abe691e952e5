//! Memory of an audit is bounded per GPU, whatever a log contains.

use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use wait4::Wait4;

use crate::calendar;

const START: u64 = 1_785_110_400_000;

/// More rows than there are bins of memory, points of a series, or different durations.
const TICKS: u64 = 2_500;

const GPUS: [u64; 2] = [4, 68];

/// Maximum memory per GPU, in bytes.
const LIMIT: u64 = 64 << 10;

/// No value repeats: memory up to 4 TiB, utilization in hundredths of a percent, times in milliseconds.
/// Utilization bounces, so that cycles are counted.
fn hostile_log(gpus: u64) -> String {
    let mut log = "timestamp, index, utilization.gpu [%], memory.used [MiB], power.draw [W], \
                   total_energy_consumption [mJ]\n"
        .to_owned();
    for tick in 0..TICKS {
        let at = calendar::format_millis(START + tick * 1_000 + tick * 379 % 997);
        let hundredths = if tick % 2 == 0 { tick * 7 % 1_000 } else { 7_000 + tick * 11 % 3_000 };
        let percent = format!("{}.{:02}", hundredths / 100, hundredths % 100);
        for gpu in 0..gpus {
            let (mebibytes, counter) = (tick * 1_601 + gpu, tick * 200_000);
            writeln!(log, "{at}, {gpu}, {percent}, {mebibytes}, {}, {counter}", tick % 700)
                .unwrap();
        }
    }
    log
}

/// Peak resident memory of an audit of this log.
fn peak(log: &Path) -> u64 {
    let child = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
        .env_clear()
        .args(["audit", "--format", "json", "--no-default-policies", "--price", "3"])
        .arg(log)
        .stdin(Stdio::null())
        .stdout(File::create(log.with_extension("json")).unwrap())
        .spawn();
    let usage = child.unwrap().wait4().unwrap();
    assert!(usage.status.success());
    usage.rusage.maxrss
}

#[test]
fn hostile_log_takes_at_most_64_kib_per_gpu() {
    let dir = tempfile::tempdir().unwrap();
    let [few, many] = GPUS.map(|gpus| {
        let log = dir.path().join(format!("{gpus}.csv"));
        std::fs::write(&log, hostile_log(gpus)).unwrap();
        peak(&log)
    });
    let each = many.saturating_sub(few) / (GPUS[1] - GPUS[0]);
    assert!(each <= LIMIT, "{each} bytes per GPU; {few} bytes with {} GPUs", GPUS[0]);
}
