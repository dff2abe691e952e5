//! The OTLP file: consistent sums, one trace without gaps, and OpenTelemetry environment variables.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::logs::Plan;
use crate::otlp::{self, Attributes, Captured};
use crate::phasemeter::Phasemeter;
use crate::report;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Three GPUs for ten minutes, exported every minute.
fn log() -> String {
    Plan { seed: 61, gpus: 3, every: 200, ticks: 3_000, missing: 5, ..Plan::default() }.text()
}

/// The report and the OTLP file of an audit.
fn audited(args: &[&str], environment: &[(&str, &str)]) -> (Value, Captured) {
    let dir = tempfile::tempdir().unwrap();
    let run = Phasemeter::audit().within(dir.path()).stdin(log());
    let run = run.args(["-", "--price", "3.7", "--otlp-file", "otlp.jsonl"]).args(args);
    let run = environment.iter().fold(run, |run, (name, value)| run.env(name, value));
    let report = run.report();
    report::check(&report);
    (report, read(&dir.path().join("otlp.jsonl")))
}

fn read(file: &Path) -> Captured {
    otlp::read(&fs::read_to_string(file).unwrap())
}

/// Rounding error of a point in a double: a nano-dollar or a nanosecond.
const POINT_ERROR: f64 = 1e-9;

/// The last points of cost sum to the bill, those of time to the span.
pub(crate) fn check_sums(report: &Value, captured: &Captured) {
    let sum = |name| {
        let streams = captured.streams(name);
        let last = streams.values().map(|stream| stream.points.last().unwrap().value);
        (last.sum::<f64>(), POINT_ERROR * streams.len() as f64)
    };
    let (dollars, slack) = sum("phasemeter.gpu.cost");
    let bill = report::nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    assert!((dollars - bill).abs() <= slack + 1e-15 * bill, "{dollars} ≠ {bill}");
    let (seconds, slack) = sum("phasemeter.gpu.time");
    let span = report["fleet"]["span_seconds"].as_f64().unwrap();
    assert!((seconds - span).abs() <= slack + 1e-15 * span, "{seconds} ≠ {span}");
}

#[test]
fn last_points_sum_to_report() {
    let (report, captured) = audited(&[], &[]);
    check_sums(&report, &captured);
    for gpu in report::list(&report["gpus"]) {
        let times = captured.last("phasemeter.gpu.time", gpu["id"].as_str().unwrap());
        let seconds: f64 = times.values().sum();
        assert!((seconds - gpu["span_seconds"].as_f64().unwrap()).abs() < 1e-9, "{gpu:#}");
    }
}

#[test]
fn counters_are_monotonic_with_constant_start() {
    let (_, captured) = audited(&[], &[]);
    let mut sums = BTreeSet::new();
    for name in captured.numbers() {
        for (attributes, stream) in captured.streams(name) {
            for pair in stream.points.windows(2) {
                assert!(pair[0].time < pair[1].time, "{name} {attributes:?}");
                if stream.is_sum {
                    assert!(pair[0].value <= pair[1].value, "{name} {attributes:?} decreased");
                    assert_eq!(pair[0].start, pair[1].start, "{name} {attributes:?}");
                    assert!(pair[0].start > 0);
                }
            }
            if stream.is_sum {
                sums.insert(name);
            }
        }
    }
    let ours = ["cost", "effective_time", "time", "waste"].map(|it| format!("phasemeter.gpu.{it}"));
    assert!(ours.iter().all(|name| sums.contains(name.as_str())), "{sums:?}");
}

#[test]
fn spans_form_one_trace_and_phases_tile_sessions() {
    let (report, captured) = audited(&["--experiment", "tuning"], &[]);
    let [experiment] = captured.named("experiment")[..] else { panic!("one experiment") };
    assert_eq!(hex(&experiment.trace_id), report["experiment"]["trace_id"].as_str().unwrap());
    assert!(experiment.parent_span_id.is_empty(), "it is the root");

    let sessions = captured.children(experiment);
    assert_eq!(sessions.len(), 3);
    let mut reached: BTreeSet<&[u8]> = BTreeSet::from([experiment.span_id.as_slice()]);
    for session in sessions {
        reached.insert(&session.span_id);
        assert_eq!(session.name, "gpu session");
        assert!(experiment.start_time_unix_nano <= session.start_time_unix_nano);
        assert!(session.end_time_unix_nano <= experiment.end_time_unix_nano);
        let mut now = session.start_time_unix_nano;
        for phase in captured.children(session) {
            reached.insert(&phase.span_id);
            assert_eq!(phase.start_time_unix_nano, now, "a gap before {phase:?}");
            now = phase.end_time_unix_nano;
            let [mine, its] = [phase, session].map(|span| otlp::attributes(&span.attributes));
            assert_eq!(mine["hw.id"], its["hw.id"]);
            assert_eq!(mine["phasemeter.phase"], phase.name);
        }
        assert_eq!(now, session.end_time_unix_nano);
    }
    assert_eq!(reached.len(), captured.spans.len(), "an orphan span or a duplicate ID");
    for span in &captured.spans {
        assert_eq!(span.trace_id, experiment.trace_id);
        assert_eq!(otlp::attributes(&span.attributes)["phasemeter.experiment.id"], "tuning");
    }
}

#[test]
fn span_costs_sum_to_bill() {
    let (report, captured) = audited(&[], &[]);
    let total = report::nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    let cost_of = |name: &str| -> f64 {
        let spans = captured.spans.iter().filter(|span| match name {
            "phase" => !matches!(span.name.as_str(), "experiment" | "gpu session"),
            name => span.name == name,
        });
        let attributes = spans.flat_map(|span| otlp::attributes(&span.attributes));
        let costs = attributes.filter(|(key, _)| key.starts_with("phasemeter.cost."));
        costs.map(|(_, cost)| cost.parse::<f64>().unwrap()).sum()
    };
    for name in ["experiment", "gpu session", "phase"] {
        let sum = cost_of(name);
        let slack = POINT_ERROR * 7.0 * captured.spans.len() as f64;
        assert!((sum - total).abs() <= slack, "{name}: {sum} ≠ {total}");
    }
}

#[test]
fn exemplars_reference_exported_spans() {
    let (_, captured) = audited(&[], &[]);
    for (metric, least) in [("phasemeter.gpu.utilization", 30), ("phasemeter.gpu.cost", 5)] {
        let exemplars = captured.exemplars(metric);
        for (gpu, exemplar) in &exemplars {
            let span = captured.spans.iter().find(|span| span.span_id == exemplar.span_id).unwrap();
            assert_eq!(span.trace_id, exemplar.trace_id);
            assert_eq!(otlp::attributes(&span.attributes)["hw.id"], *gpu);
            let held = span.start_time_unix_nano..=span.end_time_unix_nano;
            assert!(held.contains(&exemplar.time_unix_nano), "{exemplar:?} outside {span:?}");
        }
        assert!(exemplars.len() > least, "{metric}: only {} exemplars", exemplars.len());
    }
}

#[test]
fn experiment_is_child_of_given_context() {
    let given = traceparent("01");
    let by_option = audited(&["--traceparent", &given], &[]);
    let by_environment = audited(&[], &[("TRACEPARENT", &given), ("TRACESTATE", "vendor=1")]);
    for (report, captured) in [&by_option, &by_environment] {
        assert_eq!(report["experiment"]["trace_id"], TRACE);
        let [experiment] = captured.named("experiment")[..] else { panic!("one experiment") };
        assert_eq!(hex(&experiment.parent_span_id), PARENT);
        assert!(captured.spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    }
    let states =
        |captured: &Captured| captured.spans.iter().all(|span| span.trace_state == "vendor=1");
    assert!(states(&by_environment.1) && !states(&by_option.1));
}

#[test]
fn unsampled_trace_does_not_change_metrics_or_cost() {
    let (report, captured) = audited(&[], &[]);
    let parent = traceparent("00");
    let off: [&[(&str, &str)]; 4] = [
        &[("TRACEPARENT", &parent)],
        &[("OTEL_TRACES_SAMPLER", "always_off")],
        &[("OTEL_TRACES_SAMPLER", "parentbased_always_off")],
        &[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")],
    ];
    for environment in off {
        let (unsampled_report, unsampled) = audited(&[], environment);
        assert!(unsampled.spans.is_empty(), "{environment:?}");
        for metric in ["phasemeter.gpu.utilization", "phasemeter.gpu.cost"] {
            assert!(unsampled.exemplars(metric).is_empty(), "{environment:?}");
        }
        assert_eq!(unsampled.metrics, captured.without_exemplars(), "{environment:?}");
        assert_eq!(unsampled_report["cost"], report["cost"]);
    }
    // always_on ignores the parent.
    let args = ["--traceparent", parent.as_str()];
    assert!(audited(&args, &[]).1.spans.is_empty());
    let on = audited(&args, &[("OTEL_TRACES_SAMPLER", "always_on")]);
    assert_eq!(on.1.spans.len(), captured.spans.len());
}

#[test]
fn otel_environment_variables_are_honored() {
    let points = |captured: &Captured| {
        let streams = captured.streams("phasemeter.gpu.price");
        streams.values().map(|stream| stream.points.len()).max().unwrap()
    };
    let (_, captured) = audited(&[], &[]);
    // At every whole minute of ten, and at the end.
    assert_eq!(points(&captured), 11);
    let (_, often) = audited(&[], &[("OTEL_METRIC_EXPORT_INTERVAL", "10000")]);
    assert_eq!(points(&often), 61);
    for (attributes, stream) in often.streams("phasemeter.gpu.price") {
        let inner = stream.points.split_last().unwrap().1;
        assert!(inner.iter().all(|point| point.time % 10_000_000_000 == 0), "{attributes:?}");
    }

    let services = |captured: &Captured| -> BTreeSet<String> {
        captured.resources.iter().map(|(resource, _)| resource["service.name"].clone()).collect()
    };
    let names = |workload: &str| BTreeSet::from(["phasemeter".to_owned(), workload.to_owned()]);
    assert_eq!(services(&captured), names("unknown_service:phasemeter"));
    let environment = [
        ("OTEL_SERVICE_NAME", "trainer"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=vision"),
    ];
    assert_eq!(services(&audited(&[], &environment).1), names("trainer"));
}

/// The resource of `hw.*`, and that of everything else.
fn resources(captured: &Captured) -> [&Attributes; 2] {
    let is_hardware = |names: &[String]| names.iter().all(|name| name.starts_with("hw."));
    [true, false].map(|wanted| {
        let mut of = captured.resources.iter().filter(|(_, names)| is_hardware(names) == wanted);
        let (first, _) = of.next().unwrap();
        assert!(of.all(|(resource, _)| resource == first), "one resource");
        first
    })
}

#[test]
fn hardware_is_described_as_given_and_not_as_auditing_machine() {
    let (_, captured) = audited(&[], &[]);
    let [hardware, _] = resources(&captured);
    let keys: Vec<_> = hardware.keys().map(String::as_str).collect();
    assert_eq!(keys, ["service.instance.id", "service.name", "service.version"]);

    let given = "host.name=node-7,cloud.region=us-east-1,k8s.node.name=n,team=vision";
    let (_, captured) = audited(&[], &[("OTEL_RESOURCE_ATTRIBUTES", given)]);
    let [hardware, workload] = resources(&captured);
    for (key, value) in
        [("host.name", "node-7"), ("cloud.region", "us-east-1"), ("k8s.node.name", "n")]
    {
        assert_eq!((&*hardware[key], &*workload[key]), (value, value));
    }
    assert_eq!((hardware.get("team"), &*workload["team"]), (None, "vision"));
}

/// Series continue if a log is audited again, and do not mix with those of another log.
#[test]
fn instance_ids_follow_from_log_unless_given() {
    let ids = |args: &[&str], environment: &[(&str, &str)]| {
        let (_, captured) = audited(args, environment);
        resources(&captured).map(|resource| resource["service.instance.id"].clone())
    };
    let first = ids(&[], &[]);
    assert_eq!(first, ids(&[], &[]));
    assert_eq!(first, ids(&[], &[("TRACEPARENT", &traceparent("01"))]));
    assert_ne!(first[0], first[1]);
    let other = ids(&["--experiment", "tuning"], &[]);
    assert!(other.iter().all(|id| !first.contains(id)), "{other:?}");
    let given = ids(&[], &[("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=3")]);
    assert_eq!(given[1], "3");
}

#[test]
fn increases_of_delta_temporality_sum_to_report() {
    let name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    let (report, captured) = audited(&[], &[(name, "Delta")]);
    let streams = captured.streams("phasemeter.gpu.cost");
    let points = || streams.values().flat_map(|stream| &stream.points);
    assert!(points().count() > 30, "an increase per minute and phase");
    let dollars: f64 = points().map(|point| point.value).sum();
    let bill = report::nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    assert!((dollars - bill).abs() < POINT_ERROR, "{dollars} ≠ {bill}");
    for stream in streams.values() {
        assert!(stream.points.windows(2).all(|pair| pair[1].start == pair[0].time));
    }
}

#[test]
fn invalid_environment_variables_warn_once() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("TRACEPARENT", "00-xyz"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1"),
        ("OTEL_RESOURCE_ATTRIBUTES", "what"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "sometimes"),
        ("OTEL_CONFIG_FILE", "otel.yaml"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "9"),
    ] {
        let run = Phasemeter::audit().within(dir.path()).arg("-").stdin(log()).env(name, value);
        let outcome = run.run();
        assert_eq!(outcome.status, 0, "{name}");
        assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
        assert!(outcome.err.starts_with(&format!("phasemeter: {name}: ")), "{}", outcome.err);
    }
}
