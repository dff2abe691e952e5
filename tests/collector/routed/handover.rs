//! A fourth gateway is added, and removed again: nodes move there and back.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use super::audit::audited;
use super::balancing::{Fleet, MOST, Routed};
use super::measured::{gaps, reported, sums};
use super::stays::{Accounts, NANOS_PER_NANO_USD, away, expected, gap, scrapes, stays};
use crate::nodes::{GPUS_PER_NODE, uuid};
use crate::otelcol::Otelcol;
use crate::output::print;

const NODES: u64 = 40;

/// Seconds between scrapes.
const EVERY: u64 = 2;

/// How long the balancer has each list.
const STAY: Duration = Duration::from_secs(20);

/// How long after it has left the list a gateway goes on: what is on its way arrives.
const LEAVING: Duration = Duration::from_secs(6);

/// In nano-dollars.
fn costs(times: &Accounts) -> Accounts {
    times.iter().map(|(key, nanos)| (key.clone(), nanos / NANOS_PER_NANO_USD)).collect()
}

fn without_zeros(mut accounts: Accounts) -> Accounts {
    accounts.retain(|_, amount| *amount > 0);
    accounts
}

/// Scenario: three gateways; the list of the balancer gets a fourth one, and loses it again. With each list the Collector
/// in front starts anew, and reads its queue on disk.
/// Guarantee: each gateway has the account of each GPU from the first to the last reading of each of its stays, in its
/// report and at the backend, to the nano-dollar. No time is in two of them, and with the time between stays, which
/// returning GPUs state as gaps, all sums are those of an audit of the same readings.
#[test]
fn nodes_move_to_a_fourth_gateway_and_back_and_no_second_is_billed_twice() {
    let Some(otelcol) = Otelcol::find() else { return };
    let fleet = Fleet::start(otelcol, NODES, EVERY, &["--hold=4", "--stale-after=6"], ("", ""));
    let mut gateways: Vec<_> = (0..MOST - 1).map(|gateway| fleet.gateway(gateway)).collect();
    let mut archives = Vec::new();
    let mut reports = Vec::new();
    for count in [MOST - 1, MOST, MOST - 1] {
        if count == MOST {
            gateways.push(fleet.gateway(MOST - 1));
        }
        let collector = fleet.scrape(count);
        if gateways.len() > count {
            thread::sleep(LEAVING);
            reports.push(gateways.pop().unwrap().stop());
        }
        thread::sleep(STAY);
        archives.push(collector.archives().into_iter().next().unwrap());
    }
    thread::sleep(LEAVING);
    reports.splice(0..0, gateways.into_iter().map(Routed::stop));
    let files = fleet.end();

    let all = scrapes(archives.iter().map(Vec::as_slice));
    assert_eq!(all.len() as u64, NODES);
    let mut at_gateways = BTreeMap::<u64, Vec<_>>::new();
    let mut billed = BTreeMap::<String, u64>::new();
    let (mut moved, mut returned) = (BTreeSet::new(), 0);
    // The added one first, so that it is known which nodes moved there.
    for ([metrics, logs, _], report) in files.iter().zip(&reports).rev() {
        let passed = scrapes([metrics.as_slice()]);
        let times = expected(&passed, EVERY);
        assert_eq!(reported(report), costs(&times), "the report");
        assert_eq!(without_zeros(sums(metrics, "phasemeter.gpu.cost")), costs(&times));
        assert_eq!(without_zeros(sums(metrics, "phasemeter.gpu.time")), times);
        for ((gpu, _), cost) in costs(&times) {
            *billed.entry(gpu).or_default() += cost;
        }
        for (node, scrapes) in &passed {
            let stays = stays(scrapes, EVERY);
            returned += usize::from(stays.len() > 1 && moved.contains(node));
            at_gateways.entry(*node).or_default().extend(stays);
        }
        assert_eq!(gaps(logs), away(&passed, EVERY), "gaps are stated");
        if moved.is_empty() {
            moved = passed.into_keys().collect();
        }
    }
    print(&format!("{} of {NODES} nodes moved, {returned} of them back", moved.len()));
    assert!((1..NODES as usize).contains(&moved.len()) && returned == moved.len());

    let (audits, end) = audited(&archives, &["--stale-after=6"]);
    let mut between = 0;
    for (node, scrapes) in &all {
        let gap = gap(scrapes, &at_gateways[node]);
        between += gap * GPUS_PER_NODE;
        let after = end - scrapes.keys().next_back().unwrap();
        for gpu in 0..GPUS_PER_NODE {
            let gpu = uuid(*node, gpu);
            let missing = (gap + after) / NANOS_PER_NANO_USD;
            assert_eq!(billed[&gpu] + missing, audits[&gpu], "{gpu}");
        }
    }
    print(&format!("{} s of GPU time between two gateways", between / super::stays::SECOND));
}
