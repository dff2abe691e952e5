//! The OTLP file: sums that close, one trace that has no holes, and what the environment says.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::logs::Plan;
use crate::otlp::{self, Told};
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

/// Three GPUs for ten minutes, told every minute.
fn log() -> String {
    Plan { seed: 61, gpus: 3, every: 200, ticks: 3_000, missing: 5, ..Plan::default() }.text()
}

/// The report and the OTLP file of an audit.
fn audited(args: &[&str], environment: &[(&str, &str)]) -> (Value, Told) {
    let folder = tempfile::tempdir().unwrap();
    let run = Phasemeter::audit().within(folder.path()).stdin(log());
    let run = run.args(["-", "--price", "3.7", "--otlp-file", "otlp.jsonl"]).args(args);
    let run = environment.iter().fold(run, |run, (name, value)| run.env(name, value));
    let report = run.report();
    report::check(&report);
    (report, read(&folder.path().join("otlp.jsonl")))
}

fn read(file: &Path) -> Told {
    otlp::read(&fs::read_to_string(file).unwrap())
}

/// What rounding to a double may cost a point: a nano-dollar, or a nanosecond.
const A_POINT: f64 = 1e-9;

/// The last points of cost are the bill, those of time the time.
pub(crate) fn check_sums(report: &Value, told: &Told) {
    let sum = |name| {
        let streams = told.streams(name);
        let last = streams.values().map(|stream| stream.points.last().unwrap().value);
        (last.sum::<f64>(), A_POINT * streams.len() as f64)
    };
    let (dollars, slack) = sum("phasemeter.gpu.cost");
    let bill = report::nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    assert!((dollars - bill).abs() <= slack + 1e-15 * bill, "{dollars} ≠ {bill}");
    let (seconds, slack) = sum("phasemeter.gpu.time");
    let span = report["fleet"]["span_seconds"].as_f64().unwrap();
    assert!((seconds - span).abs() <= slack + 1e-15 * span, "{seconds} ≠ {span}");
}

#[test]
fn the_last_points_sum_to_the_report() {
    let (report, told) = audited(&[], &[]);
    check_sums(&report, &told);
    for gpu in report::list(&report["gpus"]) {
        let times = told.last("phasemeter.gpu.time", gpu["gpu"].as_str().unwrap());
        let seconds: f64 = times.values().sum();
        assert!((seconds - gpu["span_seconds"].as_f64().unwrap()).abs() < 1e-9, "{gpu:#}");
    }
}

#[test]
fn sums_never_fall_and_keep_their_start() {
    let (_, told) = audited(&[], &[]);
    let mut sums = BTreeSet::new();
    for name in told.numbers() {
        for (attributes, stream) in told.streams(name) {
            for pair in stream.points.windows(2) {
                assert!(pair[0].time < pair[1].time, "{name} {attributes:?}");
                if stream.is_sum {
                    assert!(pair[0].value <= pair[1].value, "{name} {attributes:?} fell");
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
fn every_span_descends_from_the_experiment_and_phases_tile_each_session() {
    let (report, told) = audited(&["--experiment", "tuning"], &[]);
    let [experiment] = told.named("experiment")[..] else { panic!("one experiment") };
    assert_eq!(hex(&experiment.trace_id), report["experiment"]["trace_id"].as_str().unwrap());
    assert!(experiment.parent_span_id.is_empty(), "it is the root");

    let sessions = told.under(experiment);
    assert_eq!(sessions.len(), 3);
    let mut reached: BTreeSet<&[u8]> = BTreeSet::from([experiment.span_id.as_slice()]);
    for session in sessions {
        reached.insert(&session.span_id);
        assert_eq!(session.name, "gpu session");
        assert!(experiment.start_time_unix_nano <= session.start_time_unix_nano);
        assert!(session.end_time_unix_nano <= experiment.end_time_unix_nano);
        let mut now = session.start_time_unix_nano;
        for phase in told.under(session) {
            reached.insert(&phase.span_id);
            assert_eq!(phase.start_time_unix_nano, now, "a hole before {phase:?}");
            now = phase.end_time_unix_nano;
            let [mine, its] = [phase, session].map(|span| otlp::attributes(&span.attributes));
            assert_eq!(mine["hw.id"], its["hw.id"]);
            assert_eq!(mine["phasemeter.phase"], phase.name);
        }
        assert_eq!(now, session.end_time_unix_nano);
    }
    assert_eq!(reached.len(), told.spans.len(), "a span is an orphan, or two share an id");
    for span in &told.spans {
        assert_eq!(span.trace_id, experiment.trace_id);
        assert_eq!(otlp::attributes(&span.attributes)["phasemeter.experiment.id"], "tuning");
    }
}

#[test]
fn spans_carry_the_bill() {
    let (report, told) = audited(&[], &[]);
    let total = report::nanos(&report["cost"]["total_usd"]).unwrap() as f64 / 1e9;
    let cost_of = |name: &str| -> f64 {
        let spans = told.spans.iter().filter(|span| match name {
            "phase" => !matches!(span.name.as_str(), "experiment" | "gpu session"),
            name => span.name == name,
        });
        let attributes = spans.flat_map(|span| otlp::attributes(&span.attributes));
        let costs = attributes.filter(|(key, _)| key.starts_with("phasemeter.cost."));
        costs.map(|(_, cost)| cost.parse::<f64>().unwrap()).sum()
    };
    for name in ["experiment", "gpu session", "phase"] {
        let sum = cost_of(name);
        let slack = A_POINT * 7.0 * told.spans.len() as f64;
        assert!((sum - total).abs() <= slack, "{name}: {sum} ≠ {total}");
    }
}

#[test]
fn exemplars_name_spans_that_are_there() {
    let (_, told) = audited(&[], &[]);
    let mut count = 0;
    for (gpu, exemplar) in told.exemplars() {
        let span = told.spans.iter().find(|span| span.span_id == exemplar.span_id).unwrap();
        assert_eq!(span.trace_id, exemplar.trace_id);
        assert_eq!(otlp::attributes(&span.attributes)["hw.id"], gpu);
        let held = span.start_time_unix_nano..=span.end_time_unix_nano;
        assert!(held.contains(&exemplar.time_unix_nano), "{exemplar:?} outside {span:?}");
        count += 1;
    }
    assert!(count > 30, "only {count} exemplars");
}

#[test]
fn under_a_given_context_the_experiment_is_its_child() {
    let given = traceparent("01");
    let by_option = audited(&["--traceparent", &given], &[]);
    let by_environment = audited(&[], &[("TRACEPARENT", &given), ("TRACESTATE", "vendor=1")]);
    for (report, told) in [&by_option, &by_environment] {
        assert_eq!(report["experiment"]["trace_id"], TRACE);
        let [experiment] = told.named("experiment")[..] else { panic!("one experiment") };
        assert_eq!(hex(&experiment.parent_span_id), PARENT);
        assert!(told.spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    }
    let states = |told: &Told| told.spans.iter().all(|span| span.trace_state == "vendor=1");
    assert!(states(&by_environment.1) && !states(&by_option.1));
}

#[test]
fn what_is_not_sampled_costs_the_same() {
    let (report, told) = audited(&[], &[]);
    let parent = traceparent("00");
    let off: [&[(&str, &str)]; 4] = [
        &[("TRACEPARENT", &parent)],
        &[("OTEL_TRACES_SAMPLER", "always_off")],
        &[("OTEL_TRACES_SAMPLER", "parentbased_always_off")],
        &[("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0")],
    ];
    for environment in off {
        let (silent_report, silent) = audited(&[], environment);
        assert!(silent.spans.is_empty(), "{environment:?}");
        assert_eq!(silent.exemplars().count(), 0, "{environment:?}");
        assert_eq!(silent.metrics, told.without_exemplars(), "{environment:?}");
        assert_eq!(silent_report["cost"], report["cost"]);
    }
    // always_on does not ask the parent.
    let args = ["--traceparent", parent.as_str()];
    assert!(audited(&args, &[]).1.spans.is_empty());
    let on = audited(&args, &[("OTEL_TRACES_SAMPLER", "always_on")]);
    assert_eq!(on.1.spans.len(), told.spans.len());
}

#[test]
fn the_environment_is_honoured() {
    let points = |told: &Told| {
        let streams = told.streams("phasemeter.gpu.rate");
        streams.values().map(|stream| stream.points.len()).max().unwrap()
    };
    let (_, told) = audited(&[], &[]);
    // Ten minutes: at every whole one, and at the end.
    assert_eq!(points(&told), 11);
    let (_, often) = audited(&[], &[("OTEL_METRIC_EXPORT_INTERVAL", "10000")]);
    assert_eq!(points(&often), 61);
    for (attributes, stream) in often.streams("phasemeter.gpu.rate") {
        let inner = stream.points.split_last().unwrap().1;
        assert!(inner.iter().all(|point| point.time % 10_000_000_000 == 0), "{attributes:?}");
    }

    let services = |told: &Told| -> BTreeSet<String> {
        let named = |name: &str| {
            let of = told.resources.iter();
            of.filter_map(|(attributes, _)| attributes.get(name).cloned()).collect::<BTreeSet<_>>()
        };
        assert!(named("host.name").is_empty(), "it says nothing of the machine that audits");
        named("service.name")
    };
    assert_eq!(services(&told), BTreeSet::from(["unknown_service".to_owned()]));
    let environment = [
        ("OTEL_SERVICE_NAME", "trainer"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,team=vision"),
    ];
    assert_eq!(services(&audited(&[], &environment).1), BTreeSet::from(["trainer".to_owned()]));
}

#[test]
fn what_the_environment_says_wrongly_is_told_once_and_ignored() {
    let folder = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("TRACEPARENT", "00-xyz"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1"),
        ("OTEL_RESOURCE_ATTRIBUTES", "what"),
    ] {
        let run = Phasemeter::audit().within(folder.path()).arg("-").stdin(log()).env(name, value);
        let outcome = run.run();
        assert_eq!(outcome.status, 0, "{name}");
        assert_eq!(outcome.err.lines().count(), 1, "{}", outcome.err);
        assert!(
            outcome.err.starts_with(&format!("phasemeter: {name} is ignored")),
            "{}",
            outcome.err
        );
    }
}
