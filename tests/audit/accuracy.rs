//! Seconds, dollars, spans, percentiles and joules equal the definitions to the millisecond and the
//! nano-dollar.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use phasemeter_oracle::report::Expected;
use phasemeter_oracle::{ORACLE_ACCOUNTS, OracleAccount, calendar};
use serde_json::Value;

use crate::logs::{Ids, Plan};
use crate::phasemeter::Phasemeter;
use crate::report::{self, list, millis, nanos};
use crate::{otlp, promises, trace};

/// $3.30 per GPU-hour, not a whole number of nano-dollars per second.
const RATE: i128 = 3_300_000_000;

/// The directory of recorded logs: set in the environment, else next to the repository.
fn recorded_logs() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let dir = env::var_os("PHASEMETER_SHARED_DATA").map_or_else(default, PathBuf::from);
    Some(dir.join("nvidia-smi")).filter(|dir| dir.is_dir())
}

#[test]
fn recorded_logs_match_oracle() {
    let Some(dir) = recorded_logs() else {
        // Not `eprintln!`: the test runner captures it.
        let skipped =
            b"\nSKIPPED: recorded logs: set PHASEMETER_SHARED_DATA to their directory\n\n";
        _ = std::io::Write::write_all(&mut std::io::stderr(), skipped);
        return;
    };
    for name in ["a100-half-duty.csv", "a100-transient.csv", "v100-power-steps.csv"] {
        let path = dir.join(name);
        let text = fs::read_to_string(&path).unwrap();
        check(name, &text, &[path.to_str().unwrap()], 1, 0);
        let report = Phasemeter::audit().args(["--price", "3.3"]).arg(&path).report();
        promises::check(&report, name);
    }
}

#[test]
fn generated_logs_match_oracle() {
    let plan = Plan::default();
    let hour = 3_600_000;
    let plans = [
        ("fast", Plan { gpus: 1, every: 10, ticks: 4_000, ..plan }),
        ("node", Plan { seed: 2, gpus: 8, ids: Ids::Uuid, ..plan }),
        ("seconds", Plan { seed: 3, every: 1_000, ticks: 900, ids: Ids::BusId, ..plan }),
        ("minutes", Plan { seed: 4, every: 30_000, ticks: hour / 30_000, jitter: 900, ..plan }),
        ("gaps", Plan { seed: 5, pause_after: 97, pause: 45_017, ticks: 700, ..plan }),
        ("missing", Plan { seed: 6, missing: 80, every: 250, ticks: 1_200, ..plan }),
        ("late", Plan { seed: 7, late: 2_000, jitter: 70, ticks: 900, ids: Ids::Uuid, ..plan }),
        ("short pauses", Plan { seed: 8, pause_after: 31, pause: 700, missing: 20, ..plan }),
        ("odd cadence", Plan { seed: 9, every: 333, jitter: 300, ticks: 2_000, gpus: 3, ..plan }),
        ("around a second", Plan { seed: 10, every: 999, jitter: 2, ticks: 600, ..plan }),
        (
            "all at once",
            Plan { seed: 11, late: 1_500, missing: 150, every: 50, ticks: 2_500, ..plan },
        ),
        (
            "five seconds",
            Plan { seed: 12, every: 5_000, ticks: 700, pause_after: 50, pause: hour / 4, ..plan },
        ),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (name, plan) in plans {
        let path = dir.path().join("made.csv");
        let text = plan.text();
        fs::write(&path, &text).unwrap();
        check(name, &text, &[path.to_str().unwrap()], 1, 0);
    }
}

#[test]
fn interleaved_rows_match_oracle() {
    let plan = Plan { gpus: 3, ids: Ids::Nothing, ticks: 900, missing: 10, ..Plan::default() };
    for (seed, every) in [(21, 500), (22, 1_000), (23, 10_000)] {
        let text = Plan { seed, every, jitter: every / 10, ..plan }.text();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("interleaved.csv");
        fs::write(&path, &text).unwrap();
        check("interleaved", &text, &[path.to_str().unwrap(), "--gpu-count", "3"], 3, 0);
    }
}

#[test]
fn utc_offset_only_shifts_timestamps() {
    let text = Plan { seed: 31, ..Plan::default() }.text();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("zone.csv");
    fs::write(&path, &text).unwrap();
    // Whole seconds are the same in both zones; only their names differ.
    let half_past_five = 19_800_000;
    check("zone", &text, &[path.to_str().unwrap(), "--utc-offset", "+05:30"], 1, half_past_five);
    let given = Phasemeter::audit().arg(&path).args(["--utc-offset", "+05:30"]).report();
    let zone = "hours of the week are in UTC+05:30, as given";
    assert!(list(&given["assumptions"]).iter().any(|note| note == zone), "{given:#}");
}

#[test]
fn missing_columns_are_reported_as_null() {
    let plan = Plan { seed: 41, ..Plan::default() };
    let dir = tempfile::tempdir().unwrap();
    for columns in [
        &["timestamp", "index", "utilization.gpu"][..],
        &["index", "memory.used", "timestamp"],
        &["timestamp", "power.draw", "index"],
        &["power.draw", "index", "memory.used", "timestamp", "utilization.gpu"],
    ] {
        let mut style = plan.style();
        style.columns = columns.to_vec();
        let text = style.write(&plan.rows());
        let path = dir.path().join("few.csv");
        fs::write(&path, &text).unwrap();
        check(&columns.join(" "), &text, &[path.to_str().unwrap()], 1, 0);
    }
}

/// Memory known only at times, power in three columns and a counter that restarts.
#[test]
fn patchy_columns_match_oracle() {
    let plan = Plan { missing: 50, ticks: 900, ids: Ids::Uuid, ..Plan::default() };
    let dir = tempfile::tempdir().unwrap();
    for (seed, every) in [(51, 100), (52, 250), (53, 1_000), (54, 30_000)] {
        let plan = Plan { seed, every, jitter: every / 20, ..plan };
        let mut style = plan.style();
        style.patchy = true;
        let power = ["power.draw.instant", "power.draw.average", "total_energy_consumption"];
        style.columns.extend(power);
        let text = style.write(&plan.rows());
        let path = dir.path().join("patchy.csv");
        fs::write(&path, &text).unwrap();
        check(&format!("every {every} ms"), &text, &[path.to_str().unwrap()], 1, 0);
    }
}

/// Audits a log and compares the report and the OTLP file with the reference. `ahead`: milliseconds by
/// which the clock of the log is ahead of UTC.
fn check(name: &str, text: &str, args: &[&str], gpus: usize, ahead: u64) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.jsonl");
    let report = Phasemeter::audit()
        .args(args)
        .args(["--price", "3.30", "--otlp-file", file.to_str().unwrap()])
        .report();
    report::check(&report);
    assert_eq!(report["rejected_total"], 0, "{name}: {report:#}");
    let captured = otlp::read(&fs::read_to_string(&file).unwrap());
    trace::check_sums(&report, &captured);

    let reference = phasemeter_oracle::report::read(text, gpus);
    let reported = list(&report["gpus"]);
    assert_eq!(reported.len(), reference.len(), "{name}");
    let listed: Vec<_> = reference.iter().map(|gpu| gpu.listed("")).collect();
    let ends = phasemeter_oracle::fleet::ends(&listed);
    for (gpu, end) in reference.iter().zip(ends) {
        let mine = reported.iter().find(|reported| reported["id"] == gpu.name.as_str());
        let mine = mine.or(reported.first().filter(|_| reference.len() == 1)).unwrap();
        let expected = gpu.expected(RATE, end);
        let name = format!("{name}, GPU {}", gpu.name);
        check_time(&name, mine, &expected, ahead);
        check_money(&name, mine, &expected);
        check_measured(&name, mine, &expected);
        check_otlp(&name, &captured, &gpu.name, &expected, ahead);
    }
}

fn seconds_of(expected: &Expected, books: &[OracleAccount]) -> (u64, i128) {
    let of = ORACLE_ACCOUNTS.iter().zip(expected.time.iter().zip(expected.cost));
    let of = of.filter(|(book, _)| books.contains(book));
    of.fold((0, 0), |(time, cost), (_, (more, dearer))| (time + more, cost + dearer))
}

const IDLE: [OracleAccount; 3] =
    [OracleAccount::IdleHeld, OracleAccount::IdleFree, OracleAccount::IdleUnknown];

/// The accounts that each field of the report sums.
const FIELDS: [(&str, &[OracleAccount]); 7] = [
    ("idle", &IDLE),
    ("idle_held", &[OracleAccount::IdleHeld]),
    ("idle_free", &[OracleAccount::IdleFree]),
    ("idle_unknown", &[OracleAccount::IdleUnknown]),
    ("underutilized", &[OracleAccount::Underutilized]),
    ("productive", &[OracleAccount::Productive]),
    ("compute_bound", &[OracleAccount::ComputeBound]),
];

fn check_time(name: &str, gpu: &Value, expected: &Expected, ahead: u64) {
    for (field, instant) in [("start", expected.start), ("end", expected.end)] {
        let written = calendar::format_millis(instant - ahead).replace('/', "-").replace(' ', "T");
        let written = written.trim_end_matches('0').trim_end_matches('.').to_owned() + "Z";
        assert_eq!(gpu[field], written, "{name}");
    }
    assert_eq!(millis(&gpu["span_seconds"]), expected.end - expected.start, "{name}");
    let (unobserved, _) = seconds_of(expected, &[OracleAccount::Unobserved]);
    assert_eq!(millis(&gpu["unobserved_seconds"]), unobserved, "{name}");
    for (field, books) in FIELDS {
        let share = &gpu["phases"][field];
        if ["idle_held", "idle_free"].contains(&field) && !expected.held_is_known {
            assert!(share.is_null(), "{name}: {field} is unknown");
            continue;
        }
        let (time, cost) = seconds_of(expected, books);
        assert_eq!(millis(&share["seconds"]), time, "{name}: {field}");
        assert_eq!(nanos(&share["cost_usd"]), Some(cost), "{name}: {field}");
    }
}

fn check_money(name: &str, gpu: &Value, expected: &Expected) {
    let unobserved = seconds_of(expected, &[OracleAccount::Unobserved]).1;
    for (field, exact) in [
        ("rate_usd_per_gpu_hour", RATE),
        ("cost_usd", expected.bill),
        ("utilized_usd", expected.effective),
        ("unobserved_usd", unobserved),
        ("waste_usd", expected.bill - unobserved - expected.effective),
    ] {
        assert_eq!(nanos(&gpu[field]), Some(exact), "{name}: {field}");
    }
}

fn check_measured(name: &str, gpu: &Value, expected: &Expected) {
    let near = |value: &Value, exact: f64, what| {
        let value = value.as_f64().unwrap();
        assert!((value - exact).abs() <= 1e-9 * exact.max(1.0), "{name}: {what} {value} ≠ {exact}");
    };
    near(&gpu["effective_seconds"], expected.weight as f64 / 1e9, "effective seconds");
    let utilization = &gpu["utilization"];
    for (field, tenths) in [("p50", expected.p50), ("p95", expected.p95)] {
        match tenths {
            Some(tenths) => near(&utilization[field], tenths as f64 / 10.0, field),
            None => assert!(utilization[field].is_null(), "{name}: {field}"),
        }
    }
    let unobserved = seconds_of(expected, &[OracleAccount::Unobserved]).0;
    match expected.weight.checked_div(expected.end - expected.start - unobserved) {
        Some(ppm) => near(&utilization["mean"], ppm as f64 / 10_000.0, "mean"),
        None => assert!(utilization["mean"].is_null(), "{name}"),
    }
    match expected.update_period {
        // From ten seconds on it has four digits.
        Some(period) => {
            let reported = millis(&utilization["update_period_seconds"]);
            let digit = if period < 10_000 { 1 } else { period / 1_000 };
            assert!(
                (reported..reported + digit).contains(&period),
                "{name}: {reported} ≠ {period}"
            );
        }
        None => assert!(utilization["update_period_seconds"].is_null(), "{name}"),
    }
    let memory = &gpu["memory"];
    let bytes = |mebibytes: Option<u64>| mebibytes.map(|mebibytes| mebibytes << 20);
    assert_eq!(memory["used_peak_bytes"].as_u64(), bytes(expected.memory_peak), "{name}");
    // Rounded up to a resolution finer than 0.1% of the maximum, but at most to the maximum.
    let resolution = memory["used_p95_resolution_bytes"].as_u64();
    let rounded = bytes(expected.memory_p95).zip(bytes(expected.memory_peak));
    let rounded = rounded.zip(resolution).map(|((exact, peak), resolution)| {
        assert!(resolution == 1 << 20 || resolution * 1_000 < peak, "{name}: {resolution}");
        exact.next_multiple_of(resolution).min(peak)
    });
    assert_eq!(memory["used_p95_bytes"].as_u64(), rounded, "{name}");
    assert_eq!(resolution.is_some(), expected.memory_p95.is_some(), "{name}");
    let parts = list(&gpu["energy_by_basis"]);
    assert_eq!(parts.len(), expected.energy.len(), "{name}: {parts:?}");
    for part in parts {
        let (time, joules) = expected.energy[part["basis"].as_str().unwrap()];
        assert_eq!(millis(&part["seconds"]), time, "{name}: {part}");
        near(&part["joules"], joules, "joules");
    }
    match expected.energy.values().map(|(_, joules)| *joules).reduce(|a, b| a + b) {
        Some(joules) => near(&gpu["energy_joules"], joules, "joules"),
        None => assert!(gpu["energy_joules"].is_null(), "{name}"),
    }
}

fn check_otlp(name: &str, captured: &otlp::Captured, gpu: &str, expected: &Expected, ahead: u64) {
    let sessions = captured.named("gpu session");
    let session = sessions.iter().find(|span| otlp::attributes(&span.attributes)["hw.id"] == gpu);
    // Exports identify a GPU by UUID or index, the report by the identifying column.
    let session = session.unwrap_or_else(|| panic!("{name}: no session for {gpu}"));
    let phases: Vec<_> = captured
        .children(session)
        .iter()
        .map(|span| {
            let instant = |nanos: u64| nanos / 1_000_000 + ahead;
            let (from, to) = (span.start_time_unix_nano, span.end_time_unix_nano);
            (span.name.as_str(), instant(from), instant(to))
        })
        .collect();
    assert_eq!(phases, expected.spans, "{name}");
    assert_eq!(captured.readings(gpu), expected.readings, "{name}");

    let mut time = BTreeMap::new();
    for (book, (millis, cost)) in
        ORACLE_ACCOUNTS.into_iter().zip(expected.time.iter().zip(expected.cost))
    {
        let account = match book {
            OracleAccount::IdleHeld => "idle_held",
            OracleAccount::IdleFree => "idle_free",
            OracleAccount::IdleUnknown => "idle_unknown",
            other => other.label(),
        };
        time.insert(account, (*millis, cost));
    }
    let (seconds, dollars) =
        (captured.last("phasemeter.gpu.time", gpu), captured.last("phasemeter.gpu.cost", gpu));
    for (account, (millis, cost)) in time {
        let last = |of: &BTreeMap<String, f64>| of.get(account).copied().unwrap_or(0.0);
        assert!((last(&seconds) - millis as f64 / 1e3).abs() < 1e-9, "{name}: {account}");
        assert!((last(&dollars) - cost as f64 / 1e9).abs() < 1e-9, "{name}: {account}");
    }
}
