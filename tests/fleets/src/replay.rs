//! Replays a fleet with an action taken: what share of the bill of each GPU it truly saves.

use crate::action::Action;
use crate::assumptions as assume;
use crate::batch::Batch;
use crate::fleet::{Fleet, Job, Plan};
use crate::input::{Faster, Input};
use crate::offer::{self, Offer};
use crate::trace::Trace;
use crate::training::{Limit, Training, slower};

/// Level above which headroom begins.
const PRODUCTIVE: f64 = 0.7;

impl Fleet {
    /// The saved share of the bill of each of these GPUs.
    pub(crate) fn saved(&self, action: Action, gpus: &[usize]) -> Vec<f64> {
        let alike = |share: f64| vec![share.clamp(0.0, 1.0); gpus.len()];
        let working = |share: f64| -> Vec<f64> {
            let works = |gpu: &usize| self.traces.get(*gpu).is_some_and(|trace| trace.mean() > 0.0);
            gpus.iter().map(|gpu| if works(gpu) { share.clamp(0.0, 1.0) } else { 0.0 }).collect()
        };
        match action {
            Action::Release(after) => self.released(gpus, after),
            Action::Schedule => self.scheduled(gpus),
            Action::RemoveStandby => match &self.job {
                Job::Service(_) => self.released(gpus, assume::RELEASE_AFTER),
                _ => alike(0.0),
            },
            Action::Fill => self.filled(gpus),
            Action::Consolidate => self.consolidated(gpus),
            Action::Share(parts) => self.shared(gpus, parts),
            Action::Faster(faster) => working(self.with_input(faster)),
            Action::Spot => alike(self.on_spot()),
            Action::Move(offer) => alike(self.moved(offer.price)),
            Action::Smaller(offer) => alike(self.on_smaller(offer)),
            Action::SmallerHost(offer) => alike(self.on_smaller_host(offer.price)),
            Action::FewerGpus(offer) => self.on_fewer_gpus(offer.price * offer.gpus as f64, gpus),
            Action::MoreMemory(offer) => alike(self.with_more_memory(offer)),
            Action::Prepare
            | Action::LargerBatch
            | Action::Checkpointing
            | Action::Overlap
            | Action::Arithmetic(_)
            | Action::ShorterPauses
            | Action::FewerRestarts => working(match &self.job {
                Job::Training(training) => trained(training, action),
                _ => 0.0,
            }),
            // No generated job has stages.
            Action::Balance => alike(0.0),
            Action::Queue => alike(match self.job {
                Job::Batch(Batch::Gaps(saved)) => saved,
                _ => 0.0,
            }),
            Action::BatchRequests
            | Action::Replicas(_)
            | Action::OneReplicaAtNight
            | Action::ReplicasByHour { .. }
            | Action::Autoscale => self.served(action, gpus),
        }
    }

    fn input(&self) -> Option<(&Input, f64)> {
        match &self.job {
            Job::Training(Training { limit: Limit::Input(input), trains, .. }) => {
                Some((input, *trains))
            }
            Job::Batch(Batch::Input(input)) => Some((input, 1.0)),
            _ => None,
        }
    }

    fn with_input(&self, faster: Faster) -> f64 {
        self.input().map_or(0.0, |(input, share)| share * input.saved(faster))
    }

    /// Work moves to as few instances as hold it, if its owners agree as they agree to share a GPU; the
    /// others are returned.
    fn consolidated(&self, gpus: &[usize]) -> Vec<f64> {
        let is_free = |trace: &Trace| trace.mean() <= 0.0;
        let free = self.traces.iter().filter(|trace| is_free(trace)).count();
        let needed = (self.traces.len() - free).div_ceil(self.offer.gpus).max(1);
        let returned = self.instances().saturating_sub(needed) * self.offer.gpus;
        let agrees = self.is_returnable() && self.luck.agrees_to_share;
        let share = if agrees && free > 0 { (returned as f64 / free as f64).min(1.0) } else { 0.0 };
        let of = |gpu: &usize| if self.traces.get(*gpu).is_some_and(is_free) { share } else { 0.0 };
        gpus.iter().map(of).collect()
    }

    /// Replicas can be given back only on instances of their own.
    fn served(&self, action: Action, gpus: &[usize]) -> Vec<f64> {
        let Job::Service(service) = &self.job else { return vec![0.0; gpus.len()] };
        let saved = match action {
            Action::BatchRequests => service.with_batched_requests(),
            Action::Replicas(kept) => service.with_replicas(kept),
            Action::OneReplicaAtNight => service.with_one_at_night(),
            Action::ReplicasByHour { from, until, fewer, otherwise } => service
                .with_replicas_by_hour(|hour| {
                    let is_inside = (hour + 24 - from) % 24 < (until + 24 - from) % 24;
                    if is_inside { fewer } else { otherwise }
                }),
            _ => service.with_autoscaling(),
        };
        let alone = self.offer.gpus == 1 && self.is_returnable();
        let of = |gpu: &usize| if alone && *gpu < service.active { saved } else { 0.0 };
        gpus.iter().map(of).collect()
    }

    /// Runs on the other GPU as long as that takes; 0 if it does not fit or is not cheaper.
    fn on_smaller(&self, offer: &Offer) -> f64 {
        let (own, other) = (self.offer.model, offer.model);
        let memory = self.traces.iter().map(Trace::peak_memory).fold(0.0, f64::max);
        let fits = memory <= assume::USABLE_MEMORY * other.memory_gib
            && self.offer.gpus == offer.gpus
            && (offer.gpus == 1 || own.has_nvlink == other.has_nvlink);
        let slower = slower(own, other, self.luck.arithmetic);
        let time = match &self.job {
            Job::Training(training) => training.time_on(slower, self.luck.host_time),
            Job::Service(service) if service.accepts(slower) => 1.0,
            _ => return 0.0,
        };
        let saved = 1.0 - offer.price * time / self.price();
        if fits && self.is_returnable() { saved.max(0.0) } else { 0.0 }
    }

    /// Rents the same GPUs for less, if the smaller host suffices.
    fn on_smaller_host(&self, price: f64) -> f64 {
        let suffices = self.luck.smaller_host && self.is_returnable();
        if suffices { (1.0 - price / self.price()).max(0.0) } else { 0.0 }
    }

    /// Rents a smaller instance for the work of an instance, if its owners agree as they agree to share a GPU and
    /// it holds the work. The price is what tells these instances apart.
    fn on_fewer_gpus(&self, hourly: f64, gpus: &[usize]) -> Vec<f64> {
        let is_free = |gpu: usize| self.traces.get(gpu).is_some_and(|trace| trace.mean() <= 0.0);
        let offers = offer::all().iter().filter(|offer| {
            offer.provider == self.offer.provider
                && offer.region == self.offer.region
                && offer.model.name == self.offer.model.name
                && (offer.price * offer.gpus as f64 - hourly).abs() < 1e-3
        });
        let fitting = offers.map(|offer| offer.gpus).max().unwrap_or(0);
        let saved = |gpu: &usize| {
            let instance = || self.gpus_of(self.instance_of(*gpu));
            let free = instance().filter(|gpu| is_free(*gpu)).count();
            let all = instance().count();
            let is_whole = all == self.offer.gpus && free < all;
            let fits = is_whole && all - free <= fitting && is_free(*gpu);
            let agrees = self.is_returnable() && self.luck.agrees_to_share;
            let saved = self.offer.gpus as f64 * self.price() - hourly;
            if fits && agrees {
                (saved / (free as f64 * self.price())).clamp(0.0, 1.0)
            } else {
                0.0
            }
        };
        gpus.iter().map(saved).collect()
    }

    /// Trains with larger batches on a GPU with more memory; 0 if that is not cheaper.
    fn with_more_memory(&self, offer: &Offer) -> f64 {
        let Job::Training(training) = &self.job else { return 0.0 };
        let Limit::Steps(steps) = training.limit else { return 0.0 };
        let (own, other) = (self.offer.model, offer.model);
        let there = steps.in_memory(other.memory_gib / own.memory_gib);
        let slower = slower(own, other, self.luck.arithmetic);
        let time =
            training.time_on(slower, self.luck.host_time) * (1.0 - there.with_larger_batches());
        let time = 1.0 - training.trains * (1.0 - time);
        let saved = 1.0 - offer.price * time / self.price();
        if self.offer.gpus == 1 && self.is_returnable() { saved.max(0.0) } else { 0.0 }
    }

    fn on_spot(&self) -> f64 {
        let Some(listed) = self.offer.spot.filter(|_| self.plan == Plan::OnDemand) else {
            return 0.0;
        };
        let (cost, without) = self.luck.spot;
        let hourly = (1.0 - without) * listed * cost + without * self.offer.price;
        1.0 - hourly / self.price()
    }

    fn moved(&self, price: f64) -> f64 {
        let cost = self.luck.moving.filter(|_| self.is_returnable());
        cost.map_or(0.0, |cost| (1.0 - price / self.price() - cost).max(0.0))
    }

    /// The share of each GPU that the best of all actions saves.
    pub(crate) fn recoverable(&self) -> Vec<f64> {
        let gpus: Vec<_> = (0..self.traces.len()).collect();
        let cheaper = offer::all().iter().filter(|offer| {
            let here = offer.provider == self.offer.provider && offer.region == self.offer.region;
            let hourly = |price: f64, gpus: usize| price * gpus as f64;
            here && hourly(offer.price, offer.gpus) < hourly(self.price(), self.offer.gpus)
        });
        let cheaper: Vec<_> = cheaper.collect();
        let mut best = vec![[0.0_f64; 3]; gpus.len()];
        for action in Action::all(self.offer, &cheaper) {
            let Some(waste) = action.waste() else { continue };
            for (best, saved) in best.iter_mut().zip(self.saved(action, &gpus)) {
                if let Some(best) = best.get_mut(waste as usize) {
                    *best = best.max(saved);
                }
            }
        }
        best.into_iter().map(together).collect()
    }
}

/// Savings of different waste, one after another.
pub(crate) fn together(shares: [f64; 3]) -> f64 {
    1.0 - shares.iter().map(|share| 1.0 - share).product::<f64>()
}

/// Share of the log that an action on a training job saves.
fn trained(training: &Training, action: Action) -> f64 {
    let trains = training.trains;
    match (action, training.limit, training.pauses) {
        (Action::Prepare, _, _) => training.prepares.0 * training.prepares.1,
        (Action::LargerBatch, Limit::Steps(steps), _) => trains * steps.with_larger_batches(),
        (Action::Checkpointing, Limit::Steps(steps), _) => trains * steps.with_checkpointing(),
        (Action::Overlap, Limit::Headroom(level, used), _) => {
            let after = level + used * (1.0 - level);
            if level < PRODUCTIVE { 0.0 } else { trains * (1.0 - level / after) }
        }
        (Action::Arithmetic(speedup), _, _) => trains * training.with_faster_arithmetic(speedup),
        (Action::ShorterPauses, _, Some(pauses)) if !pauses.is_crash => {
            pauses.share * pauses.removed
        }
        (Action::FewerRestarts, _, Some(pauses)) if pauses.is_crash => {
            pauses.share * pauses.removed
        }
        _ => 0.0,
    }
}
