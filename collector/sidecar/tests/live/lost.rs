//! GPUs that are lost or hang, in the report and on the wire of the binary as users run it.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::Rig;
use crate::otlp::{self, Attributes, Stream};
use crate::run::{
    assert_billed, assert_observed, assumptions, attribute, named, reported, seconds, spans,
    stderr, told,
};

#[test]
fn a_lost_gpu_is_unobserved_and_costs_the_others_nothing() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        at_ms = 1000
        error = \"gpu_is_lost\"
        [[fault]]
        device = 0
        at_ms = 800
        xid = 79",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--duration 2.8 --otlp-file {}", file.display());
    let (output, report) = reported(&rig, &arguments, |_| {});
    assert_observed(&report["gpus"][0]);
    let lost = &report["gpus"][1];
    let unobserved = seconds(&lost["unobserved_seconds"]);
    assert!((1.2..2.8).contains(&unobserved), "{unobserved}");
    assert_eq!(lost["unobserved_reasons"][0]["reason"], "GPU lost");
    assert_billed(lost);
    assert!(stderr(&output).contains("GPU 1: the GPU is lost"), "{}", stderr(&output));

    let mut events = told(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
    events.sort_by_key(|event| event["eventName"].to_string());
    let names: Vec<_> = events.iter().map(|event| event["eventName"].clone()).collect();
    assert_eq!(names, ["phasemeter.gpu.lost", "phasemeter.gpu.xid"]);
    // Nobody gave a trace and nobody knows the end: each session is one.
    assert_eq!(report["experiment"]["trace_id"], Value::Null);
    assert!(stderr(&output).contains("a trace a session"), "{}", stderr(&output));
    let spans = spans(&file);
    let sessions = named(&spans, "gpu session");
    let traces: BTreeSet<_> = sessions.iter().map(|session| session["traceId"].as_str()).collect();
    assert_eq!(traces.len(), 2);
    for event in &events {
        let id = |it: &Value| attribute(it, "hw.id");
        let mine = sessions.iter().find(|session| id(session) == id(event)).unwrap();
        assert_eq!((&event["traceId"], &event["spanId"]), (&mine["traceId"], &mine["spanId"]));
    }
}

#[test]
fn a_gpu_that_hangs_to_the_end_is_billed_to_the_end() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        at_ms = 500
        hang = true",
    );
    let (output, report) = reported(&rig, "--duration 2", |_| {});
    assert_eq!(output.status.code(), Some(0));
    assert_observed(&report["gpus"][0]);
    let hung = &report["gpus"][1];
    assert!(seconds(&hung["span_seconds"]) >= seconds(&report["gpus"][0]["span_seconds"]));
    assert_eq!(hung["unobserved_reasons"][0]["reason"], "no reading");
    assert_billed(hung);
    assert!(stderr(&output).contains("GPU 1: a call for"), "{}", stderr(&output));
    assert!(assumptions(&report).contains("GPU 1 hung at the end"), "{}", assumptions(&report));
}

/// Its bill begins with the run, although it never said a word.
#[test]
fn a_gpu_that_hangs_from_the_start_is_billed_from_the_start() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetPowerUsage\"]
        hang = true",
    );
    let (output, report) = reported(&rig, "--duration 1.5", |_| {});
    assert_eq!(output.status.code(), Some(0));
    let hung = &report["gpus"][1];
    assert!(seconds(&hung["span_seconds"]) >= seconds(&report["gpus"][0]["span_seconds"]));
    assert_eq!(hung["unobserved_seconds"], hung["span_seconds"]);
    assert_billed(hung);
}

/// A second without it, between two with it.
#[test]
fn a_gpu_that_returns_continues_its_accounts() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        [[device.phase]]
        utilization = 50
        [[device]]
        [[device.phase]]
        utilization = 95
        power_w = 400
        [[fault]]
        device = 1
        at_ms = 1200
        for_ms = 1000
        error = \"gpu_is_lost\"",
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("otlp.json");
    let arguments = format!("--duration 4 --otlp-file {}", file.display());
    let (_, report) = reported(&rig, &arguments, |command| {
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
    });

    assert_eq!(report["gpus"].as_array().unwrap().len(), 2, "it is no new GPU");
    assert_observed(&report["gpus"][0]);
    let gpu = &report["gpus"][1];
    assert_billed(gpu);
    let unobserved = seconds(&gpu["unobserved_seconds"]);
    assert!((0.8..2.0).contains(&unobserved), "{unobserved}");
    let busy = seconds(&gpu["phases"]["compute_bound"]["seconds"]);
    assert!((busy + unobserved - seconds(&gpu["span_seconds"])).abs() < 1e-9, "{gpu:#}");

    let told = otlp::read(&fs::read_to_string(&file).unwrap());
    let events: Vec<_> = told.events.iter().map(|event| event.event_name.as_str()).collect();
    assert_eq!(events, ["phasemeter.gpu.lost", "phasemeter.gpu.recovered"]);
    let id = gpu["gpu"].as_str().unwrap();
    let mine = |labels: &Attributes| labels["hw.id"] == id;
    let sessions = told.named("gpu session").into_iter();
    assert_eq!(sessions.filter(|span| mine(&otlp::attributes(&span.attributes))).count(), 1);
    let of = |name| told.streams(name).into_iter().filter(|(labels, _)| mine(labels));
    let busy_time = of("phasemeter.gpu.time")
        .find(|(labels, _)| labels["phasemeter.phase"] == "compute_bound")
        .unwrap();
    let energy = of("hw.energy").next().unwrap();
    for ((_, Stream { points, .. }), all) in
        [(busy_time, busy), (energy, seconds(&gpu["energy_joules"]))]
    {
        assert!(points.iter().all(|point| point.start == points[0].start), "it began again");
        assert!(points.is_sorted_by(|a, b| a.value <= b.value), "it fell: {points:#?}");
        let last = points.last().unwrap().value;
        assert!((last - all).abs() < 1e-6, "{last} ≠ {all}");
    }
}
