//! Until when GPUs are billed that a log no longer lists: against the oracle, on random fleets.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use phasemeter_oracle::fleet::{self, ExpectedGpu, FleetGpu};
use phasemeter_oracle::{ORACLE_ACCOUNTS, OracleAccount, calendar};
use serde_json::Value;

use crate::phasemeter::Phasemeter;
use crate::report::{self, list, millis, nanos};

/// $3.60 per GPU-hour: 1,000 nano-dollars per millisecond.
const PRICE: [&str; 2] = ["--price", "3.6"];

/// 2026-07-26T23:45:00Z.
const START: u64 = 1_785_109_500_000;

fn audit(path: &Path, options: &[&str]) -> Value {
    let report = Phasemeter::audit().args(PRICE).args(options).arg(path).report();
    report::check(&report);
    report
}

/// Pages of dcgm-exporter, each with the GPUs of all hosts at one instant.
fn pages(gpus: &[FleetGpu]) -> String {
    let mut rows: Vec<_> =
        gpus.iter().flat_map(|gpu| gpu.rows.iter().map(move |row| (row.at, gpu, row))).collect();
    rows.sort_by_key(|(at, ..)| *at);
    let mut log = String::new();
    let mut page = 0;
    for (at, gpu, row) in rows {
        if std::mem::replace(&mut page, at) != at {
            let time = calendar::format_millis(at).replace('/', "-").replace(' ', "T");
            writeln!(log, "# {time}Z").unwrap();
        }
        let FleetGpu { host, index, uuid, .. } = gpu;
        writeln!(
            log,
            "DCGM_FI_DEV_GPU_UTIL{{gpu=\"{index}\",UUID=\"{uuid}\",modelName=\"NVIDIA L4\",Hostname=\"{host}\"}} {}",
            row.ppm.unwrap() / 10_000
        )
        .unwrap();
    }
    log
}

/// A log of `nvidia-smi` on one machine.
fn nvidia_smi(gpus: &[FleetGpu]) -> String {
    let one: Vec<_> =
        gpus.iter().map(|gpu| FleetGpu { host: String::new(), ..gpu.clone() }).collect();
    nvidia_smi_of_hosts(&one)
}

/// A log of `nvidia-smi` with the host of each row, if it is known.
fn nvidia_smi_of_hosts(gpus: &[FleetGpu]) -> String {
    let mut log = "timestamp, index, uuid, utilization.gpu [%], name, hostname\n".to_owned();
    let mut rows: Vec<_> =
        gpus.iter().flat_map(|gpu| gpu.rows.iter().map(move |row| (row.at, gpu, row))).collect();
    rows.sort_by_key(|(at, ..)| *at);
    for (at, gpu, row) in rows {
        let (time, percent) = (calendar::format_millis(at), row.ppm.unwrap() / 10_000);
        let FleetGpu { host, index, uuid, .. } = gpu;
        writeln!(log, "{time}, {index}, {uuid}, {percent} %, NVIDIA L4, {host}").unwrap();
    }
    log
}

/// Checks span, accounts, reasons and dollars of each GPU.
fn check(name: &str, report: &Value, gpus: &[FleetGpu], expected: &[ExpectedGpu]) {
    assert_eq!(list(&report["gpus"]).len(), gpus.len(), "{name}");
    for (gpu, expected) in gpus.iter().zip(expected) {
        let name = format!("{name}, {} GPU {}", gpu.host, gpu.index);
        let mine = list(&report["gpus"]).iter().find(|it| it["uuid"] == gpu.uuid.as_str());
        let mine = mine.unwrap_or_else(|| panic!("{name} is missing"));
        assert_eq!(
            millis(&mine["span_seconds"]),
            expected.end - expected.start,
            "{name}: {mine:#}"
        );
        let unobserved = expected.time[OracleAccount::Unobserved as usize];
        assert_eq!(millis(&mine["unobserved_seconds"]), unobserved, "{name}");
        let mut vanished = list(&mine["unobserved_reasons"]).iter();
        let vanished = vanished.find(|it| it["reason"] == "gpu_vanished");
        let vanished = vanished.map_or(0, |it| millis(&it["seconds"]));
        assert_eq!(vanished, expected.vanished, "{name}: {mine:#}");
        assert_eq!(millis(&mine["absent_seconds"]), expected.absent, "{name}");
        let usd = |millis: u64| Some(i128::from(millis) * 1_000);
        assert_eq!(nanos(&mine["absent_usd"]), usd(expected.absent), "{name}");
        assert_eq!(nanos(&mine["cost_usd"]), usd(expected.time.iter().sum()), "{name}");
        assert_eq!(nanos(&mine["unobserved_usd"]), usd(unobserved), "{name}");
        let phases = ["idle", "underutilized", "productive", "compute_bound"];
        let of_phase = |phase| {
            ORACLE_ACCOUNTS
                .iter()
                .zip(expected.time)
                .filter(move |(account, _)| account.label() == phase)
        };
        for phase in phases {
            let expected: u64 = of_phase(phase).map(|(_, time)| time).sum();
            assert_eq!(millis(&mine["phases"][phase]["seconds"]), expected, "{name}: {phase}");
        }
    }
}

/// Scenario: fleets whose hosts and GPUs come, go and return, as pages of dcgm-exporter.
/// Guarantee: each GPU is billed until the run or its host ends; phases and unobserved time are those of the
/// oracle and sum to the bill; absent time is reported with what it would have cost.
#[test]
fn random_fleets_are_billed_while_they_exist() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fleet.prom");
    let (mut vanished, mut absent) = (0, 0);
    for seed in 0..40 {
        let gpus = fleet::random(seed, START);
        let expected = fleet::expected(&gpus);
        fs::write(&path, pages(&gpus)).unwrap();
        check(&format!("seed {seed}"), &audit(&path, &[]), &gpus, &expected);
        vanished += expected.iter().filter(|expected| expected.vanished > 0).count();
        absent += expected.iter().filter(|expected| expected.absent > 0).count();
    }
    assert!(vanished > 15 && absent > 5, "{vanished} GPUs vanished, {absent} were absent");
}

/// Guarantee: the GPUs of a log of one machine are billed until its end, whatever it still lists.
#[test]
fn gpus_of_one_machine_are_billed_until_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.csv");
    for seed in 100..112 {
        let mut gpus = fleet::random(seed, START);
        for (index, gpu) in gpus.iter_mut().enumerate() {
            gpu.host = String::new();
            gpu.index = index;
        }
        fs::write(&path, nvidia_smi(&gpus)).unwrap();
        let expected = fleet::expected(&gpus);
        assert!(expected.iter().all(|expected| expected.absent == 0));
        check(&format!("seed {seed}"), &audit(&path, &[]), &gpus, &expected);
    }
}

/// Scenario: host `a` ends, and returns under its name with other GPUs; of `b` one GPU ends, and another one has its
/// index later.
/// Guarantee: no index of a host is billed twice at any time. The first GPUs of `a` end with it, and that of `b` where
/// the next one begins. The names of both have their UUIDs.
#[test]
fn replaced_gpus_are_billed_until_their_successors() {
    let dir = tempfile::tempdir().unwrap();
    let gpu = |host: &str, index: usize, uuid: &str, ticks: std::ops::RangeInclusive<u64>| {
        let row = |tick| phasemeter_oracle::Row {
            at: START + tick * 15_000,
            ppm: Some(950_000),
            held: None,
        };
        let (host, uuid) = (host.to_owned(), format!("GPU-{uuid}"));
        FleetGpu { host, index, uuid, rows: ticks.map(row).collect() }
    };
    let gpus = [
        gpu("a", 0, "a0", 0..=40),
        gpu("a", 1, "a1", 0..=40),
        gpu("a", 0, "a0-next", 60..=280),
        gpu("a", 1, "a1-next", 61..=280),
        gpu("b", 0, "b0", 0..=280),
        gpu("b", 1, "b1", 0..=40),
        gpu("b", 1, "b1-next", 100..=280),
    ];
    let seconds = [600, 600, 3_300, 3_285, 4_200, 1_500, 2_700];
    for (file, text) in [("fleet.prom", pages(&gpus)), ("fleet.csv", nvidia_smi_of_hosts(&gpus))] {
        let path = dir.path().join(file);
        fs::write(&path, text).unwrap();
        let report = audit(&path, &[]);
        for (gpu, seconds) in gpus.iter().zip(seconds) {
            let mine = list(&report["gpus"]).iter().find(|it| it["uuid"] == gpu.uuid.as_str());
            let mine = mine.unwrap();
            assert_eq!(millis(&mine["span_seconds"]), seconds * 1_000, "{file}: {mine:#}");
            assert_eq!(nanos(&mine["cost_usd"]), Some(i128::from(seconds) * 1_000_000));
        }
        let notes = report["assumptions"].to_string();
        let note = "no longer listed: b GPU 1 GPU-b1 from 2026-07-26T23:55:45Z on; 14.2 GPU-minutes ($0.855)";
        assert!(notes.contains(note), "{file}: {notes}");
        let risks = list(&report["recommendations"]).iter();
        assert!(risks.filter(|it| it["code"] == "health.vanished").count() == 0, "{report:#}");
    }
}

/// Scenario: host `b` ends, and `a` goes on for an hour; GPU 1 of `a` ends, too.
/// Guarantee: time without a GPU is named with its cost, and `--missing` decides whether it is billed.
#[test]
fn missing_time_is_reported_and_can_be_overridden() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fleet.prom");
    let gpu = |host: &str, index: usize, ticks: u64| FleetGpu {
        host: host.to_owned(),
        index,
        uuid: format!("GPU-{host}-{index}"),
        rows: (0..=ticks)
            .map(|tick| phasemeter_oracle::Row {
                at: START + tick * 15_000,
                ppm: Some(950_000),
                held: None,
            })
            .collect(),
    };
    let gpus = [gpu("a", 0, 280), gpu("a", 1, 80), gpu("b", 0, 40), gpu("b", 1, 40)];
    fs::write(&path, pages(&gpus)).unwrap();
    let notes = |report: &Value| report["assumptions"].to_string();
    let costs = |report: &Value| -> Vec<_> {
        list(&report["gpus"])
            .iter()
            .map(|gpu| nanos(&gpu["cost_usd"]).unwrap() / 1_000_000)
            .collect()
    };

    let report = audit(&path, &[]);
    check("by evidence", &report, &gpus, &fleet::expected(&gpus));
    assert_eq!(costs(&report), [4_200, 4_200, 600, 600]);
    for note in [
        "no longer listed: a GPU 1 from 2026-07-27T00:05:45Z on; 49.2 GPU-minutes ($2.955) are unobserved, and billed",
        "absent: b from 2026-07-26T23:55:00Z on; 2.00 GPU-hours ($7.20) are not billed; \
         --missing=unobserved bills them",
    ] {
        assert!(notes(&report).contains(note), "{report:#}");
    }
    let risk = list(&report["recommendations"]).iter().find(|it| it["code"] == "health.vanished");
    assert_eq!(risk.unwrap()["gpus"], serde_json::json!(["GPU-a-1"]), "{report:#}");

    let all = audit(&path, &["--missing", "unobserved"]);
    assert_eq!(costs(&all), [4_200; 4]);
    assert_eq!(millis(&all["gpus"][2]["absent_seconds"]), 0);
    let none = audit(&path, &["--missing=absent"]);
    assert_eq!(costs(&none), [4_200, 1_200, 600, 600]);
    assert_eq!(millis(&none["gpus"][1]["absent_seconds"]), 3_000_000);
}
