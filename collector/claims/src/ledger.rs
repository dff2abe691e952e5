//! Until when the time of each GPU is claimed: by sums, or by a gap.
//!
//! Every second is to be claimed once, whenever the process is killed. A claim is made by a request, and is stored with it, by
//! what delivers requests; so a run that begins knows what earlier ones have claimed, and states the time since then as a gap.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{Claim, ClaimKind};

/// The maximum number of open claims. Beyond it, the disk has failed for long: the oldest count as stored.
const MAX_OPEN: usize = 1_000;

/// The claims of all runs that continue one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Until when the time of each GPU, by its key, is claimed.
    pub(crate) until: BTreeMap<String, Timestamp>,
    /// Of GPUs that have begun, until when they were claimed before, until the gap since then is [added](Self::add).
    waiting: BTreeMap<String, Timestamp>,
    /// Claims whose requests are not stored yet, with their numbers: of each GPU, until when it was claimed before.
    open: BTreeMap<u64, BTreeMap<String, Timestamp>>,
    next: u64,
}

impl Ledger {
    /// Continues with what earlier runs have claimed.
    pub(crate) fn new(until: BTreeMap<String, Timestamp>) -> Self {
        Self { until, ..Self::default() }
    }

    /// The run goes on from `until`, when its process was killed. `joined`: when its GPUs began to be claimed.
    pub(crate) fn go_on(&mut self, until: Timestamp, joined: BTreeMap<String, Timestamp>) {
        self.until.values_mut().for_each(|at| *at = until.min(*at));
        for (gpu, at) in joined {
            self.until.entry(gpu).or_insert(at);
        }
    }

    /// Begins to claim the time of a GPU at this instant: what is before it is in a gap, if in anything. `others`: until when
    /// GPUs count as claimed that are not known.
    pub(crate) fn begin(&mut self, gpu: String, at: Timestamp, others: Option<Timestamp>) {
        let before = self.until.insert(gpu.clone(), at).or(others);
        if let Some(before) = before.filter(|before| *before < at) {
            self.waiting.insert(gpu, before);
        }
    }

    /// The time of a GPU until this instant is in a report.
    pub(crate) fn report(&mut self, gpu: String, until: Timestamp) {
        self.waiting.remove(&gpu);
        self.until.insert(gpu, until);
    }

    /// Adds the claims of GPUs that have begun, which count once their requests are [stored](Self::store). Returns their
    /// number.
    pub(crate) fn add(&mut self, kind: ClaimKind, claims: &[Claim]) -> u64 {
        let mut before = BTreeMap::new();
        for Claim { gpu, from, to } in claims {
            let Some(until) = self.until.get_mut(gpu) else { continue };
            // Cumulative sums have the time of those before them.
            let claimed = if kind == ClaimKind::Sums { (*from).max(*until) } else { *from };
            before.insert(gpu.clone(), claimed);
            self.waiting.remove(gpu);
            *until = (*to).max(*until);
        }
        let id = self.next;
        self.next += 1;
        self.open.insert(id, before);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
        id
    }

    /// The requests of a claim are stored, or have an outcome: what a backend rejects is lost, and counted.
    pub(crate) fn store(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// Until when the time of each GPU is claimed whatever becomes of this process.
    pub(crate) fn stored_until(&self) -> BTreeMap<String, Timestamp> {
        let mut until = self.until.clone();
        for (gpu, before) in self.open.values().flatten().chain(&self.waiting) {
            if let Some(until) = until.get_mut(gpu) {
                *until = (*before).min(*until);
            }
        }
        until
    }
}
