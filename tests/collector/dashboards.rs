//! The dashboards: the query of each panel and annotation on a real Prometheus, which has the demo, or a run, through a real Collector.
//! Dollars are those of the report, and exemplars lead to the run's trace.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::labels::report_work;
use crate::otelcol::Otelcol;
use crate::prometheus::{Prometheus, ROOT, Running};
use crate::recording::{END, TOLERANCE, demo, dollars, queries};
use crate::run::{Run, TRACE};
use crate::script::{BOUND, FREE, Plan, Script};

/// The demo, from its first reading on.
const RANGE: &str = "2h";

const TIMEOUT: Duration = Duration::from_secs(60);

/// A query of a panel, or of an annotation.
pub(crate) struct Query {
    pub(crate) panel: String,
    pub(crate) expr: String,
    /// Whether the panel shows exemplars.
    has_exemplars: bool,
}

fn dashboards() -> Vec<(String, Value)> {
    let files = fs::read_dir(format!("{ROOT}/otel-config/dashboards")).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|it| it == "json"));
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, serde_json::from_slice(&fs::read(path).unwrap()).unwrap())
    };
    paths.map(read).collect()
}

pub(crate) fn all_queries() -> Vec<Query> {
    let mut found = Vec::new();
    for (name, dashboard) in dashboards() {
        for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
            let panel = format!("{name}, annotation: {}", annotation["name"].as_str().unwrap());
            let expr = annotation["target"]["expr"].as_str().unwrap().to_owned();
            found.push(Query { panel, expr, has_exemplars: false });
        }
        for panel in dashboard["panels"].as_array().unwrap() {
            for target in panel["targets"].as_array().unwrap() {
                let panel = format!("{name}: {}", panel["title"].as_str().unwrap());
                let has_exemplars = target["exemplar"] == true;
                let expr = target["expr"].as_str().unwrap().to_owned();
                found.push(Query { panel, expr, has_exemplars });
            }
        }
    }
    found
}

/// As Grafana puts values in place of variables; `gpu` is a regular expression.
pub(crate) fn interpolated(expr: &str, interval: &str, gpu: &str) -> String {
    let expr = expr.replace("$__rate_interval", interval).replace("$__range", RANGE);
    let expr = expr.replace("$cluster", ".*").replace("$namespace", ".*");
    let expr = expr.replace("hw_id=\"$gpu\"", &format!("hw_id=~\"{gpu}\""));
    assert!(!expr.contains('$'), "{expr}");
    expr
}

/// The demo through a Collector, with what the recording rules record of it.
fn demo_fleet(prometheus: &Running, otelcol: &Otelcol) -> Value {
    let otlp = prometheus.otlp();
    let variables = [("OTELCOL_PROMETHEUS_OTLP", otlp.as_str())];
    let collector = otelcol.start_with(&["collector.yaml", "prometheus.yaml"], &variables);
    let report = demo(&format!("http://{}/v1/metrics", collector.http));
    // Until the queue of the Collector is empty.
    let (began, total) = (Instant::now(), dollars(&report["cost"]["total_usd"]));
    let sum = "sum(last_over_time(phasemeter_gpu_cost_total[3h]))";
    while (prometheus.number(sum, Some(END)) - total).abs() > 1e-6 {
        assert!(began.elapsed() < TIMEOUT, "{} of {total}", prometheus.number(sum, Some(END)));
        thread::sleep(Duration::from_millis(100));
    }
    drop(collector.captured());
    let hourly = queries(prometheus).into_iter().filter(|(name, _)| name.ends_with("increase1h"));
    for (name, query) in hourly.filter(|(name, _)| !name.contains("work")) {
        [END - 3_600, END].into_iter().for_each(|hour| prometheus.record(&name, &query, hour));
    }
    report
}

/// A run of all metrics that counts tokens, with its internal telemetry.
fn live_run(prometheus: &Running, otelcol: &Otelcol) {
    let otlp = prometheus.otlp();
    let variables = [("OTELCOL_PROMETHEUS_OTLP", otlp.as_str())];
    let collector = otelcol.start_with(&["collector.yaml", "prometheus.yaml"], &variables);
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("work.sock");
    let option = format!("--work-socket={}", socket.display());
    let script = Script::begin(&[Plan { edge: FREE, activities: &[(BOUND, 4)] }]);
    let seconds = script.seconds().to_string();
    let run = Run::of(&script, &[&option], &["sleep", &seconds]);
    let run = run.export_to(&format!("http://{}", collector.http), "http/protobuf");
    let work = thread::spawn(move || report_work(&socket));
    run.env("OTEL_METRIC_EXPORT_INTERVAL", "1000").report();
    work.join().unwrap();
    let began = Instant::now();
    while prometheus.query("phasemeter_work_unit_cost", None).is_empty() {
        assert!(began.elapsed() < TIMEOUT, "no cost per token");
        thread::sleep(Duration::from_millis(100));
    }
    drop(collector.captured());
}

#[test]
fn each_panel_has_data_and_the_dollars_of_the_report() {
    let (Some(prometheus), Some(otelcol)) = (Prometheus::find(), Otelcol::find()) else { return };
    let fleet = prometheus.start_shipped("otlp.yaml", None);
    let live = prometheus.start_shipped("otlp.yaml", None);
    let report = demo_fleet(&fleet, &otelcol);
    live_run(&live, &otelcol);

    let panels = all_queries();
    let began = Instant::now();
    for Query { panel, expr, has_exemplars } in &panels {
        let demo = interpolated(expr, "4m", ".*");
        let run = interpolated(expr, "1m", ".*");
        // Of the run, the newest points may be on their way.
        while fleet.query(&demo, Some(END)).is_empty() && live.query(&run, None).is_empty() {
            assert!(began.elapsed() < TIMEOUT, "no data: {panel}: {expr}");
            thread::sleep(Duration::from_millis(200));
        }
        if *has_exemplars {
            let traces = live.exemplars(&run).into_iter().map(|mut it| it.remove("trace_id"));
            assert_eq!(traces.collect::<BTreeSet<_>>(), [Some(TRACE.to_owned())].into(), "{panel}");
        }
    }
    assert_eq!(panels.iter().filter(|it| it.has_exemplars).count(), 3);

    let results = |panel: &str, gpu: &str| -> BTreeMap<String, f64> {
        let query = panels.iter().find(|it| it.panel == panel).unwrap();
        let result = fleet.query(&interpolated(&query.expr, "4m", gpu), Some(END)).into_iter();
        result
            .map(|(labels, value)| (labels.into_values().next().unwrap_or_default(), value))
            .collect()
    };
    let near = |panel: &str, found: f64, expected: f64| {
        assert!((found / expected - 1.0).abs() < TOLERANCE, "{panel}: {found}, not {expected}");
    };
    let gpus = report["gpus"].as_array().unwrap();
    let holders = || gpus.iter().flat_map(|gpu| gpu["holders"].as_array().unwrap());
    let never_touched: f64 = holders().map(|it| dollars(&it["never_touched_usd"])).sum();
    let cost = &report["cost"];
    for (panel, expected) in [
        ("fleet: Spend", dollars(&cost["total_usd"])),
        ("fleet: Waste", dollars(&cost["waste_usd"])),
        ("fleet: Never touched", never_touched),
        ("fleet: Projected month", dollars(&cost["monthly_usd"])),
        ("workload: Spend", dollars(&cost["total_usd"])),
        ("workload: Waste", dollars(&cost["waste_usd"])),
    ] {
        near(panel, results(panel, ".*")[""], expected);
    }
    let by_namespace = results("fleet: Spend, by namespace", ".*");
    let namespaces: BTreeSet<_> = holders().map(|it| it["namespace"].as_str().unwrap()).collect();
    assert!(namespaces.len() > 4, "{namespaces:?}");
    for namespace in namespaces {
        let own = holders().filter(|it| it["namespace"] == namespace);
        let expected = own.map(|it| dollars(&it["cost_usd"])).sum();
        near(namespace, by_namespace[namespace], expected);
    }
    for gpu in gpus {
        let id = gpu["id"].as_str().unwrap();
        near(id, results("gpu: Spend", id)[""], dollars(&gpu["cost_usd"]));
        near(id, results("gpu: Waste", id)[""], dollars(&gpu["waste_usd"]));
    }
}

/// What Grafana's file provisioning needs: the classic schema, and IDs that are unique.
#[test]
fn dashboards_can_be_provisioned() {
    let dashboards = dashboards();
    assert_eq!(dashboards.len(), 4);
    let mut ids = BTreeSet::new();
    for (name, dashboard) in &dashboards {
        assert_eq!(dashboard["schemaVersion"], 42, "{name}");
        assert!(ids.insert(dashboard["uid"].as_str().unwrap()), "{name}");
        let mut taken = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            assert!(panel["datasource"]["uid"] == "${datasource}", "{panel}");
            assert!(taken.insert(panel["id"].as_u64().unwrap()), "{name}: {}", panel["id"]);
            let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{name}: {panel}");
        }
    }
}
