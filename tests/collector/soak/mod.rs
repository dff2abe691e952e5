//! A fleet for an hour, `FLEET_GPUS` or 1,000: exporters of simulated nodes, scraped by a real Collector, through a
//! gateway into a real Prometheus that accepts no sample older than the newest one of its series.
//!
//! ```text
//! nodes ─→ otelcol ─relay→ phasemeter gateway ─relay→ Prometheus ─┐
//!   └─→ what each did at each scrape ─→ accounts by definition ───┴─→ equal, and equal to the report
//! ```
//!
//! Meanwhile two nodes vanish, the Collector is restarted, and both relays are cut for a while. Each account of
//! each GPU must be the same to the nano-dollar, and after a quarter of an hour the memory of the gateway must not
//! grow.

pub(crate) mod resources;
mod truth;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::fleet;
use crate::gateway_process::{Gateway, phasemeter};
use crate::nodes::{GPUS_PER_NODE, Nodes};
use crate::otelcol::{Collector, Otelcol};
use crate::otlp::billionths;
use crate::output::print;
use crate::prometheus::{Prometheus, Running};
use crate::relay::Relay;
use crate::run::nano_usd;
use resources::Watch;
use truth::{Accounts, Truth};

/// The nodes that vanish.
const VANISH: [usize; 2] = [17, 90];

/// For a Collector that scrapes 10,000 GPUs.
const MEMORY: &str = "processors::memory_limiter::limit_mib: 2048";

/// Bytes in the Collector's queue per GPU: two minutes of scrapes at 15 s.
const QUEUED_PER_GPU: u64 = 64 << 10;

/// What the memory of the gateway is judged in.
const HOUR: Duration = Duration::from_secs(3_600);

/// Variable: the length in seconds.
const SECONDS: &str = "PHASEMETER_SOAK_SECONDS";

/// How long all takes.
struct Plan {
    length: Duration,
    /// Seconds between scrapes of a node.
    every: u64,
}

impl Plan {
    /// How long each outage is.
    fn outage(&self) -> Duration {
        (self.length / 9).min(Duration::from_secs(120))
    }

    /// Seconds between the arrival of a reading and its billing.
    const fn hold(&self) -> u64 {
        6 * self.every
    }
}

#[test]
fn three_minutes_of_a_fleet_are_billed_alike_in_prometheus_report_and_simulation() {
    soak(&Plan { length: Duration::from_secs(180), every: 5 });
}

#[test]
#[ignore = "takes an hour: make soak PARTS=fleet"]
fn hour_of_a_fleet_is_billed_alike_in_prometheus_report_and_simulation() {
    let seconds = std::env::var(SECONDS).map_or(HOUR.as_secs(), |text| text.parse().unwrap());
    let plan = Plan { length: Duration::from_secs(seconds), every: (seconds / 40).clamp(1, 15) };
    let watch = soak(&plan);
    if plan.length >= HOUR {
        watch.iter().for_each(Watch::assert_flat);
    } else {
        print("a shorter run than an hour does not show whether memory is flat");
    }
}

/// Runs it, and returns what the gateway used; `None` if a program is missing.
fn soak(plan: &Plan) -> Option<Watch> {
    let (prometheus, otelcol) = (Prometheus::find()?, Otelcol::find()?);
    let gpus = fleet::gpus() as u64;
    let nodes = Nodes::serve(gpus / GPUS_PER_NODE).unwrap();
    let prometheus = prometheus.start();
    let backend = Relay::to(prometheus.address).unwrap();
    let stale_after = 3 * plan.every;
    let options = [format!("--hold={}", plan.hold()), format!("--stale-after={stale_after}")];
    let command = phasemeter(&format!("http://{}/api/v1/otlp/v1/metrics", backend.address));
    let gateway = Gateway::start(command, &options.each_ref().map(String::as_str));
    let receiver = Relay::to(gateway.address.parse().unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let queue = (directory.path(), gpus * QUEUED_PER_GPU);
    let collector = scrape(&otelcol, &nodes, plan.every, &receiver, queue);
    let mut watch = Watch::start(gateway.id(), plan.length);

    watch.until(0.1, collector.id());
    nodes.vanish(VANISH[0]);
    watch.until(0.2, collector.id());
    print("the Collector restarts");
    let mut archives = vec![collector.archives().into_iter().next().unwrap()];
    let collector = scrape(&otelcol, &nodes, plan.every, &receiver, queue);
    watch.until(0.3, collector.id());
    nodes.vanish(VANISH[1]);
    for (from, (between, relay)) in [0.4, 0.6]
        .into_iter()
        .zip([("gateway and backend", &backend), ("scraper and gateway", &receiver)])
    {
        watch.until(from, collector.id());
        print(&format!("outage between {between}"));
        relay.cut();
        watch.until(from + plan.outage().div_duration_f64(plan.length), collector.id());
        relay.mend();
    }
    watch.until(1.0, collector.id());
    archives.push(collector.archives().into_iter().next().unwrap());
    let report = gateway.stop();

    let truth = Truth::of(archives.iter().map(Vec::as_slice));
    let expected = truth.accounts(stale_after);
    print(&format!("{} scrapes; {} accounts of GPUs", truth.scrapes(), expected.len()));
    assert_eq!(report["gpus"].as_array().unwrap().len() as u64, gpus);
    assert_equal("report", &reported(&report), &expected);
    assert_equal("Prometheus", &stored(&prometheus), &expected);
    Some(watch)
}

/// A Collector that scrapes all nodes and sends that through the relay.
fn scrape(
    otelcol: &Otelcol,
    nodes: &Nodes,
    every: u64,
    receiver: &Relay,
    queue: (&Path, u64),
) -> Collector {
    let scraped =
        "service::pipelines::metrics/scraped::exporters: [otlp_grpc/phasemeter, file/metrics]";
    let merged = [nodes.receivers(every), scraped.to_owned(), MEMORY.to_owned()];
    let gateway = receiver.address.to_string();
    let (queue, bytes) = (queue.0.display().to_string(), queue.1.to_string());
    otelcol.start_merged(
        &["collector.yaml", "archive.yaml", "gateway.yaml"],
        &merged.each_ref().map(String::as_str),
        &[
            ("OTELCOL_GATEWAY", &gateway),
            ("OTELCOL_QUEUE", &queue),
            ("OTELCOL_QUEUE_BYTES", &bytes),
        ],
    )
}

/// The accounts of a report.
fn reported(report: &Value) -> Accounts {
    let mut accounts = Accounts::new();
    for gpu in report["gpus"].as_array().unwrap() {
        let id = gpu["id"].as_str().unwrap();
        let mut add = |account: &str, cost: &Value| {
            let cost = nano_usd(cost);
            if cost > 0 {
                accounts.insert((id.to_owned(), account.to_owned()), cost);
            }
        };
        for account in ["idle_held", "idle_free", "underutilized", "productive", "compute_bound"] {
            add(account, &gpu["phases"][account]["cost_usd"]);
        }
        add("unobserved", &gpu["unobserved_usd"]);
    }
    accounts
}

/// The last cost of each account in Prometheus.
fn stored(prometheus: &Running) -> Accounts {
    let last = "sum by (hw_id, phasemeter_phase) (last_over_time(phasemeter_gpu_cost_total[3h]))";
    let samples = prometheus.query(last, None).into_iter().map(|(mut labels, value)| {
        let mut label = |name| labels.remove(name).unwrap();
        ((label("hw_id"), label("phasemeter_phase")), billionths(value))
    });
    samples.filter(|(_, cost)| *cost > 0).collect()
}

fn assert_equal(whose: &str, found: &Accounts, expected: &Accounts) {
    let of = |accounts: &Accounts, key| accounts.get(key).copied().unwrap_or_default();
    let keys = expected.keys().chain(found.keys());
    let mut different: Vec<_> = keys
        .map(|key| (key, of(found, key), of(expected, key)))
        // A double is the nearest to whole nano-dollars.
        .filter(|(_, found, expected)| found.abs_diff(*expected) > 1)
        .collect();
    different.dedup();
    let (sum, of_all) = (found.values().sum::<u64>(), expected.values().sum::<u64>());
    print(&format!("{whose}: {sum} nano-dollars; expected {of_all}"));
    let first = different.get(..different.len().min(20)).unwrap();
    assert!(different.is_empty(), "{whose}: {} accounts differ: {first:#?}", different.len());
}
