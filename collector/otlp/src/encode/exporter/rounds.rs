//! Rounds of points: those of all GPUs at one boundary leave with one timestamp, and rounds leave in the order of time.
//!
//! A backend such as Prometheus refuses a request with a point that is older than the newest one of its
//! resource. A round leaves once every GPU has reached it, or has been silent for longer than its readings
//! represent the present.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::super::batch::{Batch, MAX_POINTS};
use super::super::claim::Claim;
use super::super::metric_selection::MetricSelection;
use super::super::served_cost::ServedCost;

/// The number of points that may wait for slower GPUs, about half a kibibyte each. Beyond it the oldest round
/// leaves without them.
const MAX_WAITING: usize = 1 << 17;

/// The minimum distance of two rounds. Backends have milliseconds.
const STEP: Nanos = Nanos::from_millis(1);

/// Points of one time, and what they say of the time and the cost of GPUs.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) batch: Batch,
    /// The time of GPUs in its sums.
    pub(super) claims: Vec<Claim>,
    /// The cost of its GPUs since their last exports; `None` if any is unpriced.
    pub(super) cost: Option<NanoUsd>,
    /// What they cost by group of work.
    pub(super) served: ServedCost,
}

impl Round {
    /// No points yet, of these metrics only.
    fn new(metrics: MetricSelection) -> Self {
        let (batch, served) = (Batch::new(metrics), ServedCost::default());
        Self { batch, claims: Vec::new(), cost: Some(NanoUsd::ZERO), served }
    }

    /// Takes all of it.
    fn take(&mut self) -> Self {
        let (claims, cost) = (std::mem::take(&mut self.claims), self.cost.replace(NanoUsd::ZERO));
        let served = std::mem::take(&mut self.served);
        Self { batch: self.batch.take(), claims, cost, served }
    }
}

impl Default for Round {
    fn default() -> Self {
        Self::new(MetricSelection::default())
    }
}

/// How far a GPU is.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Time of its last reading or boundary; `None` before its span begins.
    reached: Option<Timestamp>,
    /// The last boundary of which its points were taken.
    taken: Option<Timestamp>,
    /// The progress of all when it had its last reading.
    active: Nanos,
    /// How long its readings represent the present; `None` before its first boundary. Then it is the time between
    /// two rounds.
    stale_after: Option<Nanos>,
    /// Whether it has had a reading, or has missed a round, since its points were taken.
    is_behind: bool,
    /// Whether it was silent when a round left, and has had no reading since.
    was_silent: bool,
    has_ended: bool,
}

/// The rounds that have not left.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    /// The time between two rounds.
    every: Nanos,
    metrics: MetricSelection,
    gpus: Vec<Progress>,
    /// The newest time that any GPU has reached.
    now: Timestamp,
    /// The sum of the steps in which that was reached, each at most what a reading represents: a pause of all, or
    /// a clock that is ahead, does not show that the others are silent.
    progress: Nanos,
    /// By boundary.
    open: BTreeMap<Timestamp, Round>,
    /// The points of GPUs at their ends, which leave with the time of the last of them.
    last: Round,
    /// Points in all of them.
    waiting: usize,
    /// Time of the newest points that have left.
    left: Option<Timestamp>,
    /// The GPUs before this one are not waited for by the oldest round.
    next: usize,
}

impl Rounds {
    /// No rounds yet; they are this far apart, and have these metrics.
    pub(super) fn new(every: Nanos, metrics: MetricSelection) -> Self {
        Self { every, metrics, last: Round::new(metrics), ..Self::default() }
    }

    /// Adds a GPU, and returns its number.
    pub(super) fn add_gpu(&mut self) -> usize {
        self.gpus.push(Progress { active: self.progress, ..Progress::default() });
        self.gpus.len() - 1
    }

    /// The span of a GPU begins.
    pub(super) fn begin(&mut self, gpu: usize, at: Timestamp) {
        self.reach(gpu, at);
    }

    /// A GPU had a reading.
    pub(super) fn reach(&mut self, gpu: usize, at: Timestamp) {
        let Some(reached) = self.gpus.get_mut(gpu) else { return };
        let first = self.now == Timestamp::EPOCH;
        let step = if first { Nanos::ZERO } else { at.since(self.now) };
        self.progress += step.min(reached.stale_after.unwrap_or(self.every));
        self.now = self.now.max(at);
        reached.reached = reached.reached.max(Some(at));
        (reached.active, reached.is_behind, reached.was_silent) = (self.progress, true, false);
    }

    /// A GPU has ended: no round waits for it.
    pub(super) fn end(&mut self, gpu: usize) {
        if let Some(progress) = self.gpus.get_mut(gpu) {
            progress.has_ended = true;
        }
    }

    /// The round at a boundary that a GPU has reached; `None` if it has left: then the GPU's next round has the
    /// time.
    pub(super) fn at_boundary(
        &mut self,
        gpu: usize,
        at: Timestamp,
        stale_after: Option<Nanos>,
    ) -> Option<&mut Round> {
        let progress = self.gpus.get_mut(gpu)?;
        progress.reached = progress.reached.max(Some(at));
        progress.stale_after = stale_after;
        let has_left =
            self.left > Some(at) || self.left == Some(at) && !self.open.contains_key(&at);
        if has_left || progress.taken >= Some(at) {
            progress.is_behind = true;
            return None;
        }
        (progress.taken, progress.is_behind) = (Some(at), false);
        if self.open.first_key_value().is_some_and(|(oldest, _)| at < *oldest) {
            self.next = 0;
        }
        let metrics = self.metrics;
        Some(self.open.entry(at).or_insert_with(|| Round::new(metrics)))
    }

    /// A batch without points, of no round.
    pub(super) fn no_points(&self) -> Batch {
        Batch::new(self.metrics)
    }

    /// The last round.
    pub(super) const fn last(&mut self) -> &mut Round {
        &mut self.last
    }

    /// Counts points that were added.
    pub(super) const fn count(&mut self, points: usize) {
        self.waiting += points;
    }

    /// Whether the oldest round is complete without GPUs of which something is not exported.
    pub(super) fn leaves_silent(&mut self) -> bool {
        let Some((&at, _)) = self.open.first_key_value() else { return false };
        self.is_complete(at) && (0..self.gpus.len()).any(|gpu| self.is_left_out(gpu))
    }

    /// Whether the oldest round leaves without this GPU, of which something until then is not exported: what is known of one
    /// that has begun since is newer than the round.
    pub(super) fn is_left_out(&self, gpu: usize) -> bool {
        let oldest = self.open.first_key_value().map(|(at, _)| *at);
        self.gpus.get(gpu).is_some_and(|gpu| {
            let is_older = gpu.taken < oldest && gpu.reached <= oldest;
            gpu.is_behind && is_older && !gpu.has_ended && self.is_silent(gpu)
        })
    }

    /// The oldest round, unless it has points of this silent GPU.
    pub(super) fn oldest_without(&mut self, gpu: usize) -> Option<&mut Round> {
        let oldest = self.open.first_entry()?;
        let progress = self.gpus.get_mut(gpu)?;
        progress.was_silent = true;
        if progress.taken >= Some(*oldest.key()) {
            return None;
        }
        (progress.taken, progress.is_behind) = (Some(*oldest.key()), false);
        Some(oldest.into_mut())
    }

    /// Takes the oldest round if it is complete, or if too many points wait.
    pub(super) fn take_complete(&mut self) -> Option<(Timestamp, Round)> {
        let (&at, _) = self.open.first_key_value()?;
        if self.waiting <= MAX_WAITING && !self.is_complete(at) {
            return None;
        }
        self.take_oldest()
    }

    /// Takes the oldest round, at the end.
    pub(super) fn take_oldest(&mut self) -> Option<(Timestamp, Round)> {
        let (at, round) = self.open.pop_first()?;
        self.next = 0;
        self.leave(at, &round.batch);
        Some((at, round))
    }

    /// Takes the points of the oldest round that fill a request, unless an older round may still come.
    pub(super) fn take_filled(&mut self) -> Option<(Timestamp, Round)> {
        self.open.first_key_value().filter(|(_, round)| round.batch.len() >= MAX_POINTS)?;
        let has_begun =
            |gpu: &Progress| gpu.reached.is_some() || gpu.has_ended || self.is_silent(gpu);
        if !self.gpus.iter().all(has_begun) {
            return None;
        }
        let oldest = self.open.first_entry()?;
        let (at, round) = (*oldest.key(), oldest.into_mut().take());
        self.leave(at, &round.batch);
        Some((at, round))
    }

    /// Takes the last points if too many wait.
    pub(super) fn take_filled_last(&mut self) -> Option<(Timestamp, Round)> {
        (self.waiting > MAX_WAITING && self.open.is_empty()).then(|| self.take_last())
    }

    /// Takes the last points, at the end: they are as new as the newest reading.
    pub(super) fn take_last(&mut self) -> (Timestamp, Round) {
        let at = self.left.map_or(self.now, |left| self.now.max(left + STEP));
        let round = self.last.take();
        self.leave(at, &round.batch);
        (at, round)
    }

    fn leave(&mut self, at: Timestamp, batch: &Batch) {
        self.left = self.left.max(Some(at));
        self.waiting -= batch.len();
    }

    /// Whether no GPU is waited for by the oldest round, which is at this time.
    fn is_complete(&mut self, at: Timestamp) -> bool {
        while let Some(gpu) = self.gpus.get(self.next) {
            if !gpu.has_ended && gpu.reached < Some(at) && !self.is_silent(gpu) {
                return false;
            }
            self.next += 1;
        }
        true
    }

    /// Whether a GPU has had no reading for longer than its readings represent the present, while others had.
    fn is_silent(&self, gpu: &Progress) -> bool {
        let stale_after = gpu.stale_after.unwrap_or(self.every);
        gpu.was_silent || self.progress - gpu.active > stale_after
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::instruments::HW_POWER;
    use super::super::super::values::{Start, double};
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(1_785_110_400_000 + seconds * 1_000).unwrap()
    }

    /// Rounds of a minute, and GPUs with a reading every 15 s that is stale after 45 s.
    fn rounds(gpus: usize) -> Rounds {
        let mut rounds = Rounds::new(Nanos::from_secs(60), MetricSelection::default());
        for _ in 0..gpus {
            let gpu = rounds.add_gpu();
            rounds.begin(gpu, at(0));
        }
        rounds
    }

    /// A GPU reaches a boundary; returns whether its round was open.
    fn add(rounds: &mut Rounds, gpu: usize, boundary: u64) -> bool {
        rounds.at_boundary(gpu, at(boundary), Some(Nanos::from_secs(45))).is_some()
    }

    fn left(rounds: &mut Rounds) -> Option<u64> {
        rounds.take_complete().map(|(time, _)| time.since(at(0)).0 / 1_000_000_000)
    }

    #[test]
    fn round_leaves_once_all_have_reached_it_in_the_order_of_time() {
        let mut rounds = rounds(2);
        rounds.reach(0, at(58));
        rounds.reach(1, at(61));
        assert!(add(&mut rounds, 1, 60));
        assert_eq!(left(&mut rounds), None);
        rounds.reach(1, at(121));
        assert!(add(&mut rounds, 1, 120), "ahead by a round");
        assert_eq!(left(&mut rounds), None);
        rounds.reach(0, at(73));
        assert!(add(&mut rounds, 0, 60));
        assert_eq!([left(&mut rounds), left(&mut rounds)], [Some(60), None]);
        assert!(add(&mut rounds, 0, 120));
        assert_eq!(left(&mut rounds), Some(120));
    }

    #[test]
    fn round_leaves_without_a_silent_gpu_whose_last_points_it_takes_once() {
        let mut rounds = rounds(2);
        for second in [15, 30, 45] {
            (0..2).for_each(|gpu| rounds.reach(gpu, at(second)));
        }
        for second in [60, 75, 90] {
            rounds.reach(0, at(second));
        }
        assert!(add(&mut rounds, 0, 60));
        assert!(!rounds.leaves_silent() && left(&mut rounds).is_none(), "45 s are not longer");
        rounds.reach(0, at(106));
        assert!(rounds.leaves_silent() && !rounds.is_left_out(0) && rounds.is_left_out(1));
        assert!(rounds.oldest_without(1).is_some());
        assert!(!rounds.leaves_silent());
        assert_eq!(left(&mut rounds), Some(60));
        assert!(!add(&mut rounds, 1, 60), "it comes back: this round has left");
        rounds.reach(1, at(121));
        assert!(add(&mut rounds, 1, 120));
        assert_eq!(left(&mut rounds), None, "the other one is waited for");
    }

    #[test]
    fn gpu_that_is_silent_now_is_not_in_a_round_twice() {
        let mut rounds = rounds(3);
        for gpu in [0, 1] {
            rounds.reach(gpu, at(61));
            assert!(add(&mut rounds, gpu, 60));
        }
        for second in [75, 90, 105, 119] {
            rounds.reach(0, at(second));
            rounds.reach(2, at(second - 60));
        }
        assert_eq!(left(&mut rounds), None, "one is late and not silent");
        assert!(!rounds.is_left_out(1) && rounds.oldest_without(1).is_none());
    }

    #[test]
    fn gpu_that_begins_after_a_round_is_not_in_it() {
        let mut rounds = rounds(1);
        rounds.reach(0, at(60));
        assert!(add(&mut rounds, 0, 60));
        let late = rounds.add_gpu();
        rounds.begin(late, at(61));
        for second in [75, 90, 105, 119] {
            rounds.reach(0, at(second));
        }
        assert!(!rounds.is_left_out(late), "what is known of it is newer");
        assert_eq!(left(&mut rounds), Some(60));
        rounds.reach(0, at(125));
        assert!(add(&mut rounds, 0, 120));
        assert!(rounds.is_left_out(late));
    }

    #[test]
    fn pause_of_all_and_a_clock_that_is_ahead_make_nobody_silent() {
        let mut rounds = rounds(2);
        (0..2).for_each(|gpu| rounds.reach(gpu, at(59)));
        rounds.reach(0, at(3_601));
        (1..=60).for_each(|minute| assert!(add(&mut rounds, 0, minute * 60)));
        assert_eq!(left(&mut rounds), None);
        rounds.reach(1, at(3_601));
        assert!(add(&mut rounds, 1, 60));
        assert_eq!(left(&mut rounds), Some(60));
    }

    #[test]
    fn number_of_points_that_wait_is_limited() {
        let mut rounds = rounds(2);
        rounds.reach(0, at(60));
        assert!(add(&mut rounds, 0, 60));
        assert_eq!(left(&mut rounds), None);
        rounds.count(MAX_WAITING + 1);
        assert_eq!(left(&mut rounds), Some(60));
    }

    #[test]
    fn part_of_a_round_leaves_before_the_rest() {
        let mut rounds = rounds(2);
        rounds.reach(0, at(61));
        let batch = &mut rounds.at_boundary(0, at(60), None).unwrap().batch;
        let point = || double(Start::NONE, Vec::new(), 1.0);
        (0..MAX_POINTS).for_each(|_| batch.add_hardware(Some(0), &HW_POWER, point()));
        rounds.count(MAX_POINTS);
        assert_eq!(left(&mut rounds), None);
        assert_eq!(rounds.take_filled().map(|(time, _)| time), Some(at(60)));
        assert!(rounds.take_filled().is_none());
        rounds.reach(1, at(61));
        assert!(add(&mut rounds, 1, 60), "the rest of the same round");
        assert_eq!(left(&mut rounds), Some(60));
        assert!(!add(&mut rounds, 1, 60));
    }

    #[test]
    fn last_points_are_newer_than_all_others() {
        let mut rounds = rounds(1);
        rounds.reach(0, at(60));
        assert!(add(&mut rounds, 0, 60));
        assert_eq!(left(&mut rounds), Some(60));
        assert_eq!(rounds.take_last().0, at(60) + STEP);
    }
}
