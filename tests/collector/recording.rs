//! The recording rules on what a real Prometheus has of the demo: the numbers are those of its report.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::gateway_process::phasemeter;
use crate::prometheus::{Prometheus, Running};

/// The end of the demo, 2026-07-27T02:00:00Z.
pub(crate) const END: u64 = 1_785_117_600;

/// `increase` estimates up to the ends of a window from samples that are a minute apart.
pub(crate) const TOLERANCE: f64 = 0.02;

/// Sends the demo to this endpoint for metrics, and returns its report.
pub(crate) fn demo(endpoint: &str) -> Value {
    let mut demo = phasemeter(endpoint);
    demo.args(["demo", "--price=3.6", "--format=json", "--otlp"]);
    demo.env("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=east,team=vision");
    let output = demo.env("OTEL_SERVICE_NAME", "fleet").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The rules that Prometheus has loaded, each with the queries of the rules that it is made of in their place. Those of
/// work are left out: the demo reports none over time.
pub(crate) fn queries(prometheus: &Running) -> BTreeMap<String, String> {
    let rules = prometheus.rules().into_iter().map(|(_, name, query)| (name, query));
    let is_recorded = |name: &str| name.contains(':') && !name.contains("unit_cost");
    let recorded: BTreeMap<_, _> = rules.filter(|(name, _)| is_recorded(name)).collect();
    let inlined = |query: &String| {
        // The longest chain: an hour, a day, a ratio.
        (0..3).fold(query.clone(), |query, _| {
            recorded.iter().fold(query, |query, (name, inner)| {
                query.replace(name.as_str(), &format!("({inner})"))
            })
        })
    };
    recorded.iter().map(|(name, query)| (name.clone(), inlined(query))).collect()
}

pub(crate) fn dollars(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn recorded_numbers_are_those_of_the_report() {
    let Some(prometheus) = Prometheus::find() else { return };
    let prometheus = prometheus.start_shipped("otlp.yaml", None);
    let report = demo(&prometheus.otlp());
    prometheus.assert_has_series_of_unit_tests(true, Some(END));
    let queries = queries(&prometheus);
    let sum = |name: &str| {
        prometheus.number(&format!("sum({})", queries[&format!("phasemeter:{name}")]), Some(END))
    };
    let cost = &report["cost"];
    let total = dollars(&cost["total_usd"]);
    let observed = total - dollars(&cost["unobserved_usd"]);
    let waste = dollars(&cost["waste_usd"]);
    let fleet = &report["fleet"];
    let seconds = |of: &Value| of.as_f64().unwrap();
    let span = seconds(&fleet["span_seconds"]);
    let observed_span = span - seconds(&fleet["unobserved_seconds"]);
    let effective = seconds(&cost["effective_gpu_hours"]);
    let holders = |key: &str| -> f64 {
        let gpus = report["gpus"].as_array().unwrap().iter();
        gpus.flat_map(|gpu| gpu["holders"].as_array().unwrap()).map(|it| dollars(&it[key])).sum()
    };
    let never_touched = holders("never_touched_usd");
    assert!(never_touched > 1.0, "{never_touched}");
    for (name, expected) in [
        ("gpu_hours:sum24h", span / 3_600.0),
        ("observed_gpu_hours:sum24h", observed_span / 3_600.0),
        ("idle_gpu_hours:sum24h", seconds(&fleet["phases"]["idle"]["seconds"]) / 3_600.0),
        ("effective_gpu_hours:sum24h", effective),
        ("cost_usd:sum24h", total),
        ("observed_cost_usd:sum24h", observed),
        ("waste_usd:sum24h", waste),
        ("never_touched_usd:sum24h", never_touched),
        ("utilization:mean24h", effective * 3_600.0 / observed_span),
    ] {
        let found = sum(name);
        assert!((found / expected - 1.0).abs() < TOLERANCE, "{name}: {found}, not {expected}");
    }
    // The same rules of the last hour have results, too.
    let has_results = |name: &&String| name.ends_with("1h") && !name.contains("work");
    for name in queries.keys().filter(has_results) {
        assert!(!prometheus.query(&queries[name], Some(END)).is_empty(), "{name}");
    }
    // By namespace, of which pods pay.
    let month = prometheus.query(&queries["namespace:phasemeter_cost_usd:sum30d"], Some(END));
    let spent = |namespace: &str| -> f64 {
        let own = |labels: &BTreeMap<_, String>| {
            labels.get("k8s_namespace_name").is_some_and(|it| it == namespace)
        };
        month.iter().find(|(labels, _)| own(labels)).map(|(_, value)| *value).unwrap()
    };
    for namespace in ["vision", "chat", "pretraining"] {
        let gpus = report["gpus"].as_array().unwrap().iter();
        let holders = gpus.flat_map(|gpu| gpu["holders"].as_array().unwrap());
        let own = holders.filter(|it| it["namespace"] == namespace);
        let expected: f64 = own.map(|it| dollars(&it["cost_usd"])).sum();
        let found = spent(namespace);
        assert!((found / expected - 1.0).abs() < TOLERANCE, "{namespace}: {found}, not {expected}");
    }
}
