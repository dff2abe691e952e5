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

use crate::agent_accounts::{Node, length, stated_seconds, wait_until_accounts_are_followed};
use crate::files::{nanos, reports_in};
use crate::run::{
    Log, NO_POLICIES, Running, assumptions, phasemeter, seconds, started, started_at,
};
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

/// A sidecar of this pod that begins a report every two seconds, in a directory of the pod's name.
fn sidecar_by_period(node: &Node, pod: &str, until: &str) -> (Running, Log) {
    fs::create_dir(node.path(pod)).unwrap();
    let mut command = node.sidecar_command(pod, &format!("{pod}/bill.json"));
    started_at(until, command.args(["--report-period", "2s"]))
}

/// Checks that each file has the pod's time only, at the agent's price, and returns what all cost.
fn cost_of_quarters(reports: &[(String, Value)], pod: &str) -> i128 {
    let mut sum = 0;
    for (name, report) in reports {
        for gpu in report["gpus"].as_array().unwrap() {
            let [holder] = gpu["holders"].as_array().unwrap().as_slice() else { panic!("{gpu:#}") };
            assert_eq!((&holder["pod"], &holder["cost_usd"]), (&pod.into(), &gpu["cost_usd"]));
            let own = seconds(&gpu["span_seconds"]);
            // A container is known to hold the GPU some time after it does.
            assert!(own > 0.0 && own < length(gpu) / 4.0 + 1.0, "{name} {report:#}");
            // Each account is rounded: three of a holder, in the time of each phase.
            let cost = nanos(&gpu["cost_usd"]);
            assert!((cost as f64 - own * 1e6).abs() <= 21.0, "{name} {gpu:#}");
            sum += cost;
        }
    }
    let billed = reports.iter().filter_map(|(_, report)| report["cost"]["total_usd"].as_str());
    assert_eq!(sum, billed.map(|usd| nanos(&usd.into())).sum::<i128>());
    sum
}

/// Scenario: two pods have a quarter of a GPU each, and sidecars that begin a report every two seconds.
/// Guarantee: the files of each sidecar sum to the agent's account of its pod, to the nano-dollar; with nobody's part they
/// are the agent's bill.
#[test]
fn periods_of_sidecars_sum_to_the_accounts_of_their_pods() {
    let node = Node::start();
    let agent = node.agent("agent.json");
    let pods = ["a", "b"];
    let sidecars = pods.map(|pod| sidecar_by_period(&node, pod, "this pod holds no GPU").0);
    sidecars.iter().for_each(wait_until_accounts_are_followed);
    node.runs(&pods);
    node.wait_until_held("b", true);
    wait_for_more_than(&node.path("b"), 2);
    node.runs(&["a"]);
    node.wait_until_held("b", false);
    node.runs(&[]);
    node.wait_until_held("a", false);
    for sidecar in &sidecars {
        kill_process(Pid::from_child(&sidecar.0), Signal::TERM).unwrap();
    }
    for mut sidecar in sidecars {
        assert!(sidecar.0.wait().unwrap().success());
    }
    end(agent);
    let of_agent = node.report("agent.json");
    let gpu = &of_agent["gpus"][0];
    let mut sum = nanos(&gpu["nobody"]["cost_usd"]);
    for (holder, pod) in gpu["holders"].as_array().unwrap().iter().zip(pods) {
        let reports = reports_in(&node.path(pod));
        assert!(reports.len() > 3, "{reports:?}");
        assert_eq!(cost_of_quarters(&reports, pod), nanos(&holder["cost_usd"]), "{holder:#}");
        let held = reports.iter().flat_map(|(_, report)| report["gpus"].as_array().unwrap());
        let held: f64 = held.map(|gpu| seconds(&gpu["holders"][0]["granted_seconds"])).sum();
        assert!((held - seconds(&holder["granted_seconds"])).abs() < 1e-6, "{held} {holder:#}");
        assert_eq!(metered_usd(&node.path(pod)), nanos(&holder["cost_usd"]));
        sum += nanos(&holder["cost_usd"]);
    }
    assert_eq!(sum, nanos(&gpu["cost_usd"]), "{gpu:#}");
}

/// Scenario: the agent is killed while a sidecar writes reports by period, and another one begins.
/// Guarantee: the files have what both have accounted for; what is lost is in none, and stated once.
#[test]
fn periods_without_an_agent_are_stated_and_cost_nothing() {
    let node = Node::start();
    node.runs(&["a"]);
    let killed = node.agent("killed.json");
    node.wait_until_held("a", true);
    let (sidecar, _log) = sidecar_by_period(&node, "a", "metering 1 of 1 GPUs");
    let began = Instant::now();
    while stated_seconds(&node.path("agent.sock")) < 19.0 {
        assert!(began.elapsed() < TIMEOUT);
        thread::sleep(Duration::from_millis(100));
    }
    drop(killed);
    thread::sleep(Duration::from_secs(5));
    let again = node.agent("again.json");
    node.wait_until_held("a", true);
    end(sidecar);
    end(again);
    let reports = reports_in(&node.path("a"));
    let micros = cost_of_quarters(&reports, "a") as f64 / 1e6;
    assert!(micros > 0.5 && micros < 15.0, "{micros}");
    let notes: Vec<_> = reports.iter().map(|(_, report)| assumptions(report)).collect();
    let lost = notes.iter().filter(|notes| notes.contains("are in no account of the agent"));
    assert_eq!(lost.count(), 1, "{notes:#?}");
    let empty = reports.iter().filter(|(_, report)| report["gpus"].as_array().unwrap().is_empty());
    assert!(empty.count() > 1, "the agent accounts for nothing in many of them");
}
