//! XID errors: all are counted, and no burst of them delays a reading or fills a log.

use std::collections::BTreeMap;

use phasemeter_meter::units::Nanos;
use phasemeter_sources::live::{Event, LossReason};
use serde_json::Value;

use crate::exports::points;
use crate::run::{NO_POLICIES, attribute, elements, run_with_report, stderr};
use crate::{Rig, Run};

/// Two GPUs of which the second has these faults, in stepped time.
fn stepped(faults: &str) -> Rig {
    Rig::stepped(&format!("length_ms = 60000\n[[device]]\n[[device]]\n{faults}"))
}

/// The XID errors of the second GPU.
fn counted(run: &Run) -> u64 {
    let xids = run.faults(1).into_iter().filter_map(|event| match event {
        Event::Xid { count, .. } => Some(count),
        _ => None,
    });
    xids.sum()
}

fn has_readings(run: &Run) -> bool {
    [0, 1].iter().all(|gpu| run.readings(*gpu).len() >= 3)
}

#[test]
fn xid_is_reported_by_its_gpu() {
    let rig = stepped("[[fault]]\ndevice = 1\nat_ms = 1200\nxid = 79");
    let mut sampling = rig.sample();
    sampling.until(has_readings);
    rig.set_time(1_200);
    sampling.until(|run| !run.faults(1).is_empty());
    let run = sampling.stop();
    assert_eq!(run.faults(1), [Event::Xid { code: 79, count: 1 }]);
    assert_eq!(run.faults(0), []);
}

/// Scenario: a GPU is lost at the instant at which the driver reports why, before events are polled again.
#[test]
fn xid_of_lost_gpu_is_reported() {
    let rig = stepped(
        "[[fault]]\ndevice = 1\nat_ms = 1200\nxid = 79\n
         [[fault]]\ndevice = 1\nat_ms = 1200\nerror = \"gpu_is_lost\"",
    );
    let mut sampling = rig.sample();
    sampling.until(has_readings);
    rig.set_time(1_200);
    sampling.until(|run| run.faults(1).len() >= 2);
    let run = sampling.stop();
    let expected = [Event::Xid { code: 79, count: 1 }, Event::Lost(LossReason::Gpu)];
    assert_eq!(run.faults(1), expected);
}

/// Scenario: a GPU reports thousands of errors at a time.
/// Guarantee: all are counted, a few observations carry them, and no reading waits for them.
#[test]
fn burst_of_xids_is_counted_and_delays_no_reading() {
    let rig = stepped(
        "[[fault]]\ndevice = 1\nat_ms = 1200\nxid = 31\ncount = 3000\n
         [[fault]]\ndevice = 1\nat_ms = 1300\nxid = 70000\ncount = 2000",
    );
    let mut sampling = rig.sample();
    sampling.until(has_readings);
    rig.set_time(1_200);
    sampling.until(|run| counted(run) == 3_000);
    rig.set_time(1_300);
    sampling.until(|run| counted(run) == 5_000);
    let run = sampling.stop();
    let mut codes = BTreeMap::new();
    for event in run.faults(1) {
        let Event::Xid { code, count } = event else { panic!("{event:?}") };
        *codes.entry(code).or_insert(0) += count;
    }
    // A code out of range is an unknown one.
    assert_eq!(codes, BTreeMap::from([(31, 3_000), (999, 2_000)]));
    assert_eq!((run.faults(0), run.stats.dropped()), (Vec::new(), 0));
    let readings = run.readings(1);
    let gaps = readings.windows(2).map(|pair| pair[1].at.since(pair[0].at));
    assert!(gaps.max().unwrap() < Nanos::SECOND, "a reading was delayed");
}

/// Scenario: bursts of two codes, and nothing after them.
/// Guarantee: the metric has all errors, and so have the events together, of which there are two per code.
#[test]
fn burst_of_xids_is_logged_once_with_the_number_of_others() {
    let faults = [(600, 31, 700), (2_200, 31, 400), (2_200, 43, 1)];
    let fault = |(at, code, count)| {
        format!("[[fault]]\ndevice = 0\nat_ms = {at}\nxid = {code}\ncount = {count}\n")
    };
    // The fake driver reports the last code for all that wait.
    let rig = Rig::new(&format!("[[device]]\n{}", faults.map(fault).concat()));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("otlp.json");
    let arguments = format!("--duration 6 {NO_POLICIES} --otlp-file {}", file.display());
    let (output, report) = run_with_report(&rig, &arguments, |_| {});
    assert_eq!(report["gpus"].as_array().unwrap().len(), 1);
    let log = stderr(&output);
    let lines: Vec<_> = log.lines().filter(|line| line.contains("XID")).collect();
    assert!((2..=4).contains(&lines.len()), "{log}");
    assert!(lines.last().unwrap().contains(" more error"), "{log}");

    let mut exported = BTreeMap::new();
    let events = elements(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
    let is_xid = |event: &&Value| event["eventName"] == "phasemeter.gpu.xid.reported";
    let events: Vec<_> = events.iter().filter(is_xid).collect();
    assert_eq!(events.len(), lines.len());
    for event in events {
        let count = attribute(event, "phasemeter.gpu.xid.count").parse::<f64>().unwrap();
        *exported.entry(attribute(event, "phasemeter.gpu.xid.code")).or_insert(0.0) += count;
    }
    assert_eq!(exported, points(&file, "phasemeter.gpu.xid.errors"));
    assert!((exported.values().sum::<f64>() - 1_101.0).abs() < f64::EPSILON, "{exported:?}");
}
