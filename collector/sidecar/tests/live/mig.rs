//! MIG instances as parts of a live GPU: by default, without counters, over changes of mode and layout, and by pod.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use phasemeter_holders::messages::ListPodResourcesResponse;
use serde_json::Value;

use crate::Rig;
use crate::fake_kubelet::FakeKubelet;
use crate::run::{
    NO_POLICIES, assert_billed, assumptions, attribute, command_of, elements, run_with_report,
    seconds, stderr,
};

/// Two halves of an H100, of which the first works.
const TWO_HALVES: &str = "
    [[device.instance]]
    uuid = \"MIG-00000000-0000-0000-0000-000000000001\"
    profile = \"3g.40gb\"
    gpu_instance = 1
    sm = 80
    [[device.instance]]
    uuid = \"MIG-00000000-0000-0000-0000-000000000002\"
    profile = \"3g.40gb\"
    gpu_instance = 2";

/// Scenario: a GPU in MIG mode with two halves, one of which works, on a driver without counters of the GPU itself.
/// Guarantee: by GPM the GPU is observed by its instances, and each has half of it, so that an idle half is half a GPU.
#[test]
fn mig_instances_have_their_parts_of_the_gpu() {
    let rig = Rig::new(
        "length_ms = 60000
        [[device]]
        mig = true
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 1
        sm = 80
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 2
        [[fault]]
        functions = [\"nvmlGpmSampleGet\"]
        error = \"not_supported\"",
    );
    let (_, report) = run_with_report(&rig, "--duration 4", |_| {});
    let gpu = &report["gpus"][0];
    let of = |value| seconds(value);
    let observed = of(&gpu["span_seconds"]) - of(&gpu["unobserved_seconds"]);
    assert!(observed > 2.0, "{gpu:#}");
    let holders = gpu["holders"].as_array().unwrap();
    let names: Vec<_> = holders.iter().map(|holder| holder["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["MIG 3g.40gb 1", "MIG 3g.40gb 2"], "{gpu:#}");
    let is_about = |found: f64, wanted: f64| (found - wanted).abs() < 0.05 * observed;
    assert!(is_about(of(&holders[0]["used_seconds"]), 0.4 * observed), "{gpu:#}");
    let idle = of(&holders[1]["never_touched_seconds"]);
    let half = (of(&gpu["span_seconds"]) - of(&gpu["nobody"]["seconds"])) / 2.0;
    assert!(is_about(idle, half) && is_about(half, observed / 2.0), "{gpu:#}");
    assert!(is_about(of(&gpu["effective_seconds"]), 0.4 * observed), "{gpu:#}");
    assert_eq!(gpu["utilization"]["basis"], "gpm.sm", "{gpu:#}");
    let stated = "GPU 0 was metered by its MIG instances while in MIG mode (gpm.sm)";
    assert!(assumptions(&report).contains(stated), "{report:#}");
}

/// Scenario: the driver has no counters of instances; a process computes on one of them.
/// Guarantee: the time is unobserved, one line says what would meter it, and the process touches its instance only.
#[test]
fn instances_without_counters_are_unobserved_and_touched_by_their_processes() {
    let rig = Rig::new(&format!(
        "length_ms = 600000
        [[device]]
        mig = true
        {TWO_HALVES}
        [[device.phase]]
        for_ms = 600000
        processes = [{{ pid = 7, gpu_instance = 2 }}]
        [[fault]]
        functions = [\"nvmlGpmSampleGet\", \"nvmlGpmMigSampleGet\"]
        error = \"not_supported\""
    ));
    let (_, report) = run_with_report(&rig, "--duration 13", |_| {});
    let gpu = &report["gpus"][0];
    assert_eq!(gpu["unobserved_seconds"], gpu["span_seconds"], "{gpu:#}");
    let notes = assumptions(&report);
    assert_eq!(notes.matches("has no GPM counters of its instances").count(), 1, "{notes}");
    let never = |place: usize| seconds(&gpu["holders"][place]["never_touched_seconds"]);
    let unused = |place: usize| seconds(&gpu["holders"][place]["granted_unused_seconds"]);
    assert_eq!((unused(0), never(1) < 1.0), (0.0, true), "{gpu:#}");
    assert!(never(0) > 4.0 && unused(1) > 4.0, "{gpu:#}");
}

/// Scenario: MIG mode is enabled and disabled in mid-run, and one instance replaced by another in between.
/// Guarantee: at every export accounts sum to the time, none falls, and at the end holders and nobody have all of it.
#[test]
fn change_of_mode_and_layout_shifts_no_account() {
    let rig = Rig::new(
        "length_ms = 600000
        [[device]]
        mig = true
        mig_from_ms = 4000
        mig_for_ms = 30000
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 1
        sm = 80
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 2
        for_ms = 18000
        [[device.instance]]
        profile = \"2g.20gb\"
        gpu_instance = 3
        at_ms = 20000
        sm = 50
        [[device.phase]]
        for_ms = 600000
        utilization = 95",
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("out.json");
    let arguments = format!("--duration 48 {NO_POLICIES} --otlp-file {}", file.display());
    let (_, report) = run_with_report(&rig, &arguments, |command| {
        command.env("OTEL_METRIC_EXPORT_INTERVAL", "4000");
    });
    let mut rounds: BTreeMap<(u64, u64), BTreeMap<String, f64>> = BTreeMap::new();
    for metric in elements(&file, ["resourceMetrics", "scopeMetrics", "metrics"]) {
        if metric["name"] != "phasemeter.gpu.time" {
            continue;
        }
        for point in metric["sum"]["dataPoints"].as_array().unwrap() {
            let time = |key: &str| point[key].as_str().unwrap().parse().unwrap();
            let phase = attribute(point, "phasemeter.phase");
            let round =
                rounds.entry((time("timeUnixNano"), time("startTimeUnixNano"))).or_default();
            assert_eq!(
                round.insert(phase, seconds(&point["asDouble"])),
                None,
                "one point per phase"
            );
        }
    }
    assert!(rounds.len() > 8, "{rounds:#?}");
    let mut before: BTreeMap<String, f64> = BTreeMap::new();
    for ((at, from), phases) in rounds {
        let length = Duration::from_nanos(at - from).as_secs_f64();
        let sum: f64 = phases.values().sum();
        // The last round leaves some milliseconds after what it contains.
        assert!((sum - length).abs() < 0.01, "{sum} s of {length}: {phases:#?}");
        for (phase, time) in phases {
            let last = before.insert(phase.clone(), time).unwrap_or_default();
            assert!(time >= last, "{phase} fell from {last} to {time}");
        }
    }
    let gpu = &report["gpus"][0];
    assert_billed(gpu);
    let holders = gpu["holders"].as_array().unwrap();
    let names: Vec<_> = holders.iter().map(|holder| holder["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["MIG 2g.20gb 3", "MIG 3g.40gb 1", "MIG 3g.40gb 2"], "{gpu:#}");
    let parts = ["used_seconds", "granted_unused_seconds", "never_touched_seconds"];
    let held = holders.iter().flat_map(|holder| parts.map(|part| seconds(&holder[part])));
    let all = held.sum::<f64>() + seconds(&gpu["nobody"]["seconds"]);
    assert!((all - seconds(&gpu["span_seconds"])).abs() < 1e-6, "{gpu:#}");
    assert!(seconds(&holders[2]["used_seconds"]) < 1e-9, "an idle half used nothing: {gpu:#}");
    assert!(seconds(&holders[1]["used_seconds"]) > 4.0, "{gpu:#}");
    let observed = seconds(&gpu["phases"]["compute_bound"]["seconds"]);
    assert!(observed > 8.0, "outside of MIG mode it is the GPU's: {gpu:#}");
}

/// Scenario: MIG mode is enabled while a pod holds the whole GPU, and an instance is created that no pod has.
/// Guarantee: the grant holds, no account moves: what the pod used before is its own, the mode is one line, and all sums
/// to the time.
#[test]
fn mig_mode_in_mid_run_takes_nothing_from_the_holder_of_the_gpu() {
    let rig = Rig::new(
        "length_ms = 600000
        [[device]]
        mig = true
        mig_from_ms = 9000
        [[device.instance]]
        profile = \"3g.40gb\"
        gpu_instance = 1
        at_ms = 10000
        sm = 80
        [[device.phase]]
        for_ms = 600000
        utilization = 95
        processes = [{ pid = 4000000 }]",
    );
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let kubelet = FakeKubelet::start(&dir.path().join("kubelet.sock"));
    let whole = "GPU-00000000-0000-0000-0000-000000000000".to_owned();
    let pod = crate::hand_over::pod("whole", "nvidia.com/gpu", whole);
    kubelet.lists(ListPodResourcesResponse { pod_resources: vec![pod] });
    let report = dir.path().join("report.json");
    let arguments = format!("--duration 24 {NO_POLICIES} --report {}", report.display());
    let mut command = command_of(&rig, "agent", &arguments);
    command.args(["--kubelet-socket", &path("kubelet.sock"), "--pod-logs", &path("logs")]);
    let output = command.args(["--socket", &path("agent.sock")]).output().unwrap();
    let log = stderr(&output);
    assert!(output.status.success(), "{log}");
    assert_eq!(log.matches("MIG mode is enabled").count(), 1, "{log}");
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let gpu = &report["gpus"][0];
    assert_billed(gpu);
    let holders = gpu["holders"].as_array().unwrap();
    let [holder] = &holders[..] else { panic!("{gpu:#}") };
    assert!(holder["name"].as_str().unwrap().contains("ml/whole"), "{gpu:#}");
    let parts = ["used_seconds", "granted_unused_seconds", "never_touched_seconds"];
    let held: f64 = parts.iter().map(|part| seconds(&holder[part])).sum();
    let all = held + seconds(&gpu["nobody"]["seconds"]);
    assert!((all - seconds(&gpu["span_seconds"])).abs() < 1e-6, "{gpu:#}");
    let before = seconds(&gpu["phases"]["compute_bound"]["seconds"]);
    assert!(before > 5.0 && seconds(&holder["used_seconds"]) >= 0.95 * before - 1.0, "{gpu:#}");
}

/// Scenario: two pods have a half each; a process of an unreadable control group computes on one of them.
/// Guarantee: by the agent, its pod has used its half, and the other one has never touched its own.
#[test]
fn pods_pay_for_their_instances() {
    let rig = Rig::new(&format!(
        "length_ms = 600000
        [[device]]
        mig = true
        {TWO_HALVES}
        [[device.phase]]
        for_ms = 600000
        processes = [{{ pid = 4000000, gpu_instance = 1 }}]
        [[fault]]
        functions = [\"nvmlGpmSampleGet\"]
        error = \"not_supported\""
    ));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let kubelet = FakeKubelet::start(&dir.path().join("kubelet.sock"));
    let pods = [("busy", 1), ("idle", 2)].map(|(pod, instance)| {
        let device = format!("MIG-00000000-0000-0000-0000-{instance:012}");
        crate::hand_over::pod(pod, "nvidia.com/mig-3g.40gb", device)
    });
    kubelet.lists(ListPodResourcesResponse { pod_resources: pods.into() });
    let report = dir.path().join("report.json");
    let arguments = format!("--duration 24 {NO_POLICIES} --report {}", report.display());
    let mut command = command_of(&rig, "agent", &arguments);
    command.args(["--kubelet-socket", &path("kubelet.sock"), "--pod-logs", &path("logs")]);
    let output = command.args(["--socket", &path("agent.sock")]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&fs::read(report).unwrap()).unwrap();
    let gpu = &report["gpus"][0];
    let holder = |name: &str| {
        let holders = gpu["holders"].as_array().unwrap();
        let found = holders.iter().find(|holder| holder["name"].as_str().unwrap().contains(name));
        found.unwrap_or_else(|| panic!("{name}: {gpu:#}"))
    };
    let (busy, idle) = (holder("ml/busy"), holder("ml/idle"));
    let used = seconds(&busy["used_seconds"]);
    // What was used before the first poll is divided by grants.
    assert!(used > 2.0 && seconds(&idle["used_seconds"]) < 0.5, "{gpu:#}");
    // 80% of a half.
    assert!((seconds(&gpu["effective_seconds"]) - used).abs() < 0.5 + 0.2 * used, "{gpu:#}");
    let unused = seconds(&idle["granted_unused_seconds"]);
    assert!(unused < 1e-9 && seconds(&idle["never_touched_seconds"]) > 5.0, "{gpu:#}");
    assert_eq!(busy["method"], "by_use", "{gpu:#}");
}
