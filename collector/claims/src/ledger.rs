//! Which time of each GPU the backend has: in sums, or as gaps.
//!
//! Every second is to be claimed once, whatever is rejected and whenever the process is killed. So a claim
//! is kept, with its requests, from before it is sent until it is accepted. A later run sends what is left
//! again, with the same bytes: a backend that has them already has nothing twice. Sums of an earlier run
//! that remain refused become a gap.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::delivery::RequestOutcome;
use phasemeter_otlp::encode::{Claim, ClaimKind};

/// After so many refusals, of which the last is the outcome of the last sending, sums of which no later ones have the time
/// become a gap. One proves nothing: the backend may have accepted them before that run was killed.
pub(crate) const MAX_REFUSALS: u32 = 5;

/// The maximum number of open claims: a backend that is down for days, and a process that is restarted all
/// the time, must not fill the disk. Beyond it, the oldest are given up.
const MAX_OPEN: usize = 1_000;

/// The claims of all runs that continue one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Until when the time of each GPU, by its key, is accepted or in an open claim.
    pub until: BTreeMap<String, Timestamp>,
    /// In order.
    open: Vec<Open>,
    next: u64,
    /// Until when this run's sums of a GPU since a start are accepted.
    accepted: BTreeMap<(String, Timestamp), Timestamp>,
    /// Until when those are of each GPU that the process before has sent, if the run was its own.
    accepted_before: BTreeMap<String, Timestamp>,
}

/// A claim that is not accepted yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Open {
    /// A number that no other claim has.
    pub id: u64,
    /// What is claimed.
    pub kind: ClaimKind,
    /// What it claims, from what is accepted already.
    pub claims: Vec<Claim>,
    /// The requests that claim it, in order.
    pub requests: Vec<EncodedRequest>,
    /// How often they were refused.
    pub refusals: u32,
    /// Whether no later sums will have its time: those of an earlier run, or increases.
    is_left: bool,
    /// Whether its requests are stored elsewhere, and are sent from there whatever becomes of this process.
    is_stored: bool,
    sending: Sending,
    /// The starts of its sums, one per claim. Those of which later sums of this run have the time are superseded.
    starts: Vec<(Timestamp, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Due,
    Sent,
    /// It was dropped from the queue, maybe after it was sent: it is due with the next sums.
    Dropped,
    /// It was refused: it is due with the next sums.
    Refused,
}

impl Open {
    /// A claim of an earlier run. Each part has the start of its sums, which may be before what it claims.
    pub fn earlier(
        kind: ClaimKind,
        claims: Vec<(Claim, Timestamp)>,
        requests: Vec<EncodedRequest>,
        refusals: u32,
    ) -> Self {
        let (claims, starts) =
            claims.into_iter().map(|(claim, start)| (claim, (start, false))).unzip();
        let (id, is_left, is_stored, sending) = (0, true, false, Sending::Due);
        Self { id, kind, claims, requests, refusals, is_left, is_stored, sending, starts }
    }

    /// What it claims, each with the start of its sums, unless later sums of this run have that time.
    pub fn parts(&self) -> impl Iterator<Item = (&Claim, Timestamp)> {
        let all = self.claims.iter().zip(&self.starts);
        all.filter(|(_, (_, is_superseded))| !is_superseded)
            .map(|(claim, (start, _))| (claim, *start))
    }

    fn is_superseded(&self) -> bool {
        self.kind == ClaimKind::Sums && self.starts.iter().all(|(_, superseded)| *superseded)
    }

    /// Whether it is sent with the next sums.
    fn is_waiting(&self) -> bool {
        matches!(self.sending, Sending::Dropped | Sending::Refused) && !self.is_refused()
    }

    /// Whether it is to become a gap. Sums that were sent since the last refusal are not: the backend may have accepted them.
    fn is_refused(&self) -> bool {
        self.kind == ClaimKind::Sums
            && self.sending == Sending::Refused
            && self.is_left
            && self.refusals >= MAX_REFUSALS
    }
}

impl Ledger {
    /// Continues with what earlier runs have left.
    pub fn new(until: BTreeMap<String, Timestamp>, open: Vec<Open>) -> Self {
        let mut ledger = Self { until, ..Self::default() };
        open.into_iter().for_each(|open| ledger.push(open));
        ledger
    }

    /// The run that began at `since` goes on from `until`, when its process was killed. What is open of it is as it was; all
    /// other time of it is accepted, or stored elsewhere.
    pub fn go_on(&mut self, since: Timestamp, until: Timestamp) {
        self.until.values_mut().for_each(|at| *at = until.min(*at));
        self.accepted_before = self.until.clone();
        let is_sums = |open: &&mut Open| open.kind == ClaimKind::Sums;
        for open in self.open.iter_mut().filter(is_sums) {
            open.is_left = open.starts.iter().any(|(start, _)| *start < since);
            for Claim { gpu, from, .. } in open.claims.iter().filter(|_| !open.is_left) {
                if let Some(accepted) = self.accepted_before.get_mut(gpu) {
                    *accepted = (*from).min(*accepted);
                }
            }
        }
    }

    /// Begins to claim the time of a GPU at this instant: what is before it is in a gap, if in anything.
    pub fn begin(&mut self, gpu: String, at: Timestamp) {
        self.until.insert(gpu, at);
    }

    /// Adds what requests claim once they are accepted, of GPUs that have begun.
    pub fn add(&mut self, kind: ClaimKind, mut claims: Vec<Claim>, requests: Vec<EncodedRequest>) {
        claims.retain(|claim| self.until.contains_key(&claim.gpu));
        let starts: Vec<_> = claims.iter().map(|claim| claim.from).collect();
        if kind == ClaimKind::Sums {
            self.supersede(&claims);
            for claim in &mut claims {
                let accepted = self.accepted.get(&(claim.gpu.clone(), claim.from));
                let accepted = accepted.max(self.accepted_before.get(&claim.gpu)).copied();
                claim.from = accepted.unwrap_or_default().max(claim.from);
            }
        }
        for Claim { gpu, to, .. } in &claims {
            if let Some(until) = self.until.get_mut(gpu) {
                *until = (*to).max(*until);
            }
        }
        let claims = claims.into_iter().zip(starts).collect();
        self.push(Open { is_left: false, ..Open::earlier(kind, claims, requests, 0) });
    }

    /// Cumulative sums have the time of those before them: what those claim is claimed by the new ones. What
    /// was refused is due again.
    fn supersede(&mut self, newer: &[Claim]) {
        for open in self.open.iter_mut().filter(|open| open.kind == ClaimKind::Sums) {
            for (claim, (start, superseded)) in open.claims.iter().zip(&mut open.starts) {
                let mut same_gpu = newer.iter().filter(|it| it.gpu == claim.gpu);
                *superseded |= !open.is_left && same_gpu.clone().any(|it| it.from == *start);
                open.is_left |= same_gpu.any(|it| it.from >= claim.to);
            }
        }
        self.open.retain(|open| !open.is_waiting() || !open.is_superseded());
        for open in self.open.iter_mut().filter(|open| open.is_waiting()) {
            open.sending = Sending::Due;
        }
    }

    fn push(&mut self, open: Open) {
        let id = self.next;
        self.next += 1;
        self.open.push(Open { id, ..open });
        if self.open.len() > MAX_OPEN {
            self.open.remove(0);
        }
    }

    /// Takes what is to be sent now, in order. What [`Self::open`] returns must be stored before. Without a
    /// backend, what an earlier run has left stays.
    pub fn take_due(&mut self, has_backend: bool) -> Vec<(u64, Vec<EncodedRequest>)> {
        let is_due = |open: &Open| open.sending == Sending::Due && (has_backend || !open.is_left);
        let due = self.open.iter_mut().filter(|open| is_due(open));
        due.map(|open| {
            open.sending = Sending::Sent;
            (open.id, open.requests.clone())
        })
        .collect()
    }

    /// The requests of a claim are stored elsewhere, and are sent from there whatever becomes of this process.
    pub fn store(&mut self, id: u64) {
        self.open.iter_mut().filter(|open| open.id == id).for_each(|open| open.is_stored = true);
    }

    /// Records what became of the requests of a claim.
    pub fn settle(&mut self, id: u64, outcome: RequestOutcome) {
        let Some(index) = self.open.iter().position(|open| open.id == id) else { return };
        if outcome == RequestOutcome::Accepted {
            let open = self.open.remove(index);
            if open.kind == ClaimKind::Sums && !open.is_left {
                self.accept(&open);
            }
            return;
        }
        let Some(open) = self.open.get_mut(index) else { return };
        let is_refused = outcome == RequestOutcome::Refused;
        open.refusals += u32::from(is_refused);
        open.sending = if is_refused { Sending::Refused } else { Sending::Dropped };
        open.is_stored = false;
        if open.is_superseded() {
            self.open.remove(index);
        }
    }

    /// What is accepted of cumulative sums is no longer claimed by later ones.
    fn accept(&mut self, sums: &Open) {
        for (Claim { gpu, to, .. }, (start, _)) in sums.claims.iter().zip(&sums.starts) {
            let own = self.open.iter_mut().filter(|it| it.kind == ClaimKind::Sums && !it.is_left);
            for open in own {
                for (claim, (later, _)) in open.claims.iter_mut().zip(&open.starts) {
                    if claim.gpu == *gpu && later == start {
                        claim.from = (*to).max(claim.from);
                    }
                }
            }
            let accepted = self.accepted.entry((gpu.clone(), *start)).or_insert(*to);
            *accepted = (*to).max(*accepted);
        }
    }

    /// Takes the time of sums that no backend will accept, and of which no later sums have the time: it is
    /// to be claimed as gaps. Only of GPUs that can report it now.
    pub fn take_refused(&mut self, is_known: impl Fn(&str) -> bool) -> Vec<Claim> {
        let is_taken =
            |it: &Open| it.is_refused() && it.claims.iter().all(|claim| is_known(&claim.gpu));
        let refused: Vec<_> = self.open.extract_if(.., |open| is_taken(open)).collect();
        refused.into_iter().flat_map(|open| open.claims).filter(|it| it.from < it.to).collect()
    }

    /// The claims to keep, as those of an earlier run: those whose requests nothing else keeps.
    pub fn open(&self) -> Vec<Open> {
        let kept = self.open.iter().filter(|open| !open.is_superseded() && !open.is_stored);
        let left = kept.map(|open| {
            let parts = open.parts().map(|(claim, start)| (claim.clone(), start)).collect();
            Open::earlier(open.kind, parts, open.requests.clone(), open.refusals)
        });
        left.collect()
    }
}
