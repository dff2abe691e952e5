//! GPUs that respond late, are added, replaced, or share a UUID.

use serde_json::Value;

use crate::run::{
    NO_POLICIES, assert_billed, attribute, elements, run_with_report, seconds, stderr,
};
use crate::{Rig, unless_stalled};

/// The names of the events of a GPU, and the seconds of its span that were observed and in all.
fn gpu_result(report: &Value, events: &[Value], uuid: &str) -> (Vec<String>, f64, f64) {
    let gpus = report["gpus"].as_array().unwrap();
    let gpu = gpus.iter().find(|gpu| gpu["uuid"] == uuid).unwrap();
    assert_billed(gpu);
    let own = events.iter().filter(|event| attribute(event, "hw.id") == uuid);
    let names = own.map(|event| event["eventName"].as_str().unwrap().to_owned()).collect();
    let (span, unobserved) = (seconds(&gpu["span_seconds"]), seconds(&gpu["unobserved_seconds"]));
    (names, span - unobserved, span)
}

/// Scenario: of the GPUs of a machine one fails at the start, one is replaced, and one is added.
/// Guarantee: all are metered in the end. The one that failed is unobserved until it responds, since it
/// was listed at the start; the others begin when they are listed. Each change is an event.
#[test]
fn gpus_that_fail_at_start_or_are_listed_later_are_metered() {
    unless_stalled(|| {
        let rig = Rig::new(
            "length_ms = 60000
            [[device]]
            uuid = \"GPU-stays\"
            [[device]]
            uuid = \"GPU-fails-at-start\"
            [[device]]
            uuid = \"GPU-is-removed\"
            listed_for_ms = 2500
            [[device]]
            uuid = \"GPU-replaces-it\"
            listed_from_ms = 2500
            [[device]]
            uuid = \"GPU-is-added\"
            listed_from_ms = 2500
            [[fault]]
            device = 1
            for_ms = 2500
            error = \"unknown\"",
        );
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("otlp.json");
        let arguments = format!("--duration 9 {NO_POLICIES} --otlp-file {}", file.display());
        let (output, report) = run_with_report(&rig, &arguments, |_| {});
        let log = stderr(&output);
        let events = elements(&file, ["resourceLogs", "scopeLogs", "logRecords"]);
        let of_gpu = |uuid| gpu_result(&report, &events, uuid);
        let (names, observed, span) = of_gpu("GPU-stays");
        assert!(names.is_empty() && observed > 8.0 && span > 8.9, "{names:?} {observed} {span}");
        let (names, observed, of_all) = of_gpu("GPU-fails-at-start");
        assert_eq!(names, ["phasemeter.gpu.recovered"], "{log}");
        assert!(observed > 1.0 && (of_all - span).abs() < 1e-9, "{observed} {of_all}");
        let (names, observed, of_all) = of_gpu("GPU-is-removed");
        assert_eq!(names, ["phasemeter.gpu.lost"], "{log}");
        assert!(observed < 4.0 && (of_all - span).abs() < 1e-9, "{observed} {of_all}");
        for late in ["GPU-replaces-it", "GPU-is-added"] {
            let (names, observed, span) = of_gpu(late);
            assert_eq!(names, ["phasemeter.gpu.joined"], "{log}");
            assert!(observed > 1.0 && span < 6.5, "{observed} {span}");
        }
        assert!(log.contains("GPU 2 is GPU-replaces-it now, not GPU-is-removed"), "{log}");
        assert!(log.contains("GPU 3 (GPU-is-added) is new"), "{log}");
    });
}

/// Scenario: the driver reports one UUID for two GPUs.
/// Guarantee: the second one is a GPU of the report, unobserved, and the log names both.
#[test]
fn gpus_with_one_uuid_are_not_one_gpu() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        uuid = \"GPU-cloned\"
        [[device]]
        uuid = \"GPU-cloned\"",
    );
    let (output, report) = run_with_report(&rig, &format!("--duration 2 {NO_POLICIES}"), |_| {});
    let gpus = report["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{report:#}");
    assert!(seconds(&gpus[0]["unobserved_seconds"]) < 1.0);
    assert_eq!(gpus[1]["unobserved_seconds"], gpus[1]["span_seconds"]);
    assert!(stderr(&output).contains("GPU 1 has the UUID of GPU 0"), "{}", stderr(&output));
}
