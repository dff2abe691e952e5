//! The counters of all workloads, by stream.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use phasemeter_meter::units::Timestamp;

use crate::counter::{Cumulative, CumulativePoint, Delta, DeltaPoint};
use crate::mapping::{MappedCounter, Reporter};
use phasemeter_meter::work_unit::WorkUnit;

/// Maximum number of streams. Attributes come from anywhere, and each stream takes memory for good.
const MAX_STREAMS: usize = 16_384;

/// What identifies a stream.
pub type StreamId = [u8; 16];

/// A point of a counter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CounterPoint {
    /// The count since its start.
    Cumulative(CumulativePoint),
    /// The count in its time.
    Delta(DeltaPoint),
}

/// A stream among those of its sender that may count the same work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NestedStream<'a> {
    /// What identifies all of them.
    pub streams: StreamId,
    /// What does the work, like a model.
    pub part: &'a str,
    /// Whether it is known to count no work of another part.
    pub is_apart: bool,
}

/// The counters of a run.
#[derive(Clone, Debug)]
pub struct WorkCounters {
    run: Timestamp,
    streams: HashMap<StreamId, Stream>,
    nested: HashMap<StreamId, Nested>,
    /// What servers report. What clients report of it is not counted.
    of_servers: BTreeSet<WorkUnit>,
    dropped: u64,
    falls: u64,
}

#[derive(Clone, Debug)]
enum Stream {
    Cumulative(Cumulative),
    Delta(Delta),
}

/// The streams of a sender that may count the same work.
#[derive(Clone, Debug, Default)]
struct Nested {
    /// The work of each part.
    parts: BTreeMap<String, u64>,
    /// Whether parts count the work of others.
    has_shared: bool,
    counted: u64,
}

impl Nested {
    /// Adds work of a part, and returns by how much that of all increases. Work that several parts count is
    /// that of the part with the most.
    fn add(&mut self, stream: NestedStream<'_>, increase: u64) -> u64 {
        self.has_shared |= !stream.is_apart;
        let part = self.parts.entry(stream.part.to_owned()).or_default();
        *part = part.saturating_add(increase);
        let parts = self.parts.values();
        let work = if self.has_shared {
            parts.copied().max().unwrap_or_default()
        } else {
            parts.fold(0, |sum: u64, part| sum.saturating_add(*part))
        };
        let increase = work.saturating_sub(self.counted);
        self.counted += increase;
        increase
    }
}

impl WorkCounters {
    /// The counters of a run that began at this instant.
    #[must_use]
    pub fn new(run: Timestamp) -> Self {
        Self {
            run,
            streams: HashMap::new(),
            nested: HashMap::new(),
            of_servers: BTreeSet::new(),
            dropped: 0,
            falls: 0,
        }
    }

    /// Adds a point, and returns by how much the work of its unit increases. `nested` is set if other streams
    /// of its sender may count the same work.
    pub fn add(
        &mut self,
        counter: MappedCounter,
        id: StreamId,
        nested: Option<NestedStream<'_>>,
        point: CounterPoint,
    ) -> u64 {
        if !self.streams.contains_key(&id) && self.streams.len() >= MAX_STREAMS {
            self.dropped += 1;
            return 0;
        }
        if counter.reported_by == Reporter::Server {
            self.of_servers.insert(counter.unit);
        }
        let run = self.run;
        let stream = self.streams.entry(id).or_insert_with(|| match point {
            CounterPoint::Cumulative(_) => Stream::Cumulative(Cumulative::new(run)),
            CounterPoint::Delta(_) => Stream::Delta(Delta::default()),
        });
        let increase = match (stream, point) {
            (Stream::Cumulative(stream), CounterPoint::Cumulative(point)) => {
                let falls = stream.falls();
                let increase = stream.add(point);
                self.falls += stream.falls() - falls;
                increase
            }
            (Stream::Delta(stream), CounterPoint::Delta(point)) => stream.add(point),
            // A stream has one temporality.
            (Stream::Cumulative(_), CounterPoint::Delta(_))
            | (Stream::Delta(_), CounterPoint::Cumulative(_)) => 0,
        };
        let increase = match nested {
            Some(stream) => self.nested.entry(stream.streams).or_default().add(stream, increase),
            None => increase,
        };
        let is_counted =
            counter.reported_by == Reporter::Server || !self.of_servers.contains(&counter.unit);
        if is_counted { increase } else { 0 }
    }

    /// Whether the work of these streams is that of each part: none counts the work of another.
    #[must_use]
    pub fn counts_parts(&self, streams: &StreamId) -> bool {
        self.nested.get(streams).is_none_or(|nested| !nested.has_shared)
    }

    /// Number of points that were dropped: there are too many streams.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How often a counter fell although its start stayed the same: each time it was reset.
    #[must_use]
    pub const fn falls(&self) -> u64 {
        self.falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counter(unit: WorkUnit, reported_by: Reporter) -> MappedCounter {
        MappedCounter { unit, is_histogram: false, reported_by }
    }

    fn point(seconds: u64, value: f64) -> CounterPoint {
        let at = Timestamp::from_millis(seconds * 1_000).unwrap();
        CounterPoint::Cumulative(CumulativePoint { start: None, at, value })
    }

    #[test]
    fn work_of_servers_counts_in_place_of_that_of_their_clients() {
        let mut counters = WorkCounters::new(Timestamp::EPOCH);
        let client = counter(WorkUnit::Tokens, Reporter::Client);
        let server = counter(WorkUnit::Tokens, Reporter::Server);
        assert_eq!(counters.add(client, [1; 16], None, point(0, 0.0)), 0);
        assert_eq!(counters.add(client, [1; 16], None, point(10, 50.0)), 50);
        assert_eq!(counters.add(server, [2; 16], None, point(20, 1_000.0)), 0, "before the run");
        assert_eq!(counters.add(client, [1; 16], None, point(20, 90.0)), 0);
        assert_eq!(counters.add(server, [2; 16], None, point(30, 1_040.0)), 40);
        let requests = counter(WorkUnit::Requests, Reporter::Client);
        assert_eq!(counters.add(requests, [3; 16], None, point(20, 0.0)), 0);
        assert_eq!(
            counters.add(requests, [3; 16], None, point(30, 7.0)),
            7,
            "no server reports them"
        );
    }

    #[test]
    fn number_of_streams_is_limited() {
        let mut counters = WorkCounters::new(Timestamp::EPOCH);
        let server = counter(WorkUnit::Tokens, Reporter::Server);
        for n in 0..=MAX_STREAMS as u128 {
            counters.add(server, n.to_le_bytes(), None, point(0, 0.0));
        }
        assert_eq!((counters.streams.len(), counters.dropped()), (MAX_STREAMS, 1));
        assert_eq!(counters.add(server, [0; 16], None, point(1, 5.0)), 5, "known streams continue");
    }

    /// Scenario: 59 requests to an ensemble of three models, of which one runs on a GPU, and two models on
    /// GPUs of another server.
    #[test]
    fn models_of_an_ensemble_count_once_and_models_on_gpus_add_up() {
        let mut counters = WorkCounters::new(Timestamp::EPOCH);
        let requests = counter(WorkUnit::Requests, Reporter::Server);
        let mut add = |server: u8, id: u8, part: &str, is_apart: bool, seconds: u64, value: f64| {
            let nested = NestedStream { streams: [server; 16], part, is_apart };
            counters.add(requests, [id; 16], Some(nested), point(seconds, value))
        };
        let ensemble = [("ensemble", false), ("tokenize", false), ("model", true)];
        for (id, (part, is_apart)) in (0..).zip(ensemble) {
            assert_eq!(add(0, id, part, is_apart, 0, 1_000.0), 0);
        }
        // The last model answers first.
        assert_eq!(add(0, 2, "model", true, 10, 1_040.0), 40);
        assert_eq!(add(0, 0, "ensemble", false, 10, 1_038.0), 0);
        assert_eq!(add(0, 1, "tokenize", false, 10, 1_040.0), 0);
        assert_eq!(add(0, 0, "ensemble", false, 20, 1_059.0), 19);
        assert_eq!(add(0, 2, "model", true, 20, 1_059.0), 0);
        // A model on two GPUs has two streams.
        for (id, part) in [(10, "chat"), (11, "chat"), (12, "embed")] {
            add(1, id, part, true, 0, 0.0);
        }
        let sum: u64 = [(10, "chat", 5.0), (11, "chat", 6.0), (12, "embed", 7.0)]
            .into_iter()
            .map(|(id, part, value)| add(1, id, part, true, 10, value))
            .sum();
        assert_eq!(sum, 18);
    }
}
