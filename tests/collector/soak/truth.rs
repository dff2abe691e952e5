//! What the simulated nodes did: the times of their scrapes are those of the Collector, the values those of the
//! simulation.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use phasemeter_oracle::fleet::{Listed, ends};

use crate::expected::{Billed, accounts};
use crate::fleet::metrics;
use crate::nodes::{GPUS_PER_NODE, SCRAPE, has_pod, utilization, uuid};
use crate::otlp;

/// Nanoseconds.
const SECOND: u64 = 1_000_000_000;
const MILLISECOND: u64 = 1_000_000;

/// Nanoseconds that cost a nano-dollar at $3.60 per hour.
const NANOS_PER_NANO_USD: u64 = 1_000;

/// OTLP's flag of a point without a value, with which a Collector ends the series of a failed scrape.
const NO_RECORDED_VALUE: u32 = 1;

/// The cost of each account of each GPU, in nano-dollars.
pub(super) type Accounts = BTreeMap<(String, String), u64>;

/// The scrapes of each node by time in nanoseconds; without a number, one that failed.
pub(super) struct Truth(BTreeMap<u64, BTreeMap<u64, Option<u64>>>);

impl Truth {
    /// What is in these files of Collectors.
    pub(super) fn of<'a>(archives: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut nodes = BTreeMap::<u64, BTreeMap<u64, Option<u64>>>::new();
        for metric in archives.flat_map(|archive| metrics(archive, SCRAPE)) {
            let Some(Data::Gauge(gauge)) = metric.data else { panic!("{metric:?}") };
            for point in gauge.data_points {
                let host = &otlp::attributes(&point.attributes)["hostname"];
                let node = host.strip_prefix("node-").unwrap().parse().unwrap();
                let scrape = match point.value {
                    _ if point.flags & NO_RECORDED_VALUE != 0 => None,
                    Some(Number::AsDouble(number)) => Some(number as u64),
                    other => panic!("{other:?}"),
                };
                nodes.entry(node).or_default().insert(point.time_unix_nano, scrape);
            }
        }
        Self(nodes)
    }

    /// The number of scrapes.
    pub(super) fn scrapes(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    /// The accounts of each GPU, if a reading represents the present for so many seconds.
    pub(super) fn accounts(&self, stale_after: u64) -> Accounts {
        let hosts: Vec<_> = self.0.keys().map(|node| format!("node-{node}")).collect();
        let listed = self.0.values().zip(&hosts).map(|(scrapes, host)| Listed {
            host,
            last: scrapes.keys().next_back().unwrap() / MILLISECOND,
            stale_after: stale_after * 1_000,
        });
        let ends = ends(&listed.collect::<Vec<_>>());
        let mut all = Accounts::new();
        for ((&node, scrapes), end) in self.0.iter().zip(ends) {
            for gpu in 0..GPUS_PER_NODE {
                let readings = scrapes.iter().map(|(at, scrape)| {
                    (*at, scrape.and_then(|scrape| utilization(node, gpu, scrape)))
                });
                let idle = if has_pod(gpu) { "idle_held" } else { "idle_free" };
                let end = end * MILLISECOND;
                let billed = Billed { stale_after: stale_after * SECOND, end, idle };
                for (account, nanos) in accounts(&readings.collect(), &billed) {
                    let cost = nanos / NANOS_PER_NANO_USD;
                    all.insert((uuid(node, gpu), account.to_owned()), cost);
                }
            }
        }
        all
    }
}
