//! A fleet, `FLEET_GPUS` or 1,000, of which one gateway is killed and started again.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use super::audit::audited;
use super::balancing::{Fleet, MOST, Routed};
use super::measured::{gaps, reported, spans, sums};
use super::stays::{NANOS_PER_NANO_USD, SECOND, away, expected, scrapes};
use crate::fleet;
use crate::nodes::{GPUS_PER_NODE, uuid};
use crate::otelcol::Otelcol;
use crate::output::print;
use crate::prometheus::{Prometheus, Running};
use crate::relay::Relay;
use crate::soak::resources::{cpu, resident};

const GATEWAYS: usize = MOST - 1;

/// The one that is killed.
const KILLED: usize = 1;

/// Variable: the length in seconds.
const SECONDS: &str = "PHASEMETER_SOAK_SECONDS";

/// How long all takes.
struct Plan {
    length: Duration,
    /// Seconds between scrapes of a node.
    every: u64,
}

#[test]
fn killed_gateway_of_a_fleet_costs_a_stated_gap_and_no_other_second() {
    run(&Plan { length: Duration::from_secs(180), every: 5 }, None);
}

#[test]
#[ignore = "takes an hour: make soak PARTS=routed"]
fn killed_gateway_of_a_fleet_costs_a_stated_gap_and_no_other_second_for_an_hour() {
    let seconds = std::env::var(SECONDS).map_or(3_600, |text| text.parse().unwrap());
    let every = (seconds / 40).clamp(1, 10);
    let plan = Plan { length: Duration::from_secs(seconds), every };
    let prometheus = Prometheus::find().map(|it| it.start());
    run(&plan, prometheus.as_ref());
}

/// Scenario: the nodes are scraped by a Collector that divides them among three gateways. In the middle of the time one
/// gateway is killed, and started again after a minute at most.
/// Guarantee: the accounts of the others are exact, in their reports and at the backend. What both runs of the killed
/// one have exported of a GPU, and the gap that the second one states, are the whole time; so all is what audits of
/// each GPU say.
fn run(plan: &Plan, prometheus: Option<&Running>) {
    let Some(otelcol) = Otelcol::find() else { return };
    let (hold, stale_after) = (6 * plan.every, 3 * plan.every);
    let options = [format!("--hold={hold}"), format!("--stale-after={stale_after}")];
    let (exporter, name) = match prometheus {
        Some(it) => (
            format!(", otlp_http/prometheus: {{metrics_endpoint: '{}'}}", it.otlp()),
            ", otlp_http/prometheus",
        ),
        None => Default::default(),
    };
    let nodes = fleet::gpus() as u64 / GPUS_PER_NODE;
    let options = options.each_ref().map(String::as_str);
    let fleet = Fleet::start(otelcol, nodes, plan.every, &options, (&exporter, name));
    let mut gateways: Vec<_> = (0..GATEWAYS).map(|gateway| fleet.gateway(gateway)).collect();
    let collector = fleet.scrape(GATEWAYS);
    let began = Instant::now();
    thread::sleep(plan.length / 2);
    print_usage(&fleet, collector.id(), &gateways, began.elapsed());
    gateways.remove(KILLED).kill();
    thread::sleep((plan.length / 9).min(Duration::from_secs(60)));
    gateways.insert(KILLED, fleet.gateway(KILLED));
    thread::sleep(plan.length.saturating_sub(began.elapsed()));
    print_usage(&fleet, collector.id(), &gateways, began.elapsed());
    if let Some(prometheus) = prometheus {
        print_series(prometheus);
    }
    // Stops scraping, and leaves time for what is on its way.
    let archives = [collector.archives().into_iter().next().unwrap()];
    thread::sleep(Duration::from_secs(2));
    let reports: Vec<_> = gateways.into_iter().map(Routed::stop).collect();
    let files = fleet.end();

    let spans: usize = files.iter().map(|[.., traces]| spans(traces)).sum();
    print(&format!("{spans} spans"));
    // The last scrapes may be in the queue.
    let all = scrapes(files.iter().map(|[metrics, ..]| metrics.as_slice()));
    assert_eq!(all.len() as u64, nodes);
    let mut billed = BTreeMap::<String, u64>::new();
    let mut gap = BTreeMap::<String, u64>::new();
    for (gateway, ([metrics, logs, _], report)) in files.iter().zip(&reports).enumerate() {
        let costs = sums(metrics, "phasemeter.gpu.cost");
        for ((gpu, _), cost) in &costs {
            *billed.entry(gpu.clone()).or_default() += cost;
        }
        let gaps = gaps(logs);
        if gateway == KILLED {
            let longest = gaps.values().max().copied().unwrap_or_default();
            print(&format!(
                "{} GPUs of the killed gateway have gaps of at most {:.1} s",
                gaps.len(),
                longest as f64 / SECOND as f64
            ));
            assert!(!gaps.is_empty());
            gap.extend(gaps);
            continue;
        }
        let passed = scrapes([metrics.as_slice()]);
        // Two scrapes of a node in a row can be late on a busy machine.
        assert_eq!(gaps, away(&passed, plan.every));
        gap.extend(gaps);
        let mut expected = expected(&passed, plan.every);
        expected.values_mut().for_each(|time| *time /= NANOS_PER_NANO_USD);
        assert_eq!(reported(report), expected);
        assert_eq!(
            costs.into_iter().filter(|(_, cost)| *cost > 0).collect::<BTreeMap<_, _>>(),
            expected
        );
    }

    let (audits, end) = audited(&archives, &[&format!("--stale-after={stale_after}")]);
    let (mut sum, mut of_audits) = (0, 0);
    for (node, scrapes) in &all {
        let after = end - scrapes.keys().next_back().unwrap();
        for gpu in 0..GPUS_PER_NODE {
            let gpu = uuid(*node, gpu);
            let missing = (gap.get(&gpu).copied().unwrap_or_default() + after) / NANOS_PER_NANO_USD;
            assert_eq!(billed[&gpu] + missing, audits[&gpu], "{gpu}");
            sum += billed[&gpu] + missing;
            of_audits += audits[&gpu];
        }
    }
    print(&format!("{sum} nano-dollars with the gaps, {of_audits} by {} audits", audits.len()));
}

/// Prints the processor time, memory and bytes of each tier.
fn print_usage(fleet: &Fleet, front: u32, gateways: &[Routed], elapsed: Duration) {
    let seconds = elapsed.as_secs_f64();
    let line = |name: &str, pid: u32, bytes: u64| {
        print(&format!(
            "{seconds:.0} s: {name}: {:.1} s of CPU, {:.1} MiB, {:.1} KB/s sent",
            cpu(pid),
            resident(pid) as f64 / 1_024.0,
            bytes as f64 / 1e3 / seconds
        ));
    };
    line("front", front, fleet.relays.iter().map(Relay::sent).sum());
    for (gateway, running) in gateways.iter().enumerate() {
        line(&format!("gateway {gateway}"), running.id(), fleet.backends[gateway].sent());
    }
    line("back", fleet.back(), 0);
}

/// Prints the number of series in Prometheus.
fn print_series(prometheus: &Running) {
    let count = |selector: &str| {
        let query = format!("count(last_over_time({selector}[10m]))");
        prometheus.query(&query, None).first().map_or(0.0, |(_, value)| *value)
    };
    for (name, selector) in [
        ("all", "{__name__=~\".+\"}"),
        ("phasemeter_*", "{__name__=~\"phasemeter_.+\"}"),
        ("hw_*", "{__name__=~\"hw_.+\"}"),
        ("DCGM_*", "{__name__=~\"DCGM_.+\"}"),
    ] {
        print(&format!("Prometheus: {} series {name}", count(selector)));
    }
}
