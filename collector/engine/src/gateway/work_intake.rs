//! Takes work from the counters of workloads.

use std::collections::BTreeSet;

use phasemeter_meter::instrument::Temporality;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::work_group::{WorkGroup, WorkGroups};
use phasemeter_otlp::Request;
use phasemeter_receiver::{CounterView, counter_points};
use phasemeter_sources::mapping::sender_name;
use phasemeter_work::counter::{CumulativePoint, DeltaPoint};
use phasemeter_work::counters::{CounterPoint, NestedStream, WorkCounters};
use phasemeter_work::held::WorkDone;
use phasemeter_work::mapping::{CounterRule, Reporter, WorkMappings};
use tracing::warn;

use super::clock_check::{ClockCheck, FarFromClock};
use super::replicas::Replicas;
use super::work_servers::WorkServers;

/// Counts work.
#[derive(Debug)]
pub struct CounterIntake {
    mappings: WorkMappings,
    counters: WorkCounters,
    groups: WorkGroups,
    /// Which GPUs do the work; `None` for a command, which has those of the run.
    servers: Option<WorkServers>,
    clock: ClockCheck,
    /// The gateways among which senders are divided.
    replicas: Replicas,
    /// The metrics that cannot be counted as they are declared, and were logged.
    refused: BTreeSet<String>,
}

impl CounterIntake {
    /// Counts what `mappings` know of this gateway's senders, in a run that began at this instant, by points of at
    /// most `max_age`.
    #[must_use]
    pub fn new(mappings: WorkMappings, run: Timestamp, max_age: Nanos, replicas: Replicas) -> Self {
        let (counters, clock) = (WorkCounters::new(run), ClockCheck::new(max_age));
        let (groups, servers) = (WorkGroups::default(), Some(WorkServers::default()));
        Self { mappings, counters, groups, servers, clock, replicas, refused: BTreeSet::new() }
    }

    /// The servers whose GPUs are looked up.
    pub const fn servers(&mut self) -> Option<&mut WorkServers> {
        self.servers.as_mut()
    }

    /// Counts the work of a command that begins at this instant, by points of at most a day.
    #[must_use]
    pub fn for_command(mappings: WorkMappings, run: Timestamp) -> Self {
        let max_age = Nanos::from_secs(24 * 3_600);
        Self { servers: None, ..Self::new(mappings, run, max_age, Replicas::default()) }
    }

    /// The work by which the counters of a request increase, which arrived `now` by the wall clock.
    pub fn take(&mut self, request: &Request, now: Timestamp) -> Vec<WorkDone> {
        let Request::Metrics(request) = request else { return Vec::new() };
        let Self { mappings, counters, groups, servers, clock, replicas, refused } = self;
        let mut done = Vec::new();
        counter_points(
            request,
            |metric| mappings.has(metric),
            |view| {
                let CounterView { metric, instrument, start, at, value, .. } = view;
                let label = |name: &str| view.label(name);
                let Some(CounterRule { counter, nesting, by, .. }) = mappings.find(metric, label)
                else {
                    return;
                };
                let Some(temporality) = counter.temporality(instrument) else {
                    if !refused.contains(metric) && refused.insert(metric.to_owned()) {
                        let expected = counter.expected();
                        warn!(
                            "{metric}: is {instrument}, from which work cannot be counted; its points are refused: \
                             send {expected}, or map its instrument"
                        );
                    }
                    return;
                };
                let sender = sender_name(&label).unwrap_or_default();
                if !clock.admits(metric, sender, at, now) {
                    return;
                }
                let point = match (temporality, start) {
                    (Temporality::Cumulative, _) => {
                        CounterPoint::Cumulative(CumulativePoint { start, at, value })
                    }
                    (Temporality::Delta, Some(start)) => {
                        CounterPoint::Delta(DeltaPoint { start, at, value })
                    }
                    (Temporality::Delta, None) => return,
                };
                let nested = nesting.as_ref().map(|it| NestedStream {
                    streams: view.streams_of_sender(),
                    part: view.label(&it.largest_of).unwrap_or_default(),
                    is_apart: view.label(&it.unless_each_has).is_some(),
                });
                // What a model of an ensemble counts is the work of all.
                let shared = nesting.as_ref().filter(|_| {
                    nested.is_some_and(|nested| !counters.counts_parts(&nested.streams))
                });
                let label = |name: &str| {
                    let is_part = shared.is_some_and(|nesting| nesting.largest_of == name);
                    view.label(name).filter(|_| !is_part)
                };
                let group = groups.admit(WorkGroup::by(by, label));
                if let Some(servers) =
                    servers.as_mut().filter(|_| counter.reported_by == Reporter::Server)
                {
                    servers.see(&view, &group);
                }
                if !replicas.passes_on(&view.resource()) {
                    return;
                }
                let falls = counters.falls();
                let count = counters.add(*counter, view.stream(), nested, point);
                if falls == 0 && counters.falls() > 0 {
                    warn!(
                        "{metric}: fell to {value} under the same start time; this and later falls count \
                         as resets of the counter: check that each sender has a service.instance.id"
                    );
                }
                if count > 0 {
                    done.push(WorkDone { at, unit: counter.unit, group, count });
                }
            },
        );
        done
    }

    /// The points that were dropped, since their time was far from this machine's clock.
    #[must_use]
    pub const fn far_from_clock(&self) -> &FarFromClock {
        self.clock.dropped()
    }

    /// Number of points that were dropped: there are too many counters.
    #[must_use]
    pub const fn dropped(&self) -> u64 {
        self.counters.dropped()
    }
}
