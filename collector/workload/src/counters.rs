//! The counters of all workloads, by stream.
//!
//! Must not depend on what identifies a stream.

use std::collections::{BTreeSet, HashMap};

use phasemeter_meter::units::Timestamp;

use crate::counter::{Cumulative, CumulativePoint, Delta, DeltaPoint};
use crate::mapping::{MappedCounter, Reporter};
use crate::unit::Unit;

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

/// The counters of a run.
#[derive(Clone, Debug)]
pub struct WorkCounters {
    run: Timestamp,
    streams: HashMap<StreamId, Stream>,
    /// What servers report. What clients report of it is not counted.
    of_servers: BTreeSet<Unit>,
    dropped: u64,
    falls: u64,
}

#[derive(Clone, Debug)]
enum Stream {
    Cumulative(Cumulative),
    Delta(Delta),
}

impl WorkCounters {
    /// The counters of a run that began at this instant.
    #[must_use]
    pub fn new(run: Timestamp) -> Self {
        Self { run, streams: HashMap::new(), of_servers: BTreeSet::new(), dropped: 0, falls: 0 }
    }

    /// Adds a point, and returns by how much the work of its unit increases.
    pub fn add(&mut self, counter: MappedCounter, id: StreamId, point: CounterPoint) -> u64 {
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
        let is_counted =
            counter.reported_by == Reporter::Server || !self.of_servers.contains(&counter.unit);
        if is_counted { increase } else { 0 }
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

    fn counter(unit: Unit, reported_by: Reporter) -> MappedCounter {
        MappedCounter { unit, is_histogram: false, reported_by }
    }

    fn point(seconds: u64, value: f64) -> CounterPoint {
        let at = Timestamp::from_millis(seconds * 1_000).unwrap();
        CounterPoint::Cumulative(CumulativePoint { start: None, at, value })
    }

    #[test]
    fn work_of_servers_counts_in_place_of_that_of_their_clients() {
        let mut counters = WorkCounters::new(Timestamp::EPOCH);
        let client = counter(Unit::Tokens, Reporter::Client);
        let server = counter(Unit::Tokens, Reporter::Server);
        assert_eq!(counters.add(client, [1; 16], point(0, 0.0)), 0);
        assert_eq!(counters.add(client, [1; 16], point(10, 50.0)), 50);
        assert_eq!(counters.add(server, [2; 16], point(20, 1_000.0)), 0, "before the run");
        assert_eq!(counters.add(client, [1; 16], point(20, 90.0)), 0);
        assert_eq!(counters.add(server, [2; 16], point(30, 1_040.0)), 40);
        let requests = counter(Unit::Requests, Reporter::Client);
        assert_eq!(counters.add(requests, [3; 16], point(20, 0.0)), 0);
        assert_eq!(counters.add(requests, [3; 16], point(30, 7.0)), 7, "no server reports them");
    }

    #[test]
    fn number_of_streams_is_limited() {
        let mut counters = WorkCounters::new(Timestamp::EPOCH);
        let server = counter(Unit::Tokens, Reporter::Server);
        for n in 0..=MAX_STREAMS as u128 {
            counters.add(server, n.to_le_bytes(), point(0, 0.0));
        }
        assert_eq!((counters.streams.len(), counters.dropped()), (MAX_STREAMS, 1));
        assert_eq!(counters.add(server, [0; 16], point(1, 5.0)), 5, "known streams continue");
    }
}
