//! Reports by period of runs that go on, if a file cannot be written, the clock is set back, or pods share the GPU.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_meter::instant::Instant as At;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::agent_accounts::Node;
use crate::files::{nanos, reports_in};
use crate::run::{NO_POLICIES, Running, phasemeter, started, started_at};
use crate::wall_clock::WallClock;
use crate::{Rig, TIMEOUT};

/// Waits until a directory has more reports than this.
fn wait_for_more_than(dir: &Path, count: usize) {
    let began = Instant::now();
    while reports_in(dir).len() <= count {
        assert!(began.elapsed() < TIMEOUT, "{:?}", reports_in(dir));
        thread::sleep(Duration::from_millis(100));
    }
}

fn end(mut process: Running) {
    kill_process(Pid::from_child(&process.0), Signal::TERM).unwrap();
    assert!(process.0.wait().unwrap().success());
}

/// What `phasemeter bill` adds up of a directory.
fn metered_usd(dir: &Path) -> i128 {
    let mut bill = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    let bill = bill.arg("bill").arg(dir).args(["--format", "json"]).output().unwrap();
    let json: Value = serde_json::from_slice(&bill.stdout).unwrap();
    nanos(&json["total"]["metered_usd"])
}

fn cost(reports: &[(String, Value)]) -> i128 {
    reports.iter().map(|(_, report)| nanos(&report["cost"]["total_usd"])).sum()
}

/// What the time of a run with one GPU costs, whose files follow one another. On a busy machine one may end before its
/// period does, with what is known by then.
fn cost_of_time(reports: &[(String, Value)]) -> i128 {
    let mut reports: Vec<_> = reports.iter().collect();
    reports.sort_by_key(|(name, _)| name);
    let at = |text: &Value| text.as_str().unwrap().parse::<At>().unwrap().0.as_nanos();
    let span = |report: &Value| ["start", "end"].map(|end| at(&report["gpus"][0][end]));
    let spans: Vec<_> = reports.iter().map(|(_, report)| span(report)).collect();
    assert!(spans.windows(2).all(|pair| pair[0][1] == pair[1][0]), "{spans:?}");
    let rate = nanos(&reports[0].1["gpus"][0]["rate_usd_per_gpu_hour"]);
    rate * i128::from(spans[spans.len() - 1][1] - spans[0][0]) / 3_600_000_000_000
}

/// Scenario: the directory of the files is missing while periods end, and comes back.
/// Guarantee: the file is written again and again until it can be; the periods tile the run, none of them twice.
#[test]
fn period_whose_file_cannot_be_written_is_in_one_file_once_it_can() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let [bills, away] = ["bills", "away"].map(|name| dir.path().join(name));
    fs::create_dir(&bills).unwrap();
    let arguments =
        format!("{NO_POLICIES} --report {}/bill.json --report-period 2s", bills.display());
    let (run, log) = started(&mut phasemeter(&rig, &arguments));
    wait_for_more_than(&bills, 1);
    fs::rename(&bills, &away).unwrap();
    log.wait_for("report so far:");
    // Other periods are over by now, and end with this one.
    thread::sleep(Duration::from_secs(5));
    let before = reports_in(&away).len();
    fs::rename(&away, &bills).unwrap();
    wait_for_more_than(&bills, before + 1);
    end(run);
    let reports = reports_in(&bills);
    let written = cost(&reports);
    assert_eq!(cost_of_time(&reports), written);
    assert_eq!(metered_usd(&bills), written);
}

/// Scenario: the clock is set back by several periods.
/// Guarantee: no two files have the same second, or the same name; together they have the time of the run.
#[test]
fn clock_that_is_set_back_makes_no_period_twice() {
    let rig = Rig::new("[[device]]");
    let dir = tempfile::tempdir().unwrap();
    let arguments =
        format!("{NO_POLICIES} --report {}/bill.json --report-period 2s", dir.path().display());
    let mut command = phasemeter(&rig, &arguments);
    let clock = WallClock::new();
    clock.apply(&mut command);
    let (run, log) = started(&mut command);
    wait_for_more_than(dir.path(), 1);
    clock.set(-7);
    log.wait_for("system clock set back by 7.0 s");
    wait_for_more_than(dir.path(), reports_in(dir.path()).len() + 12);
    end(run);
    let reports = reports_in(dir.path());
    assert_eq!(cost(&reports), cost_of_time(&reports));
    assert_eq!(metered_usd(dir.path()), cost(&reports));
}

/// Scenario: an agent that begins a report every two seconds, of a GPU that two pods share.
/// Guarantee: what pods and nobody have by all files is the cost of all files, which is that of the agent's time.
#[test]
fn periods_of_an_agent_sum_to_the_bill_by_pod() {
    let node = Node::start();
    node.runs(&["a", "b"]);
    let bills = node.path("bills");
    fs::create_dir(&bills).unwrap();
    let mut command = node.agent_command("bills/node.json");
    let (running, _log) =
        started_at("sidecars are answered", command.args(["--report-period", "2s"]));
    node.wait_until_held("b", true);
    wait_for_more_than(&bills, 2);
    node.runs(&["a"]);
    wait_for_more_than(&bills, reports_in(&bills).len() + 9);
    end(running);
    let reports = reports_in(&bills);
    let mut paid = BTreeMap::<String, i128>::new();
    for (_, report) in &reports {
        let gpu = &report["gpus"][0];
        for holder in gpu["holders"].as_array().unwrap() {
            let pod = holder["pod"].as_str().unwrap().to_owned();
            *paid.entry(pod).or_default() += nanos(&holder["cost_usd"]);
        }
        let nobody = gpu.get("nobody").map_or(&gpu["cost_usd"], |nobody| &nobody["cost_usd"]);
        *paid.entry("nobody".to_owned()).or_default() += nanos(nobody);
    }
    let written = cost(&reports);
    assert_eq!(paid.values().sum::<i128>(), written, "{paid:?}");
    assert!(paid["b"] > 0 && paid["a"] > paid["b"] && paid["nobody"] > paid["a"], "{paid:?}");
    assert_eq!(metered_usd(&bills), written);
    assert_eq!(cost_of_time(&reports), written);
}
