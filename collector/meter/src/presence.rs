//! Until when each GPU of a fleet exists: what the time after its last reading is.
//!
//! The span of a GPU ends with the run, whether or not its source still lists it: that time is unobserved. A
//! host ends earlier only on evidence that it is gone; time after it is absent, and not billed.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Unobserved if the host has readings of other GPUs; else another meter may have the host, and none of it is billed.
    Elsewhere,
}

/// Where and when a GPU was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Presence<'a> {
    /// Its host; empty for the machine of a log that names none.
    pub host: &'a str,
    /// The instance or boot of that host; empty if unknown.
    pub instance: &'a str,
    /// Its index there, which it has alone while it is there; `None` if unknown.
    pub index: Option<u32>,
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

/// GPUs of a host that were there together, or without a sign that the host became another one in between.
#[derive(Clone, Debug)]
struct Instance<'a> {
    first: Timestamp,
    last: Timestamp,
    stale_after: Nanos,
    /// What is known of it.
    ids: BTreeSet<&'a str>,
    indexes: BTreeSet<u32>,
}

impl<'a> Instance<'a> {
    fn of(gpu: &Presence<'a>) -> Self {
        Self {
            first: gpu.first,
            last: gpu.last,
            stale_after: gpu.stale_after,
            ids: Some(gpu.instance).filter(|id| !id.is_empty()).into_iter().collect(),
            indexes: gpu.index.into_iter().collect(),
        }
    }

    fn join(&mut self, other: Self) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.stale_after = self.stale_after.max(other.stale_after);
        self.ids.extend(other.ids);
        self.indexes.extend(other.indexes);
    }

    /// Whether GPUs that came later are of another instance: its ID is another one, or one of them has the index
    /// that another GPU had before.
    fn is_replaced_by(&self, later: &Self) -> bool {
        let is_known = !self.ids.is_empty() && !later.ids.is_empty();
        (is_known && self.ids.is_disjoint(&later.ids)) || !self.indexes.is_disjoint(&later.indexes)
    }
}

/// A host: its instances, one after another, and when GPUs began by their index.
#[derive(Clone, Debug, Default)]
struct Host<'a> {
    instances: Vec<Instance<'a>>,
    starts: BTreeMap<u32, Vec<Timestamp>>,
}

impl<'a> Host<'a> {
    /// The host with these GPUs, in the order of their first readings.
    fn of(gpus: &[Presence<'a>]) -> Self {
        let mut by_index: BTreeMap<u32, Vec<&Presence<'_>>> = BTreeMap::new();
        for gpu in gpus {
            gpu.index.into_iter().for_each(|index| by_index.entry(index).or_default().push(gpu));
        }
        // Several GPUs that have an index at once are of hosts that nothing distinguishes.
        by_index.retain(|_, gpus| gpus.is_sorted_by(|a, b| a.last < b.first));
        let own = |gpu: &Presence<'_>| gpu.index.filter(|index| by_index.contains_key(index));
        let mut together: Vec<Instance<'a>> = Vec::new();
        for gpu in gpus {
            let gpu = Instance::of(&Presence { index: own(gpu), ..*gpu });
            match together.last_mut() {
                Some(last) if gpu.first <= last.last => last.join(gpu),
                _ => together.push(gpu),
            }
        }
        let mut instances: Vec<Instance<'a>> = Vec::new();
        for next in together {
            match instances.last_mut() {
                Some(last) if !last.is_replaced_by(&next) => last.join(next),
                _ => instances.push(next),
            }
        }
        let starts = |gpus: Vec<&Presence<'_>>| gpus.iter().map(|gpu| gpu.first).collect();
        let starts = by_index.into_iter().map(|(index, gpus)| (index, starts(gpus))).collect();
        Self { instances, starts }
    }

    /// The instance that a GPU is of, and whether there is a later one.
    fn instance(&self, gpu: &Presence<'_>) -> Option<(&Instance<'a>, bool)> {
        let place = self.instances.iter().position(|instance| gpu.last <= instance.last)?;
        Some((self.instances.get(place)?, place + 1 < self.instances.len()))
    }

    /// When another GPU began that has the index of this one.
    fn replaced_at(&self, gpu: &Presence<'_>) -> Option<Timestamp> {
        let starts = self.starts.get(&gpu.index?)?;
        starts.iter().copied().find(|start| *start > gpu.last)
    }
}

/// The GPUs of each host.
#[derive(Clone, Debug, Default)]
pub struct Hosts<'a> {
    last: Option<Timestamp>,
    hosts: BTreeMap<&'a str, Host<'a>>,
}

impl<'a> Hosts<'a> {
    /// The hosts of these GPUs.
    #[must_use]
    pub fn of(gpus: impl IntoIterator<Item = Presence<'a>>) -> Self {
        let mut by_host: BTreeMap<&'a str, Vec<Presence<'a>>> = BTreeMap::new();
        for gpu in gpus {
            by_host.entry(gpu.host).or_default().push(gpu);
        }
        let last = by_host.values().flatten().map(|gpu| gpu.last).max();
        let host = |(name, mut gpus): (&'a str, Vec<Presence<'a>>)| {
            gpus.sort_by_key(|gpu| (gpu.first, gpu.last));
            (name, Host::of(&gpus))
        };
        Self { last, hosts: by_host.into_iter().map(host).collect() }
    }

    /// Time of the last reading of all; `None` without GPUs.
    #[must_use]
    pub const fn last(&self) -> Option<Timestamp> {
        self.last
    }

    /// Time of the last reading of the host of this GPU, as the instance that the GPU is of.
    #[must_use]
    pub fn last_of_host(&self, gpu: &Presence<'_>) -> Timestamp {
        self.instance(gpu).map_or(gpu.last, |(instance, _)| instance.last)
    }

    /// For how long a host lists others and not this GPU, which no other one has replaced.
    #[must_use]
    pub fn unlisted(&self, gpu: &Presence<'_>) -> Nanos {
        match self.replaced_at(gpu) {
            Some(_) => Nanos::ZERO,
            None => self.last_of_host(gpu).since(gpu.covered_until()),
        }
    }

    /// The end of the span of a GPU. Time from then to [`Self::last`] is absent.
    #[must_use]
    pub fn end(&self, gpu: &Presence<'_>, missing: MissingTime) -> Timestamp {
        let end = self.last().unwrap_or(gpu.last);
        match missing {
            MissingTime::Unobserved => end,
            MissingTime::Absent if gpu.covered_until() < end => gpu.last,
            MissingTime::Absent => end,
            MissingTime::ByEvidence => {
                let gone = self.instance(gpu).filter(|(instance, is_replaced)| {
                    let silence = end.since(instance.last);
                    *is_replaced || silence >= ABSENT_AFTER.max(instance.stale_after)
                });
                let end = gone.map_or(end, |(instance, _)| instance.last);
                self.replaced_at(gpu).map_or(end, |at| at.min(end))
            }
            MissingTime::Elsewhere => {
                let end = self.last_of_host(gpu);
                self.replaced_at(gpu).map_or(end, |at| at.min(end))
            }
        }
    }

    fn instance(&self, gpu: &Presence<'_>) -> Option<(&Instance<'a>, bool)> {
        self.hosts.get(gpu.host)?.instance(gpu)
    }

    fn replaced_at(&self, gpu: &Presence<'_>) -> Option<Timestamp> {
        self.hosts.get(gpu.host)?.replaced_at(gpu)
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
        let stale_after = Nanos::from_secs(45);
        Presence { host, instance, index: None, first, last, stale_after }
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
    fn host_is_gone_if_other_gpus_have_the_indexes_of_its_own() {
        let of = |index, first, last| Presence { index: Some(index), ..gpu("a", "", first, last) };
        let before = [of(0, 0, 100), of(1, 0, 90), of(2, 0, 100)];
        let after = [of(0, 160, 400), of(1, 161, 400)];
        let all = [&before[..], &after].concat();
        assert_eq!(by_evidence(&all), [100, 100, 100, 400, 400]);
        let hosts = Hosts::of(all.iter().copied());
        assert!(before.iter().all(|gpu| hosts.unlisted(gpu) == Nanos::ZERO));
        let grown = [of(0, 0, 100), of(1, 0, 100), of(2, 160, 400)];
        assert_eq!(by_evidence(&grown), [400, 400, 400], "another index is another GPU");
    }

    #[test]
    fn replaced_gpu_ends_where_the_next_one_begins() {
        let of = |index, first, last| Presence { index: Some(index), ..gpu("a", "", first, last) };
        let gpus = [of(0, 0, 9_000), of(1, 0, 100), of(1, 3_600, 9_000), of(2, 0, 100)];
        assert_eq!(by_evidence(&gpus), [9_000, 3_600, 9_000, 9_000]);
        let hosts = Hosts::of(gpus);
        assert_eq!(hosts.unlisted(&gpus[1]), Nanos::ZERO);
        assert_eq!(hosts.unlisted(&gpus[3]), Nanos::from_secs(9_000 - 145));
        let at_once = [of(0, 0, 100), of(0, 50, 9_000), of(0, 3_600, 9_000)];
        assert_eq!(by_evidence(&at_once), [9_000; 3], "of hosts that nothing distinguishes");
    }

    #[test]
    fn missing_time_is_as_configured() {
        let gpus = [gpu("a", "", 0, 100), gpu("b", "", 0, 9_000), gpu("b", "", 0, 8_990)];
        assert_eq!(ends(&gpus, MissingTime::Unobserved), [9_000, 9_000, 9_000]);
        assert_eq!(ends(&gpus, MissingTime::Absent), [100, 9_000, 9_000], "the last is not stale");
        assert_eq!(ends(&gpus, MissingTime::Elsewhere), [100, 9_000, 9_000], "with their hosts");
    }
}
