//! What processes have sent by their own files, and what has arrived of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::agent::nano_usd;
use crate::otlp::{Attributes, Captured, attributes, billionths};
use crate::points::{Points, read, sums};

/// What a process writes beside what it sends.
pub(crate) const FILE: &str = "otlp.jsonl";

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    InOrder,
    /// Its last round may be in one of file and store only.
    Killed,
    /// Rounds may be in its file only.
    LeftSome,
}

/// What a process has sent or stored, by its own file.
pub(crate) struct Sent {
    points: Points,
    end: End,
}

impl Sent {
    pub(crate) fn of(file: &Path, end: End) -> Self {
        Self { points: sums(&read(file)), end }
    }

    /// Whether all of it is among these.
    pub(crate) fn has_arrived(&self, arrived: &Points) -> bool {
        self.points.keys().all(|point| arrived.contains_key(point))
    }
}

/// What arrived is what the files have, and nothing else.
pub(crate) fn check(arrived: &Points, runs: &[Sent]) {
    let mut known = BTreeSet::new();
    for Sent { points, end } in runs {
        let times: BTreeSet<u64> = points.keys().map(|(.., time)| *time).collect();
        assert!(times.len() > 1, "{times:?}");
        known.extend(points.keys().map(|(.., start, _)| *start));
        let newest = *times.last().unwrap();
        for (point, value) in points {
            let may_miss = match end {
                End::InOrder => false,
                End::Killed => point.3 == newest,
                End::LeftSome => true,
            };
            let arrived = arrived.get(point);
            assert!(
                arrived == Some(value) || (arrived.is_none() && may_miss),
                "{point:?}: {arrived:?}"
            );
        }
    }
    assert!(arrived.keys().all(|(.., start, _)| known.contains(start)), "no other run");
}

/// The sums of a run over all phases of a GPU, at its last round.
#[derive(Debug)]
pub(crate) struct Whole {
    pub(crate) start: u64,
    pub(crate) until: u64,
    pub(crate) time: u64,
    pub(crate) cost: u64,
}

/// Those of each run by its start. All of its time is in them, at the price of the manifest.
pub(crate) fn whole(points: &Points) -> BTreeMap<u64, Whole> {
    let mut last = BTreeMap::new();
    for ((name, attributes, start, time), value) in points {
        // Later times come later.
        last.insert((name, attributes, *start), (*time, *value));
    }
    let mut runs = BTreeMap::<u64, Whole>::new();
    for ((name, _, start), (time, value)) in last {
        let run = runs.entry(start).or_insert(Whole { start, until: time, time: 0, cost: 0 });
        assert_eq!(run.until, time, "a round has all sums");
        *if name == "phasemeter.gpu.time" { &mut run.time } else { &mut run.cost } += value;
    }
    for run in runs.values() {
        assert_eq!(run.time, run.until - run.start, "{run:?}");
        let cost = u128::from(run.time) * 3 / 3_600;
        assert!(run.cost.abs_diff(u64::try_from(cost).unwrap()) <= 1, "{run:?}");
    }
    runs
}

/// What a report bills, in nano-dollars; `None` if there is none.
pub(crate) fn cost(report: &Path) -> Option<u64> {
    let report: Value = serde_json::from_slice(&fs::read(report).ok()?).unwrap();
    Some(nano_usd(&report["cost"]["total_usd"]))
}

/// The lengths of the gaps of a GPU, in nanoseconds; of one that was sent twice once.
pub(crate) fn gaps(captured: &Captured, gpu: &str) -> Vec<u64> {
    let gaps = captured.events.iter().filter(|it| it.event_name == "phasemeter.gpu.gap.found");
    let gaps = gaps.map(|event| (event.time_unix_nano, attributes(&event.attributes)));
    let own: BTreeMap<u64, Attributes> = gaps.filter(|(_, of)| of["hw.id"] == gpu).collect();
    let seconds = own.values().map(|of| of["phasemeter.gpu.gap.duration"].parse().unwrap());
    seconds.map(billionths).collect()
}
