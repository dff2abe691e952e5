//! Lost and hung GPUs in the report and exports of the binary.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::otlp::{self, Attributes, Stream};
use crate::run::{
    NO_POLICIES, assert_billed, assert_observed, assert_one_session_per_hour, assumptions,
    attribute, elements, named, run_with_report, seconds, spans, stderr,
};
use crate::{Rig, unless_stalled};

#[test]
fn lost_gpu_is_unobserved_and_does_not_affect_others() {
    unless_stalled(|| {
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
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("otlp.json");
        let arguments = format!("--duration 2.8 {NO_POLICIES} --otlp-file {}", file.display());
        let (output, report) = run_with_report(&rig, &arguments, |_| {});
        assert_observed(&report["gpus"][0]);
        let lost = &report["gpus"][1];
        let unobserved = seconds(&lost["unobserved_seconds"]);
        assert!((1.2..2.8).contains(&unobserved), "{unobserved}");
        assert_eq!(lost["unobserved_reasons"][0]["reason"], "gpu_lost");
        assert_billed(lost);
        assert!(stderr(&output).contains("GPU 1: GPU lost"), "{}", stderr(&output));

        let mut events = elements(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
        events.sort_by_key(|event| event["eventName"].to_string());
        let names: Vec<_> = events.iter().map(|event| event["eventName"].clone()).collect();
        assert_eq!(names, ["phasemeter.gpu.lost", "phasemeter.gpu.xid.reported"]);
        // Without a given trace and a known end, each session is a trace.
        assert_eq!(report["experiment"]["trace_id"], Value::Null);
        assert!(stderr(&output).contains("one trace per session"), "{}", stderr(&output));
        let spans = spans(&file);
        let sessions = named(&spans, "gpu session");
        let traces: BTreeSet<_> =
            sessions.iter().map(|session| session["traceId"].as_str()).collect();
        assert_eq!((traces.len(), traces.len() % 2), (sessions.len(), 0), "one trace per session");
        for event in &events {
            let id = |it: &Value| attribute(it, "hw.id");
            let own = sessions.iter().filter(|session| id(session) == id(event));
            let context = |it: &Value| (it["traceId"].clone(), it["spanId"].clone());
            assert!(own.map(|it| context(it)).any(|it| it == context(event)), "{event:#}");
        }
    });
}

#[test]
fn gpu_hung_until_the_end_is_billed_until_the_end() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        at_ms = 500
        hang = true",
        );
        let (output, report) = run_with_report(&rig, "--duration 2", |_| {});
        assert_eq!(output.status.code(), Some(0));
        assert_observed(&report["gpus"][0]);
        let hung = &report["gpus"][1];
        // The last call had not returned a second after the end.
        assert_eq!(hung["span_seconds"], report["gpus"][0]["span_seconds"]);
        assert_eq!(hung["unobserved_reasons"][0]["reason"], "no_reading");
        assert_billed(hung);
        assert!(stderr(&output).contains("GPU 1: driver call for"), "{}", stderr(&output));
        assert!(assumptions(&report).contains("GPU 1 hung at the end"), "{}", assumptions(&report));
    });
}

/// The bill of a GPU without any reading begins with the run.
#[test]
fn gpu_hung_from_the_start_is_billed_from_the_start() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
        [[device]]
        [[device]]
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetPowerUsage\"]
        hang = true",
        );
        let (output, report) = run_with_report(&rig, "--duration 1.5", |_| {});
        assert_eq!(output.status.code(), Some(0));
        let hung = &report["gpus"][1];
        assert_eq!(hung["span_seconds"], report["gpus"][0]["span_seconds"]);
        assert_eq!(hung["unobserved_seconds"], hung["span_seconds"]);
        assert_billed(hung);
    });
}

/// Slow calls are polled less often, but never less often than their values are valid, and their GPU is
/// billed to the end of the run.
#[test]
fn slow_utilization_is_observed_until_the_end() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
        [[device]]
        [[device]]
        [[device.phase]]
        utilization = 95
        [[fault]]
        device = 1
        functions = [\"nvmlDeviceGetUtilizationRates\"]
        delay_ms = 150",
        );
        let (_, report) = run_with_report(&rig, "--basis nvml.gpu --duration 6", |_| {});
        let [fast, slow] = [0, 1].map(|gpu| &report["gpus"][gpu]);
        assert_observed(fast);
        assert_observed(slow);
        assert_eq!(slow["span_seconds"], fast["span_seconds"]);
        assert!(seconds(&slow["span_seconds"]) >= 6.0, "{slow:#}");
        assert_eq!(slow["phases"]["compute_bound"]["seconds"], slow["span_seconds"]);
        let [fast, slow] = [fast, slow].map(|gpu| seconds(&gpu["energy_joules"]));
        assert!((0.95..1.05).contains(&(slow / fast)), "{slow} J, not {fast} J");
    });
}

/// The GPU is lost for a second.
#[test]
fn returned_gpu_continues_its_accounts() {
    unless_stalled(|| {
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
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("otlp.json");
        let arguments = format!("--duration 4 {NO_POLICIES} --otlp-file {}", file.display());
        let (_, report) = run_with_report(&rig, &arguments, |command| {
            command.env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        });

        assert_eq!(report["gpus"].as_array().unwrap().len(), 2, "the same GPU");
        assert_observed(&report["gpus"][0]);
        let gpu = &report["gpus"][1];
        assert_billed(gpu);
        let unobserved = seconds(&gpu["unobserved_seconds"]);
        assert!((0.8..2.0).contains(&unobserved), "{unobserved}");
        let busy = seconds(&gpu["phases"]["compute_bound"]["seconds"]);
        assert!((busy + unobserved - seconds(&gpu["span_seconds"])).abs() < 1e-9, "{gpu:#}");

        let captured = otlp::read(&fs::read_to_string(&file).unwrap());
        let events: Vec<_> =
            captured.events.iter().map(|event| event.event_name.as_str()).collect();
        assert_eq!(events, ["phasemeter.gpu.lost", "phasemeter.gpu.recovered"]);
        let id = gpu["id"].as_str().unwrap();
        let is_own = |labels: &Attributes| labels["hw.id"] == id;
        let sessions = captured.named("gpu session").into_iter();
        let own = sessions.filter(|span| is_own(&otlp::attributes(&span.attributes)));
        let times = own.map(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        assert_one_session_per_hour(times.collect());
        let of = |name| captured.streams(name).into_iter().filter(|(labels, _)| is_own(labels));
        let busy_time = of("phasemeter.gpu.time")
            .find(|(labels, _)| labels["phasemeter.phase"] == "compute_bound")
            .unwrap();
        let energy = of("hw.energy").next().unwrap();
        for ((_, Stream { points, .. }), all) in
            [(busy_time, busy), (energy, seconds(&gpu["energy_joules"]))]
        {
            assert!(points.iter().all(|point| point.start == points[0].start), "the sum restarted");
            assert!(
                points.is_sorted_by(|a, b| a.value <= b.value),
                "the sum decreased: {points:#?}"
            );
            let last = points.last().unwrap().value;
            assert!((last - all).abs() < 1e-6, "{last} ≠ {all}");
        }
    });
}
