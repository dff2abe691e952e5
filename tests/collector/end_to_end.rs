//! Eight GPUs with known seconds per phase and known energy: exactly these arrive.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::otelcol::Otelcol;
use crate::otlp::{self, Captured, billionths};
use crate::run::{PARENT, RATE, Report, Run, TRACE, nano_usd};
use crate::script::{BOUND, FREE, GroundTruth, HELD, PRODUCTIVE, Plan, Script, UNDER};

const PLANS: [Plan; 8] = [
    Plan { edge: FREE, activities: &[(BOUND, 9)] },
    Plan { edge: FREE, activities: &[(UNDER, 2), (BOUND, 5), (PRODUCTIVE, 2)] },
    Plan { edge: BOUND, activities: &[(HELD, 3), (UNDER, 6)] },
    Plan { edge: PRODUCTIVE, activities: &[(FREE, 4), (BOUND, 2), (FREE, 3)] },
    Plan {
        edge: UNDER,
        activities: &[
            (BOUND, 1),
            (HELD, 1),
            (BOUND, 2),
            (HELD, 2),
            (BOUND, 1),
            (HELD, 1),
            (BOUND, 1),
        ],
    },
    Plan { edge: HELD, activities: &[(UNDER, 9)] },
    Plan { edge: FREE, activities: &[(PRODUCTIVE, 3), (UNDER, 3), (BOUND, 3)] },
    Plan { edge: FREE, activities: &[(UNDER, 4), (HELD, 2), (PRODUCTIVE, 3)] },
];

#[test]
fn run_reaches_collector_to_the_nano_dollar() {
    let Some(otelcol) = Otelcol::find() else { return };
    let collector = otelcol.start();
    let script = Script::begin(&PLANS);
    let run = Run::new(&script).export_to(&format!("http://{}", collector.grpc), "grpc");
    let report = run.env("OTEL_METRIC_EXPORT_INTERVAL", "5000").report();
    let captured = collector.captured();

    assert_eq!(report.gpus().len(), PLANS.len());
    for (index, gpu) in report.gpus().iter().enumerate() {
        check_gpu(gpu, &captured, &script.gpu(index));
    }
    check_trace(&captured, &report);
    check_exemplars(&captured);
    check_resources(&captured);
}

/// The Collector's data and the report of a GPU equal the script.
fn check_gpu(gpu: &Value, captured: &Captured, truth: &GroundTruth<'_>) {
    let id = gpu["id"].as_str().unwrap();
    let last = |name| {
        let points = captured.last(name, id).into_iter();
        points.map(|(account, value)| (account, billionths(value))).collect::<BTreeMap<_, _>>()
    };
    let (times, costs) = (last("phasemeter.gpu.time"), last("phasemeter.gpu.cost"));
    let first = first_reading(captured, id);
    let span = times.values().sum();
    let accounts = ["idle_free", "idle_held", "underutilized", "productive", "compute_bound"];
    // Accounts without time are exported as well, and there are no others.
    let whole = |known: BTreeMap<&str, u64>| -> BTreeMap<String, u64> {
        let of = |account: &str| known.get(account).copied().unwrap_or(0);
        let accounts = accounts.into_iter().chain(["unobserved"]);
        accounts.map(|account| (account.to_owned(), of(account))).collect()
    };
    assert_eq!(times, whole(truth.nanos(first, span)), "time of {id}, edges {}", truth.edge());
    assert_eq!(costs, whole(truth.cost(RATE, first, span)), "cost of {id}, edges {}", truth.edge());

    assert_eq!(billionths(gpu["span_seconds"].as_f64().unwrap()), span);
    assert_eq!(nano_usd(&gpu["cost_usd"]), costs.values().sum::<u64>());
    for account in accounts {
        let reported = &gpu["phases"][account];
        assert_eq!(billionths(reported["seconds"].as_f64().unwrap()), times[account], "{account}");
        assert_eq!(nano_usd(&reported["cost_usd"]), costs[account], "{account}");
    }

    let energy =
        captured.streams("hw.energy").into_iter().find(|(labels, _)| labels["hw.id"] == id);
    let joules = energy.unwrap().1.points.last().unwrap().value;
    assert_eq!(billionths(joules), truth.joules() * 1_000_000_000, "energy of {id}");
    assert_eq!(gpu["energy_joules"], joules);
}

/// The common start of a GPU's cumulative sums.
fn first_reading(captured: &Captured, id: &str) -> u64 {
    let starts = ["phasemeter.gpu.time", "phasemeter.gpu.cost"].map(|name| captured.streams(name));
    let mine = starts.iter().flatten().filter(|(labels, _)| labels["hw.id"] == id);
    let starts: BTreeSet<_> = mine.flat_map(|(_, it)| &it.points).map(|it| it.start).collect();
    assert_eq!(starts.len(), 1, "{id}: {starts:?}");
    *starts.first().unwrap()
}

/// Phase spans are children of sessions, sessions of the experiment, which is a child of the given
/// context; span costs sum to the bill.
fn check_trace(captured: &Captured, report: &Report) {
    let [experiment] = captured.named("experiment")[..] else { panic!("one experiment") };
    assert_eq!(hex(&experiment.parent_span_id), PARENT);
    let sessions = captured.children(experiment);
    assert_eq!(sessions.len(), report.gpus().len());
    let mut reached = 1 + sessions.len();
    for session in sessions {
        assert_eq!(session.name, "gpu session");
        let id = &otlp::attributes(&session.attributes)["hw.id"];
        let phases = captured.children(session);
        reached += phases.len();
        for name in ["time", "cost"] {
            let mut carried = BTreeMap::<String, u64>::new();
            for (key, value) in phases.iter().flat_map(|span| otlp::attributes(&span.attributes)) {
                if let Some(account) = key.strip_prefix(&format!("phasemeter.{name}.")) {
                    let value = billionths(value.parse().unwrap());
                    *carried.entry(account.to_owned()).or_default() += value;
                }
            }
            let mut points = captured.last(&format!("phasemeter.gpu.{name}"), id);
            points.retain(|_, value| *value > 0.0);
            let points = points.into_iter().map(|(account, value)| (account, billionths(value)));
            assert_eq!(carried, points.collect(), "{name} of {id}");
        }
    }
    assert_eq!(reached, captured.spans.len(), "orphan span");
    for span in &captured.spans {
        assert_eq!(hex(&span.trace_id), TRACE);
        assert_eq!(otlp::attributes(&span.attributes)["phasemeter.experiment.id"], TRACE);
    }
}

fn check_exemplars(captured: &Captured) {
    for metric in ["phasemeter.gpu.utilization", "phasemeter.gpu.cost"] {
        let exemplars = captured.exemplars(metric);
        for (gpu, exemplar) in &exemplars {
            let span = captured.spans.iter().find(|span| span.span_id == exemplar.span_id);
            let span = span.unwrap_or_else(|| panic!("no span of {exemplar:?}"));
            assert_eq!(span.trace_id, exemplar.trace_id);
            assert_eq!(otlp::attributes(&span.attributes)["hw.id"], *gpu);
            let held = span.start_time_unix_nano..=span.end_time_unix_nano;
            assert!(held.contains(&exemplar.time_unix_nano), "{exemplar:?} outside {span:?}");
        }
        assert!(exemplars.len() >= PLANS.len(), "{metric}: only {} exemplars", exemplars.len());
    }
}

/// Three resources, each with an identity: the workload's, that of the hardware, and that of internal
/// telemetry.
fn check_resources(captured: &Captured) {
    let mut owners = BTreeMap::new();
    for (resource, names) in &captured.resources {
        let of = |key: &str| resource.get(key).map(String::as_str);
        let service = match (of("service.name"), of("team"), of("host.name")) {
            (Some("trainer"), Some("vision"), None) => "trainer",
            (Some("phasemeter"), None, Some(_)) => "phasemeter",
            _ => panic!("unexpected resource: {resource:?}"),
        };
        for name in names {
            let measured = ["clock", "power", "sm", "tensor", "dram", "pipe", "throttle"]
                .map(|it| format!("phasemeter.gpu.{it}."));
            let is_measured = measured.iter().any(|prefix| name.starts_with(prefix));
            let (owner, expected) = if name.starts_with("hw.") || is_measured {
                ("hardware", "phasemeter")
            } else if name.starts_with("phasemeter.gpu.")
                || name.starts_with("phasemeter.recommendation.")
                || !captured.named(name).is_empty()
            {
                ("workload", "trainer")
            } else {
                ("process", "phasemeter")
            };
            assert_eq!(service, expected, "{name} under {resource:?}");
            assert_eq!(owners.entry(owner).or_insert(resource), &resource);
        }
    }
    assert_eq!(owners.keys().copied().collect::<Vec<_>>(), ["hardware", "process", "workload"]);
    let instances: BTreeSet<_> = owners.values().map(|it| &it["service.instance.id"]).collect();
    assert!(instances.len() == 3 && instances.iter().all(|id| id.len() == 36), "{instances:?}");
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
