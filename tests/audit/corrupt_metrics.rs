//! Corrupt values and times in metrics cost their reading, and no other GPU.

use std::fmt::Write;
use std::fs;

use serde_json::{Value, json};

use crate::phasemeter::Phasemeter;
use crate::report;

/// A whole minute, in milliseconds.
const START: u64 = 1_785_110_400_000;

fn audit(log: &str) -> Value {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("samples.prom");
    fs::write(&path, log).unwrap();
    let report = Phasemeter::audit().args(["--price", "3.6"]).arg(&path).report();
    report::check(&report);
    report
}

/// Scenario: three GPUs on two hosts. One prints a corrupt utilization now and then, one a corrupt power, and a MIG
/// instance of the third an activity of 130%, all through the run.
/// Guarantee: each corrupt value costs its reading; all others are billed as if nothing happened.
#[test]
fn corrupt_value_costs_its_reading_only() {
    let corrupt = ["2619", "686103", "4294967295", "-1", "101", "+Inf", "1e300"];
    let mut log = String::new();
    for tick in 0..61 {
        let at = START + 15_000 * tick;
        let mut line = |metric: &str, gpu: &str, host: &str, further: &str, number: &str| {
            let labels = format!("UUID=\"GPU-{gpu}\",Hostname=\"{host}\"{further}");
            writeln!(log, "{metric}{{{labels}}} {number} {at}").unwrap();
        };
        let wrong = (tick % 8 == 5).then(|| corrupt[tick as usize / 8 % 7]);
        line("DCGM_FI_DEV_GPU_UTIL", "a", "n1", "", wrong.unwrap_or("80"));
        line("DCGM_FI_DEV_POWER_USAGE", "a", "n1", "", "400");
        line("DCGM_FI_DEV_GPU_UTIL", "b", "n1", "", "50");
        line("DCGM_FI_DEV_POWER_USAGE", "b", "n1", "", if wrong.is_some() { "-1" } else { "300" });
        line("DCGM_FI_DEV_GPU_UTIL", "c", "n2", "", "95");
        line("DCGM_FI_PROF_SM_ACTIVE", "d", "n2", ",GPU_I_ID=\"3\"", "1.3");
    }
    let report = audit(&log);
    assert_eq!(report["rejected_total"], 0, "{}", report["rejected_rows"]);
    // Every eighth of 60 intervals of 15 s: those of ticks 5, 13, … 53.
    let lost = 7.0 * 15.0;
    for (gpu, phase, seconds, joules) in [
        (0, "productive", 900.0 - lost, json!(400.0 * 900.0)),
        (1, "underutilized", 900.0, json!(300.0 * (900.0 - lost))),
        (2, "compute_bound", 900.0, Value::Null),
    ] {
        let gpu = &report["gpus"][gpu];
        assert_eq!(gpu["phases"][phase]["seconds"], seconds, "{gpu:#}");
        assert_eq!(gpu["unobserved_seconds"], 900.0 - seconds, "{gpu:#}");
        assert_eq!(gpu["energy_joules"], joules, "{gpu:#}");
    }
}

/// Scenario: of two GPUs on a host, one has a time that is a minute ahead, then one that is years ahead, twice, between
/// the values of the other.
/// Guarantee: the other is metered and billed as if nothing happened; of the first, the readings years ahead are
/// rejected, and it is billed to the end of the run.
#[test]
fn wrong_time_of_one_gpu_costs_no_other() {
    const YEARS: u64 = 3 * 365 * 86_400_000;
    let log = |is_wrong: bool| {
        let mut log = String::new();
        for tick in 0..40 {
            let at = START + 15_000 * tick;
            let ahead = match tick {
                10 if is_wrong => at + 61_000,
                20 | 21 if is_wrong => at + YEARS,
                _ => at,
            };
            let power = 60 + tick % 7;
            for (metric, gpu, number, at) in [
                ("DCGM_FI_DEV_GPU_UTIL", "b", 50, at),
                ("DCGM_FI_DEV_GPU_UTIL", "a", 80, ahead),
                ("DCGM_FI_DEV_POWER_USAGE", "a", 60, ahead),
                ("DCGM_FI_DEV_POWER_USAGE", "b", power, at),
                ("DCGM_FI_DEV_FB_USED", "b", 5_000, at),
            ] {
                writeln!(log, "{metric}{{UUID=\"GPU-{gpu}\",Hostname=\"n\"}} {number} {at}")
                    .unwrap();
            }
        }
        log
    };
    let metered = |is_wrong| {
        let report = audit(&log(is_wrong));
        let rejected = report["rejected_rows"].as_array().unwrap();
        // Utilization and power at two instants, in the second and third line of five.
        let lines: Vec<_> = rejected.iter().map(|row| row["line"].as_u64().unwrap()).collect();
        let expected = if is_wrong { &[102, 103, 107, 108][..] } else { &[] };
        assert_eq!(lines, expected, "{}", report["rejected_rows"]);
        let gpus = report["gpus"].as_array().unwrap();
        let gpu = |uuid| gpus.iter().find(|gpu| gpu["uuid"] == uuid).unwrap().clone();
        let (a, b) = (gpu("GPU-a"), gpu("GPU-b"));
        assert_eq!((&a["end"], &a["cost_usd"]), (&b["end"], &b["cost_usd"]));
        b
    };
    assert_eq!(metered(true), metered(false));
}
