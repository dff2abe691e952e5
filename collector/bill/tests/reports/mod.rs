//! Reports for tests, as JSON.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::cast_possible_truncation,
    reason = "each test that includes it uses a part"
)]

use std::fmt::Write;

use phasemeter_bill::read::{Digest, read};
use phasemeter_bill::report::Report;
use serde_json::{Value, json};

/// Dollars of nano-dollars.
pub fn usd(nanos: i128) -> String {
    format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000)
}

/// The instant at this hour since 2026-07-27.
pub fn hour(hour: u64) -> String {
    format!(
        "2026-{:02}-{:02}T{:02}:00:00Z",
        7 + (hour / 24 + 26) / 31,
        (hour / 24 + 26) % 31 + 1,
        hour % 24
    )
}

/// An hour of a GPU: nano-dollars and seconds by account, effective seconds and utilized nano-dollars.
#[derive(Clone, Debug, Default)]
pub struct Hour {
    pub accounts: Vec<(&'static str, f64, i128)>,
    pub effective: f64,
    pub utilized: i128,
}

/// A GPU with one period per hour.
pub fn gpu(id: &str, first: u64, hours: &[Hour]) -> Value {
    let periods = hours.iter().enumerate().map(|(index, it)| {
        let start = first + index as u64;
        let accounts = it.accounts.iter().map(|(name, seconds, cost)| {
            ((*name).to_owned(), json!({ "seconds": seconds, "cost_usd": usd(*cost) }))
        });
        json!({
            "start": hour(start),
            "end": hour(start + 1),
            "effective_seconds": it.effective,
            "utilized_usd": usd(it.utilized),
            "accounts": accounts.collect::<serde_json::Map<_, _>>(),
        })
    });
    let cost: i128 = hours.iter().flat_map(|it| &it.accounts).map(|(_, _, cost)| cost).sum();
    json!({
        "id": id,
        "uuid": format!("GPU-{id}"),
        "index": 0,
        "model": "NVIDIA H100 80GB HBM3",
        "cost_usd": usd(cost),
        "rate_usd_per_gpu_hour": "2.000000000",
        "price": {
            "plan": "on_demand", "provider": "aws", "region": "us-east-1",
            "instance_type": "p5.48xlarge", "source": "--price",
        },
        "earlier_prices_total": 0,
        "periods": periods.collect::<Vec<_>>(),
    })
}

/// A holder of a GPU: a pod as `NAMESPACE/POD`, its labels, the hours it had the GPU, and its accounts in seconds and
/// nano-dollars: used, granted and not used, never touched.
pub fn holder(
    pod: &str,
    labels: &[(&str, &str)],
    (start, end): (u64, u64),
    seconds: [f64; 3],
    costs: [i128; 3],
) -> Value {
    let (namespace, name) = pod.split_once('/').unwrap();
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    json!({
        "name": pod, "kind": "container", "namespace": namespace, "pod": name, "container": "main",
        "uid": null, "job": null, "labels": labels.collect::<serde_json::Map<_, _>>(),
        "start": hour(start), "end": hour(end), "first_touch": hour(start), "method": "by_use",
        "used_usd": usd(costs[0]), "granted_unused_usd": usd(costs[1]), "never_touched_usd": usd(costs[2]),
        "used_seconds": seconds[0], "granted_unused_seconds": seconds[1],
        "never_touched_seconds": seconds[2],
        "cost_usd": usd(costs.iter().sum()), "waste_usd": usd(costs[1] + costs[2]),
        "energy_joules": null,
    })
}

/// The same GPU, divided among these holders. The rest is nobody's.
pub fn divided(mut gpu: Value, holders: Vec<Value>) -> Value {
    let nanos = |usd: &Value| usd.as_str().unwrap().replace('.', "").parse::<i128>().unwrap();
    let time = |holder: &Value| {
        let names = ["used_seconds", "granted_unused_seconds", "never_touched_seconds"];
        names.iter().map(|name| holder[*name].as_f64().unwrap()).sum::<f64>()
    };
    let hours = gpu["periods"].as_array().unwrap().len() as f64;
    let seconds = hours * 3_600.0 - holders.iter().map(time).sum::<f64>();
    let held: i128 = holders.iter().map(|holder| nanos(&holder["cost_usd"])).sum();
    gpu["nobody"] = json!({ "cost_usd": usd(nanos(&gpu["cost_usd"]) - held), "seconds": seconds });
    gpu["holders"] = holders.into();
    gpu
}

/// A report of these GPUs.
#[allow(clippy::needless_pass_by_value, reason = "shorter calls")]
pub fn report(attributes: &[(&str, &str)], gpus: Vec<Value>) -> Value {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
    json!({
        "schema": "phasemeter.report/0.1",
        "title": "a run",
        "experiment": { "id": "run-1", "attributes": attributes.collect::<serde_json::Map<_, _>>() },
        "gpus": gpus,
        "work": {},
        "work_by_hour": [],
        "recommendations": [],
        "cost": { "ignored": true },
    })
}

/// An hour at this utilization of a GPU at $2 per hour.
pub fn working(utilization: f64) -> Hour {
    let utilized = (2e9 * utilization).round() as i128;
    let account = if utilization < 0.1 { "idle_free" } else { "underutilized" };
    Hour {
        accounts: vec![(account, 3_600.0, 2_000_000_000)],
        effective: 3_600.0 * utilization,
        utilized,
    }
}

pub fn parse(json: &Value) -> (Report, Digest) {
    read("a.json", json.to_string().as_bytes()).unwrap()
}

/// Hours as text, for failures.
pub fn show(value: &Value) -> String {
    let mut text = String::new();
    write!(text, "{value:#}").unwrap();
    text
}
