//! Until when each GPU of a fleet exists: what the time after its last reading is.
//!
//! The span of a GPU ends with the run, whether or not its source still lists it: that time is unobserved. A
//! host ends earlier only on evidence that it is gone; time after it is absent, and not billed. Must not
//! depend on meters.

use std::collections::BTreeMap;

use crate::units::{Nanos, Timestamp};

/// A host is gone if none of its GPUs has a reading for this long at the end, while those of others have. A
/// restart of a host or of its exporter is mostly shorter.
pub const ABSENT_AFTER: Nanos = Nanos::from_secs(600);

/// What the time of a GPU without readings is, beyond what its last reading covers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingTime {
    /// Unobserved, and absent on evidence that the host is gone.
    #[default]
    ByEvidence,
    /// Unobserved: all of it is billed.
    Unobserved,
    /// Absent: none of it is billed.
    Absent,
}

/// Where and when a GPU was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence<'a> {
    /// Its host; empty for the machine of a log that names none.
    pub host: &'a str,
    /// The instance or boot of that host; empty if unknown.
    pub instance: &'a str,
    /// Time of its first reading.
    pub first: Timestamp,
    /// Time of its last reading.
    pub last: Timestamp,
    /// How long a reading represents the present.
    pub stale_after: Nanos,
}

impl Presence<'_> {
    /// The end of what its last reading covers.
    #[must_use]
    pub fn covered_until(&self) -> Timestamp {
        self.last + self.stale_after
    }
}

/// The readings of the GPUs of one host, of one of its instances, or of all hosts.
#[derive(Clone, Copy, Debug)]
struct Readings {
    first: Timestamp,
    last: Timestamp,
    stale_after: Nanos,
}

impl Readings {
    fn join(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.stale_after = self.stale_after.max(other.stale_after);
    }
}

/// The readings of each host.
#[derive(Clone, Debug, Default)]
pub struct Hosts<'a> {
    all: Option<Readings>,
    /// By host and instance.
    instances: BTreeMap<&'a str, BTreeMap<&'a str, Readings>>,
}

impl<'a> Hosts<'a> {
    /// The hosts of these GPUs.
    #[must_use]
    pub fn of(gpus: impl IntoIterator<Item = Presence<'a>>) -> Self {
        let mut hosts = Self::default();
        for Presence { host, instance, first, last, stale_after } in gpus {
            let readings = Readings { first, last, stale_after };
            hosts.all.get_or_insert(readings).join(readings);
            let instances = hosts.instances.entry(host).or_default();
            instances.entry(instance).or_insert(readings).join(readings);
        }
        hosts
    }

    /// Time of the last reading of all; `None` without GPUs.
    #[must_use]
    pub fn last(&self) -> Option<Timestamp> {
        self.all.map(|all| all.last)
    }

    /// Time of the last reading of the host of this GPU, and of the same instance if that is known.
    #[must_use]
    pub fn last_of_host(&self, gpu: &Presence<'_>) -> Timestamp {
        self.readings(gpu).map_or(gpu.last, |host| host.last)
    }

    /// The end of the span of a GPU. Time from then to [`Self::last`] is absent.
    #[must_use]
    pub fn end(&self, gpu: &Presence<'_>, missing: MissingTime) -> Timestamp {
        let end = self.last().unwrap_or(gpu.last);
        match missing {
            MissingTime::Unobserved => end,
            MissingTime::Absent if gpu.covered_until() < end => gpu.last,
            MissingTime::Absent => end,
            MissingTime::ByEvidence => match self.readings(gpu) {
                Some(host) if self.is_gone(gpu, &host) => host.last,
                _ => end,
            },
        }
    }

    /// Whether others went on long enough after the last reading of a host, or it came back as another one.
    fn is_gone(&self, gpu: &Presence<'_>, host: &Readings) -> bool {
        let silence = self.last().map_or(Nanos::ZERO, |last| last.since(host.last));
        let is_other = |(instance, other): (&&str, &Readings)| {
            !instance.is_empty() && *instance != gpu.instance && host.last < other.first
        };
        let is_replaced = !gpu.instance.is_empty()
            && self.instances.get(gpu.host).is_some_and(|all| all.iter().any(is_other));
        silence >= ABSENT_AFTER.max(host.stale_after) || is_replaced
    }

    /// The readings of the host of a GPU. A GPU of an unknown instance is of any of them.
    fn readings(&self, gpu: &Presence<'_>) -> Option<Readings> {
        let is_same = |instance: &str| {
            gpu.instance.is_empty() || instance.is_empty() || instance == gpu.instance
        };
        let instances = self.instances.get(gpu.host)?.iter();
        let same = instances.filter(|(instance, _)| is_same(instance)).map(|(_, it)| *it);
        same.reduce(|mut host, other| {
            host.join(other);
            host
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    fn gpu<'a>(host: &'a str, instance: &'a str, first: u64, last: u64) -> Presence<'a> {
        let (first, last) = (at(first), at(last));
        Presence { host, instance, first, last, stale_after: Nanos::from_secs(45) }
    }

    fn ends(gpus: &[Presence<'_>], missing: MissingTime) -> Vec<u64> {
        let hosts = Hosts::of(gpus.iter().copied());
        gpus.iter().map(|gpu| hosts.end(gpu, missing).whole_second()).collect()
    }

    fn by_evidence(gpus: &[Presence<'_>]) -> Vec<u64> {
        ends(gpus, MissingTime::ByEvidence)
    }

    #[test]
    fn gpu_of_host_that_goes_on_ends_with_the_run() {
        let gpus = [gpu("a", "", 0, 100), gpu("a", "", 0, 9_000), gpu("b", "", 0, 9_000)];
        assert_eq!(by_evidence(&gpus), [9_000, 9_000, 9_000]);
        assert_eq!(by_evidence(&[gpu("", "", 0, 100), gpu("", "", 0, 9_000)]), [9_000, 9_000]);
    }

    #[test]
    fn host_is_gone_if_others_go_on_for_ten_minutes() {
        let gpus = |end| [gpu("a", "", 0, 90), gpu("a", "", 0, 100), gpu("b", "", 0, end)];
        assert_eq!(by_evidence(&gpus(699)), [699, 699, 699]);
        assert_eq!(by_evidence(&gpus(700)), [100, 100, 700], "all its GPUs end with the host");
        let slow = Presence { stale_after: Nanos::from_secs(900), ..gpu("a", "", 0, 100) };
        assert_eq!(by_evidence(&[slow, gpu("b", "", 0, 999)]), [999, 999], "it is not stale yet");
        assert_eq!(by_evidence(&[slow, gpu("b", "", 0, 1_000)]), [100, 1_000]);
    }

    #[test]
    fn host_is_gone_if_it_comes_back_as_another_instance() {
        let gpus = [gpu("a", "i-1", 0, 100), gpu("a", "i-2", 160, 400), gpu("b", "i-3", 0, 400)];
        assert_eq!(by_evidence(&gpus), [100, 400, 400]);
        let unknown = [gpu("a", "i-1", 0, 100), gpu("a", "", 0, 400), gpu("b", "", 0, 400)];
        assert_eq!(by_evidence(&unknown), [400, 400, 400], "an unknown instance may be the same");
        let beside = [gpu("a", "i-1", 0, 100), gpu("a", "i-2", 60, 400)];
        assert_eq!(by_evidence(&beside), [400, 400], "instances at once are not successive");
    }

    #[test]
    fn missing_time_is_as_configured() {
        let gpus = [gpu("a", "", 0, 100), gpu("b", "", 0, 9_000), gpu("b", "", 0, 8_990)];
        assert_eq!(ends(&gpus, MissingTime::Unobserved), [9_000, 9_000, 9_000]);
        assert_eq!(ends(&gpus, MissingTime::Absent), [100, 9_000, 9_000], "the last is not stale");
    }
}
