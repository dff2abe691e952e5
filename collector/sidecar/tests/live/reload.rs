//! A configuration file that changes while a run or an agent goes on.

use std::fs;
use std::path::Path;

use phasemeter_meter::instant::Instant as At;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::files::nanos;
use crate::policies::{pricer, recommender};
use crate::run::{Log, NO_POLICIES, Running, priced, started, started_at};
use crate::{Rig, unless_stalled};

const DEVICE: &str = "[[device]]\n[[device.phase]]\nutilization = 95";

/// Replaces a file at once, as editors and mounted volumes do.
fn replace(path: &Path, text: &str) {
    let unfinished = path.with_extension("unfinished");
    fs::write(&unfinished, text).unwrap();
    fs::rename(unfinished, path).unwrap();
}

/// A file with this content below `distribution.phasemeter`.
fn configuration(level: &str, own: &str) -> String {
    format!("file_format: \"1.1\"\nlog_level: {level}\ndistribution:\n  phasemeter:\n    {own}\n")
}

fn signal(running: &Running, signal: Signal) {
    kill_process(Pid::from_child(&running.0), signal).unwrap();
}

/// Ends it. Returns the rest of its log.
fn stopped(mut running: Running, log: Log) -> String {
    signal(&running, Signal::TERM);
    assert!(running.0.wait().unwrap().success());
    log.rest()
}

fn at(text: &Value) -> i128 {
    text.as_str().unwrap().parse::<At>().unwrap().0.as_nanos().into()
}

/// Checks that a GPU is billed at $3.60 per hour, then at twice, then at three times that, each from the instant on that
/// the report has.
#[track_caller]
fn assert_steps(gpu: &Value) {
    let earlier = gpu["earlier_prices"].as_array().unwrap();
    let rates: Vec<_> = earlier.iter().map(|it| it["rate_usd_per_gpu_hour"].clone()).collect();
    assert_eq!(rates, [json!("3.600000000"), json!("7.200000000")], "{gpu:#}");
    assert_eq!(gpu["rate_usd_per_gpu_hour"], "10.800000000");
    let steps = earlier.iter().map(|it| at(&it["until"]));
    let bounds: Vec<_> =
        [at(&gpu["start"])].into_iter().chain(steps).chain([at(&gpu["end"])]).collect();
    // A nano-dollar per microsecond.
    let cost: i128 = bounds.windows(2).zip(1..).map(|(it, times)| (it[1] - it[0]) * times).sum();
    let billed = nanos(&gpu["cost_usd"]);
    assert!((billed - cost / 1_000).abs() <= 3, "{billed} and {}: {gpu:#}", cost / 1_000);
    assert!(bounds.windows(2).all(|it| it[0] < it[1]), "{bounds:?}");
}

/// Scenario: the file of a run, and of an agent, gets other prices twice, once by SIGHUP; between them it cannot be used.
/// Guarantee: each price counts from its instant on and no reading is lost; the level of the log and alerts are applied;
/// another key is named; the file that cannot be used is one error and changes nothing.
#[test]
fn prices_alerts_and_log_level_are_applied_while_a_run_goes_on() {
    for (command, until) in [("run", "phasemeter: metering "), ("agent", "sidecars are answered")] {
        unless_stalled(|| applied_in(command, until));
    }
}

fn applied_in(command: &str, until: &str) {
    let rig = Rig::new(DEVICE);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (file, report) = (path("phasemeter.yaml"), path("report.json"));
    fs::write(&file, configuration("info", "prices: {usd_per_gpu_hour: 3.6}")).unwrap();
    let mut arguments = format!("--config {} --report {}", file.display(), report.display());
    if command == "agent" {
        for (option, name) in
            [("kubelet-socket", "none"), ("pod-logs", "logs"), ("socket", "agent.sock")]
        {
            arguments += &format!(" --{option} {}", path(name).display());
        }
    }
    let mut command = priced(&rig, command, NO_POLICIES, &arguments);
    let (running, log) = started_at(until, &mut command);

    let own = "prices: {usd_per_gpu_hour: 7.2}\n    alerts: {rules: optimization}\n    gpus: {interval: 0.2}";
    replace(&file, &configuration("debug", own));
    let restart = ":7: distribution.phasemeter.gpus.interval: needs a restart";
    log.wait_for(&format!("{}{restart}", file.display()));
    log.wait_for("read again; applied: alerts, prices, log level");

    replace(&file, &configuration("debug", "prices: {usd_per_gpu_hour: much}"));
    log.wait_for("not applied, what was configured remains: ");

    replace(&file, &configuration("debug", &own.replace("7.2", "10.8")));
    signal(&running, Signal::HUP);
    log.wait_for("read again; applied: prices");

    let log = stopped(running, log);
    assert!(!log.contains("not applied"), "{log}");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let gpu = &report["gpus"][0];
    assert_steps(gpu);
    assert_eq!(gpu["unobserved_seconds"], 0.0, "{gpu:#}");
    assert!(!report["alerts"]["rules"].as_array().unwrap().is_empty());
}

/// Scenario: policies of another directory, among them one with a price.
/// Guarantee: they replace those before, and the price is that of the policy from then on.
#[test]
fn policies_are_replaced_while_a_run_goes_on() {
    let rig = Rig::new(DEVICE);
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (file, report) = (path("phasemeter.yaml"), path("report.json"));
    for name in ["before", "after"] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("advice.wasm"), recommender(name, '1')).unwrap();
    }
    let in_an_hour =
        "(i64.store (i32.const 4424) (i64.add (local.get $time) (i64.const 3600000000000)))";
    fs::write(path("after/quote.wasm"), pricer("contract", 0, in_an_hour)).unwrap();
    let of = |name: &str| {
        let directory = path(name);
        let own = format!(
            "policies: {{no_defaults: true, directory: {}}}\n    prices: {{provider: aws}}",
            directory.display()
        );
        configuration("info", &own)
    };
    fs::write(&file, of("before")).unwrap();
    let arguments = format!("--config {} --report {}", file.display(), report.display());
    let mut command = priced(&rig, "run", "--gpu=0", &arguments);
    let (running, log) = started(&mut command);

    replace(&file, &of("missing"));
    log.wait_for("not applied, what was configured remains: ");
    replace(&file, &of("after"));
    log.wait_for("applied: policies");
    log.wait_for("policy generation 2 is active");
    // Its directory is watched now.
    fs::remove_file(path("after/advice.wasm")).unwrap();
    log.wait_for("policy generation 3 is active");
    stopped(running, log);

    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let names: Vec<_> =
        report["policies"].as_array().unwrap().iter().map(|it| it["name"].clone()).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["rate_usd_per_gpu_hour"], "2.000000000", "{gpu:#}");
    assert_eq!(gpu["earlier_prices_total"], 1, "{gpu:#}");
}
