//! Alerts of a run, from the driver to its report and its events.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::run::phasemeter;
use crate::wall_clock::WallClock;
use crate::{Rig, TIMEOUT, otlp};

/// GPU 0 works for a minute, GPU 1 all the time.
const SCRIPT: &str = "[[device]]
[[device.phase]]
for_ms = 60000
utilization = 95
[[device.phase]]
[[device]]
[[device.phase]]
utilization = 95";

const RULES: &str = "[[rule]]
name = \"busy\"
brief = \"It works\"
metric = \"utilization\"
above = 60
window = \"1m\"
";

const MINUTE: u64 = 60_000_000_000;

fn read(file: &Path) -> otlp::Captured {
    // The last line may be incomplete.
    let text = fs::read_to_string(file).unwrap_or_default();
    otlp::read(text.rsplit_once('\n').map_or("", |(whole, _)| whole))
}

/// Name, GPU and time of each alert event, in order of time.
fn events(captured: &otlp::Captured) -> Vec<(String, String, u64)> {
    let alerts = captured.events.iter().filter(|it| it.event_name.starts_with("phasemeter.alert."));
    let mut events: Vec<_> = alerts
        .map(|event| {
            let gpu = otlp::attributes(&event.attributes)["hw.id"].clone();
            (event.event_name.clone(), gpu, event.time_unix_nano)
        })
        .collect();
    events.sort_by(|a, b| (a.2, &a.1).cmp(&(b.2, &b.1)));
    events
}

/// Scenario: two GPUs whose mean over a minute is above a threshold at the first whole minute, and one
/// of them no longer at the second.
/// Guarantee: both alerts are events while the run goes on, one closes a minute later, the other never,
/// and the report lists the same.
#[test]
fn alerts_open_and_close_during_a_run() {
    let rig = Rig::new(SCRIPT);
    let dir = tempfile::tempdir().unwrap();
    let [rules, report, file] =
        ["rules.toml", "report.json", "otlp.json"].map(|name| dir.path().join(name));
    fs::write(&rules, RULES).unwrap();
    let mut command = phasemeter(
        &rig,
        &format!(
            "--duration 112 --alerts {} --report {} --otlp-file {}",
            rules.display(),
            report.display(),
            file.display()
        ),
    );
    command.env("OTEL_METRIC_EXPORT_INTERVAL", "2000");
    // It starts ten seconds after a whole minute. Up to twenty later is early enough.
    let clock = WallClock::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    clock.set(10 - i64::try_from(now % 60).unwrap());
    clock.apply(&mut command);
    let mut run = command.stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let opened = loop {
        let events = events(&read(&file));
        if events.len() == 2 {
            break events;
        }
        assert!(run.try_wait().unwrap().is_none() && began.elapsed() < TIMEOUT, "{events:?}");
        thread::sleep(Duration::from_millis(200));
    };
    assert!(opened.iter().all(|(name, ..)| name == "phasemeter.alert.opened"), "{opened:?}");
    assert!(run.wait().unwrap().success());

    let captured = read(&file);
    let all = events(&captured);
    let [(_, first, at), (_, second, same), (name, closed, later)] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!((name.as_str(), closed), ("phasemeter.alert.closed", first));
    assert_eq!((at % MINUTE, same, later), (0, at, &(at + MINUTE)));
    assert_ne!(first, second);

    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    let alerts = &report["alerts"];
    assert_eq!(alerts["total"], 2);
    let ids: Vec<&Value> =
        report["gpus"].as_array().unwrap().iter().map(|gpu| &gpu["id"]).collect();
    assert_eq!([first.as_str(), second.as_str()], [ids[0], ids[1]].map(|id| id.as_str().unwrap()));
    for (alert, (gpu, is_closed)) in
        alerts["opened"].as_array().unwrap().iter().zip([(0, true), (1, false)])
    {
        assert_eq!((&alert["rule"], &alert["gpu"]), (&"busy".into(), ids[gpu]), "{alert}");
        assert_eq!(alert["closed"].is_string(), is_closed, "{alert}");
    }
    let sessions = captured.named("gpu session");
    let of_events =
        captured.events.iter().filter(|it| it.event_name.starts_with("phasemeter.alert."));
    for event in of_events {
        let session = sessions.iter().find(|session| session.span_id == event.span_id);
        assert!(session.is_some_and(|session| session.trace_id == event.trace_id), "{event:?}");
    }
}
