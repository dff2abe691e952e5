//! Sidecars and a Collector that are killed at any moment: what was stored arrives, and nothing else does.
//!
//! ```text
//! fake driver ─→ phasemeter run ─┬→ data directory ─→ otelcol ─→ file ─┐
//!     killed ×24                 └→ file ──────────────────────────────┴─→ equal, sums too
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::otelcol::{Collector, Otelcol};
use crate::otlp::{self, Captured};
use crate::output::print;
use crate::run::{Run, billionths};

/// Sidecars that run at once, each with a data directory of its own.
const SIDECARS: usize = 12;
/// How often each is killed.
const KILLS: usize = 2;
/// Deadline of what happens at once on an idle machine.
const TIMEOUT: Duration = Duration::from_secs(120);

const SCRIPT: &str = "[driver]\nsample_period_ms = 100\n[[device]]\n[[device.phase]]\nfor_ms = 7000\n\
    utilization = 97\n[[device.phase]]\nfor_ms = 5000\nutilization = 3\n";

/// A point by metric, attributes, start and time; its value in billionths.
type Points = BTreeMap<(String, String, u64, u64), u64>;

/// One sidecar: its files, one per run.
struct Sidecar {
    data: PathBuf,
    files: Vec<PathBuf>,
}

impl Sidecar {
    fn start(&mut self, endpoint: &str) -> (Child, Run) {
        let file = self.data.with_extension(format!("{}.jsonl", self.files.len()));
        let options = [
            "--data-dir",
            self.data.to_str().unwrap(),
            "--otlp-file",
            file.to_str().unwrap(),
            "--basis",
            "nvml.gpu",
        ];
        let run = Run::endless(SCRIPT, &options).export_to(endpoint, "grpc");
        self.files.push(file.clone());
        run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").spawn()
    }

    /// Whether the current run has written some rounds.
    fn has_rounds(&self) -> bool {
        let file = self.files.last().map(|file| fs::read_to_string(file).unwrap_or_default());
        file.is_some_and(|text| text.matches("resourceMetrics").count() >= 4)
    }
}

/// Kills a Collector after it has written what it has acknowledged, which its own client cannot know: its senders
/// are stopped for a moment.
fn kill_collector(collector: Collector, senders: &[&Child]) {
    let signal =
        |signal| senders.iter().for_each(|it| kill_process(Pid::from_child(it), signal).unwrap());
    signal(Signal::STOP);
    thread::sleep(Duration::from_millis(100));
    drop(collector);
    signal(Signal::CONT);
}

/// What a file has: of a process that was killed, the last line may be torn.
fn read(path: &Path) -> Captured {
    let text = fs::read_to_string(path).unwrap();
    let whole = |line: &&str| serde_json::from_str::<Value>(line).is_ok();
    otlp::read(&text.lines().filter(whole).collect::<Vec<_>>().join("\n"))
}

/// The points of the sums of time and cost. Twice the same is once; different values of one are an error.
fn sums(captured: &Captured) -> Points {
    let mut points = Points::new();
    for name in ["phasemeter.gpu.time", "phasemeter.gpu.cost"] {
        for (attributes, stream) in captured.streams(name) {
            for point in stream.points {
                let key = (name.to_owned(), format!("{attributes:?}"), point.start, point.time);
                let value = billionths(point.value);
                assert_eq!(*points.entry(key).or_insert(value), value, "a point was changed");
            }
        }
    }
    points
}

/// Metric and attributes with the last value of each run, summed.
fn totals(points: &Points) -> BTreeMap<(String, String), u64> {
    let mut last = BTreeMap::new();
    for ((name, attributes, start, _), value) in points {
        // Later times come later.
        last.insert((name.clone(), attributes.clone(), *start), *value);
    }
    let mut totals = BTreeMap::new();
    for ((name, attributes, _), value) in last {
        *totals.entry((name, attributes)).or_default() += value;
    }
    totals
}

#[test]
fn sums_are_equal_although_sidecars_and_collector_are_killed() {
    let Some(otelcol) = Otelcol::find() else { return };
    let home = tempfile::tempdir().unwrap();
    let archive = home.path().join("collector.jsonl");
    let mut collector = otelcol.start_again(None, &archive);
    let (address, endpoint) = (collector.grpc, format!("http://{}", collector.grpc));
    let mut sidecars: Vec<_> = (0..SIDECARS)
        .map(|index| Sidecar { data: home.path().join(index.to_string()), files: Vec::new() })
        .collect();

    let mut kills = 0;
    for round in 0..KILLS {
        let mut running: Vec<_> = sidecars.iter_mut().map(|it| it.start(&endpoint)).collect();
        let began = Instant::now();
        while !sidecars.iter().all(Sidecar::has_rounds) {
            assert!(began.elapsed() < TIMEOUT, "no rounds");
            thread::sleep(Duration::from_millis(50));
        }
        // The backend is killed in each round, and stays down for the end of the even ones.
        let senders: Vec<_> = running.iter().map(|(child, _)| child).collect();
        kill_collector(collector, &senders);
        if round % 2 == 1 {
            collector = otelcol.start_again(Some(address), &archive);
            for (index, (child, _)) in running.iter_mut().enumerate() {
                // At different points of their work.
                thread::sleep(Duration::from_millis(130 * index as u64 % 700));
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
        } else {
            thread::sleep(Duration::from_millis(1_500));
            for (child, _) in &mut running {
                child.kill().unwrap();
                child.wait().unwrap();
                kills += 1;
            }
            collector = otelcol.start_again(Some(address), &archive);
        }
    }
    // The last run of each ends, and delivers what is left.
    let running: Vec<_> = sidecars.iter_mut().map(|it| it.start(&endpoint)).collect();
    let began = Instant::now();
    while !sidecars.iter().all(Sidecar::has_rounds) {
        assert!(began.elapsed() < TIMEOUT, "no rounds");
        thread::sleep(Duration::from_millis(50));
    }
    for (mut child, run) in running {
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        assert!(child.wait().unwrap().success());
        drop(run);
    }
    collector.stop();

    let arrived = sums(&read(&archive));
    let (mut expected, mut late) = (Points::new(), 0);
    for sidecar in &sidecars {
        let left = fs::read_dir(sidecar.data.join("outbox")).unwrap().count();
        assert_eq!(left, 0, "everything was delivered");
        let (last, killed) = sidecar.files.split_last().unwrap();
        for file in killed {
            let mut points = sums(&read(file));
            // The last round before the kill may be in one of both only.
            let times: BTreeSet<u64> = points.keys().map(|(.., time)| *time).collect();
            let newest = *times.last().unwrap();
            points.retain(|key, _| key.3 < newest || arrived.contains_key(key));
            late += usize::from(points.keys().all(|key| key.3 < newest));
            assert!(times.len() > 1, "{times:?}");
            expected.append(&mut points);
        }
        expected.append(&mut sums(&read(last)));
    }
    let missing: Vec<_> = expected.iter().filter(|(key, _)| !arrived.contains_key(key)).collect();
    assert!(missing.is_empty(), "{} points are missing, such as {:?}", missing.len(), missing[0]);
    for (key, value) in &expected {
        assert_eq!(arrived[key], *value, "{key:?}");
    }
    // What arrived of a round that the file does not have counts, too.
    let runs: BTreeSet<_> = expected.keys().map(|(.., start, _)| *start).collect();
    assert!(arrived.keys().all(|(.., start, _)| runs.contains(start)), "no other run");
    let newest = |points: &Points| points.keys().map(|key| key.3).max();
    assert_eq!(newest(&arrived), newest(&expected));
    let (arrived, expected) = (totals(&arrived), totals(&expected));
    for (key, value) in &expected {
        assert!(arrived[key] >= *value, "{key:?}");
    }
    print(&format!("{kills} kills, after {late} of which the last round was not stored"));
    assert_eq!(kills, SIDECARS * KILLS);
}
