//! When each node was at which gateway, and what that costs, by the definitions.
//!
//! Must not compute it with the product's own code.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;

use crate::expected::{Billed, accounts};
use crate::fleet::metrics;
use crate::nodes::{GPUS_PER_NODE, SCRAPE, has_pod, utilization, uuid};
use crate::otlp;

pub(super) const SECOND: u64 = 1_000_000_000;

/// Nanoseconds that cost a nano-dollar at $3.60 per hour.
pub(super) const NANOS_PER_NANO_USD: u64 = 1_000;

/// OTLP's flag of a point without a value, with which a Collector ends the series of a failed scrape.
const NO_RECORDED_VALUE: u32 = 1;

/// The numbers of the scrapes of a node by their time.
pub(super) type Scrapes = BTreeMap<u64, u64>;

/// The scrapes of each node.
pub(super) type Nodes = BTreeMap<u64, Scrapes>;

/// Amounts by GPU and account.
pub(super) type Accounts = BTreeMap<(String, String), u64>;

/// The scrapes in files of Collectors.
pub(super) fn scrapes<'a>(archives: impl IntoIterator<Item = &'a [u8]>) -> Nodes {
    let mut nodes = Nodes::new();
    for metric in archives.into_iter().flat_map(|archive| metrics(archive, SCRAPE)) {
        let Some(Data::Gauge(gauge)) = metric.data else { panic!("{metric:?}") };
        for point in gauge.data_points {
            let host = &otlp::attributes(&point.attributes)["hostname"];
            let node = host.strip_prefix("node-").unwrap().parse().unwrap();
            if point.flags & NO_RECORDED_VALUE == 0 {
                let Some(Number::AsDouble(number)) = point.value else { panic!("{point:?}") };
                nodes.entry(node).or_default().insert(point.time_unix_nano, number as u64);
            }
        }
    }
    nodes
}

/// The stays of a node at a gateway that has these of its scrapes: what lies between is at least two and a half usual
/// intervals long.
pub(super) fn stays(scrapes: &Scrapes, every: u64) -> Vec<Scrapes> {
    let mut stays: Vec<Scrapes> = Vec::new();
    for (at, scrape) in scrapes {
        match stays.last_mut() {
            Some(stay) if (at - stay.keys().next_back().unwrap()) * 2 <= 5 * every * SECOND => {
                stay.insert(*at, *scrape);
            }
            _ => stays.push([(*at, *scrape)].into()),
        }
    }
    stays
}

/// How long each GPU of a gateway that had these scrapes was away between two stays.
pub(super) fn away(nodes: &Nodes, every: u64) -> BTreeMap<String, u64> {
    let mut away = BTreeMap::new();
    for (&node, scrapes) in nodes {
        for pair in stays(scrapes, every).windows(2) {
            let time = pair[1].keys().next().unwrap() - pair[0].keys().next_back().unwrap();
            for gpu in 0..GPUS_PER_NODE {
                *away.entry(uuid(node, gpu)).or_default() += time;
            }
        }
    }
    away
}

/// The time of each account of each GPU of a gateway that had these scrapes: each stay from its first reading to its last.
pub(super) fn expected(nodes: &Nodes, every: u64) -> Accounts {
    let mut all = Accounts::new();
    for (&node, scrapes) in nodes {
        for stay in stays(scrapes, every) {
            for gpu in 0..GPUS_PER_NODE {
                let readings =
                    stay.iter().map(|(at, scrape)| (*at, utilization(node, gpu, *scrape)));
                let billed = Billed {
                    stale_after: 3 * every * SECOND,
                    end: *stay.keys().next_back().unwrap(),
                    idle: if has_pod(gpu) { "idle_held" } else { "idle_free" },
                };
                for (account, nanos) in accounts(&readings.collect(), &billed) {
                    *all.entry((uuid(node, gpu), account.to_owned())).or_default() += nanos;
                }
            }
        }
    }
    all
}

/// The nanoseconds of a node that are in no stay, between its first scrape and its last. Panics if two gateways have the
/// same time.
pub(super) fn gap(all: &Scrapes, stays: &[Scrapes]) -> u64 {
    let ends =
        |scrapes: &Scrapes| (*scrapes.keys().next().unwrap(), *scrapes.keys().next_back().unwrap());
    let mut ranges: Vec<_> = stays.iter().map(ends).collect();
    ranges.sort_unstable();
    assert!(ranges.is_sorted_by(|(_, end), (start, _)| end <= start), "twice: {ranges:?}");
    let (first, last) = ends(all);
    last - first - ranges.iter().map(|(start, end)| end - start).sum::<u64>()
}
