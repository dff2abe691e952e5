//! Training jobs: what limits them, their pauses, and the time before and after.

use crate::assumptions as assume;
use crate::draft::{Draft, Generated};
use crate::input::Input;
use crate::offer::Model;
use crate::prng::Prng;
use crate::trace::{Trace, Work};

/// Memory of a process that has not allocated anything else, in GiB.
const CONTEXT: f64 = 0.6;

/// A training job.
#[derive(Clone, Debug)]
pub(crate) struct Training {
    pub(crate) limit: Limit,
    /// Share of the log in which it trains, without pauses.
    pub(crate) trains: f64,
    /// Share of the log before it, with a process, and the part that can take place before.
    pub(crate) prepares: (f64, f64),
    pub(crate) pauses: Option<Pauses>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Limit {
    Input(Input),
    /// Steps with overhead: the level while it trains.
    Steps(Steps),
    /// The part of the headroom above the level that overlapping uses.
    Headroom(f64, f64),
    /// Share of matrix products that can run faster; 0 if accuracy does not allow it.
    Arithmetic(f64),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) level: f64,
    is_per_step: bool,
    more_samples: f64,
    /// Shares of the memory: constant, and per batch.
    fixed: f64,
    activations: f64,
    kept: f64,
}

/// Regular or irregular pauses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pauses {
    /// Share of the log.
    pub(crate) share: f64,
    pub(crate) is_crash: bool,
    /// Part that is removed if they are treated as what they are.
    pub(crate) removed: f64,
}

impl Steps {
    fn draw(prng: &mut Prng) -> Self {
        let used = prng.within((0.2, 0.95));
        let fixed = used * prng.within((0.3, 0.7));
        Self {
            level: prng.within((0.2, 0.68)),
            is_per_step: prng.chance(assume::OVERHEAD_PER_STEP),
            more_samples: prng.within(assume::MORE_SAMPLES),
            fixed,
            activations: used - fixed,
            kept: prng.within(assume::KEPT_ACTIVATIONS),
        }
    }

    fn memory(self) -> f64 {
        self.fixed + self.activations
    }

    /// Time per sample with a batch that is 2^`doublings` as large, and this much work per sample.
    fn time(self, doublings: i32, work: f64) -> f64 {
        let batches = 2_f64.powi(doublings);
        let overhead = 1.0 - self.level;
        let overhead = if self.is_per_step { overhead / batches } else { overhead };
        (overhead + self.level * work) * (1.0 + self.more_samples).powi(doublings)
    }

    /// Share of the time that larger batches save: doubled as long as memory allows and it helps.
    pub(crate) fn with_larger_batches(self) -> f64 {
        let mut time = 1.0;
        for doublings in 1..6 {
            let memory = self.fixed + self.activations * 2_f64.powi(doublings);
            let next = self.time(doublings, 1.0);
            if memory > assume::USABLE_MEMORY || next > time * (1.0 - assume::MIN_GAIN) {
                break;
            }
            time = next;
        }
        1.0 - time
    }

    /// The same steps where there is so many times the memory.
    pub(crate) fn in_memory(self, times: f64) -> Self {
        Self { fixed: self.fixed / times, activations: self.activations / times, ..self }
    }

    /// The same for activation checkpointing and one doubling.
    pub(crate) fn with_checkpointing(self) -> f64 {
        let memory = self.fixed + 2.0 * self.activations * self.kept;
        let fits = memory <= assume::USABLE_MEMORY;
        let saved = 1.0 - self.time(1, assume::CHECKPOINTED_WORK);
        if fits { saved.max(0.0) } else { 0.0 }
    }

    /// Share of the time in which the GPU computes.
    pub(crate) fn computes(self) -> f64 {
        self.level
    }
}

impl Limit {
    fn draw(prng: &mut Prng) -> Self {
        match prng.weighted(&assume::LIMITS) {
            0 => Self::Input(Input::draw(prng)),
            1 => Self::Steps(Steps::draw(prng)),
            2 => Self::Headroom(prng.within((0.72, 0.87)), prng.within(assume::OVERLAPPED)),
            _ => {
                let products = prng.within(assume::MATRIX_PRODUCTS);
                Self::Arithmetic(if prng.chance(assume::ACCURATE) { products } else { 0.0 })
            }
        }
    }

    /// What the GPU does, and the share of the memory that it uses.
    fn work(&self, prng: &mut Prng) -> (Work, f64) {
        let steady = |level: f64, spread: f64| Work::Steady(level - spread, level + spread);
        match self {
            Self::Input(input) => (input.work(), prng.within((0.2, 0.9))),
            Self::Steps(steps) => (steady(steps.level, 0.07), steps.memory()),
            Self::Headroom(level, _) => (steady(*level, 0.05), prng.within((0.4, 0.95))),
            Self::Arithmetic(_) => (Work::Steady(0.92, 1.0), prng.within((0.4, 0.95))),
        }
    }
}

impl Pauses {
    fn draw(prng: &mut Prng) -> Self {
        let is_crash = prng.chance(0.35);
        let removed = if is_crash {
            let found = prng.chance(assume::CAUSE_FOUND);
            if found { prng.within(assume::FEWER_RESTARTS) } else { 0.0 }
        } else if prng.chance(assume::CHECKPOINTS) {
            prng.within(assume::IN_BACKGROUND)
        } else {
            prng.within(assume::LESS_EVALUATION)
        };
        Self { share: 0.0, is_crash, removed }
    }
}

impl Training {
    pub(crate) fn generate(draft: Draft) -> Generated<Self> {
        let Draft { offer, mut prng, mut noise } = draft;
        let mut limit = Limit::draw(&mut prng);
        let waits = matches!(limit, Limit::Input(_));
        let interval = if waits { 1.0 } else { 5.0 };
        let hours = prng.within(if waits { (1.0, 3.0) } else { (2.0, 12.0) });
        let count = (hours * 3_600.0 / interval) as usize;
        let mut share =
            |chance: f64, range| if prng.chance(chance) { prng.within(range) } else { 0.0 };
        let before = share(0.5, (0.02, 0.2));
        let after = share(0.35, (0.05, 0.5));
        let held_before = prng.chance(0.6);
        let held_after = prng.chance(0.25);
        let pauses = (!waits && prng.chance(0.2)).then(|| Pauses::draw(&mut prng));
        let hangs = matches!(limit, Limit::Arithmetic(_)) && prng.chance(assume::HANGS);
        let used = if offer.gpus == 1 || prng.chance(assume::USES_ALL) {
            offer.gpus
        } else {
            1 + prng.below(offer.gpus - 1)
        };
        let (work, memory) = limit.work(&mut prng);
        let rank = Rank {
            work,
            memory: memory * offer.model.memory_gib * 0.96,
            pauses: pauses.map(|pauses| pauses.is_crash),
            hangs_from: hangs.then(|| prng.within((0.3, 0.8))),
            span: ((before * count as f64) as usize, ((1.0 - after) * count as f64) as usize),
            held: (held_before, held_after),
        };
        let schedule = rank.schedule(count, interval, &mut prng);
        let traces = (0..offer.gpus).map(|gpu| {
            if gpu < used {
                rank.trace(&schedule, count, interval, &mut noise)
            } else {
                let mut unused = Trace::default();
                unused.extend(count, interval, Work::Nothing, 0.0, &mut noise);
                unused
            }
        });
        let traces: Vec<_> = traces.collect();
        let paused: usize = schedule.iter().map(|(start, end)| end - start).sum();
        let trains = (rank.span.1 - rank.span.0 - paused) as f64 / count as f64;
        if hangs {
            limit = Limit::Arithmetic(0.0);
        }
        let preparable = prng.within(assume::PREPARABLE);
        let prepares = (if held_before { before } else { 0.0 }, preparable);
        let pauses = pauses.map(|it| Pauses { share: paused as f64 / count as f64, ..it });
        Generated { interval, traces, job: Self { limit, trains, prepares, pauses } }
    }

    /// Time per unit of work on another model, relative to this one.
    pub(crate) fn time_on(&self, slower: f64, host_time: f64) -> f64 {
        let computes = match self.limit {
            Limit::Steps(steps) => steps.computes(),
            Limit::Headroom(level, _) => level,
            Limit::Input(input) => return input.busy * slower.max(1.0 / input.busy),
            Limit::Arithmetic(_) => 0.96,
        };
        (1.0 - computes) * host_time + computes * slower
    }

    /// Share of the matrix products' time that a format with this speedup saves.
    pub(crate) fn with_faster_arithmetic(&self, speedup: f64) -> f64 {
        let Limit::Arithmetic(products) = self.limit else { return 0.0 };
        products * (1.0 - 1.0 / speedup.max(1.0))
    }
}

/// What each GPU of the job does.
struct Rank {
    work: Work,
    memory: f64,
    /// Whether pauses are crashes.
    pauses: Option<bool>,
    /// Share of the span.
    hangs_from: Option<f64>,
    /// Indexes of the first and after the last reading of the job.
    span: (usize, usize),
    /// Whether a process holds the GPU before and after.
    held: (bool, bool),
}

impl Rank {
    /// The pauses, as ranges of readings.
    fn schedule(&self, count: usize, interval: f64, prng: &mut Prng) -> Vec<(usize, usize)> {
        let Some(is_crash) = self.pauses else { return Vec::new() };
        let (every, length) = (prng.within((900.0, 2_400.0)), prng.within((90.0, 420.0)));
        let mut pauses = Vec::new();
        let mut at = self.span.0 as f64 * interval;
        loop {
            // Crashes are irregular, and last until they are noticed.
            let vary = if is_crash { (0.4, 1.8) } else { (0.99, 1.01) };
            at += every * prng.within(vary);
            let end = at + length * prng.within(if is_crash { (1.0, 4.0) } else { (0.9, 1.1) });
            let range = ((at / interval) as usize, (end / interval) as usize);
            if range.1 >= self.span.1.min(count) {
                return pauses;
            }
            pauses.push(range);
            at = end;
        }
    }

    fn trace(
        &self,
        schedule: &[(usize, usize)],
        count: usize,
        interval: f64,
        noise: &mut Prng,
    ) -> Trace {
        let mut trace = Trace::default();
        let held = |held: bool| if held { CONTEXT } else { 0.0 };
        trace.extend(self.span.0, interval, Work::Nothing, held(self.held.0), noise);
        for (start, end) in schedule {
            trace.extend(*start, interval, self.work, self.memory, noise);
            let memory = if self.pauses == Some(true) { 0.0 } else { self.memory };
            trace.extend(*end, interval, Work::Nothing, memory, noise);
        }
        if let Some(share) = self.hangs_from {
            let (start, end) = self.span;
            let from = start + (share * (end - start) as f64) as usize;
            trace.extend(from, interval, self.work, self.memory, noise);
            trace.extend(count, interval, Work::Hang, self.memory, noise);
        }
        trace.extend(self.span.1, interval, self.work, self.memory, noise);
        let after = if self.held.1 { self.memory } else { 0.0 };
        trace.extend(count, interval, Work::Nothing, after, noise);
        trace
    }
}

/// How many times as long a GPU of the other model computes.
pub(crate) fn slower(from: &Model, to: &Model, arithmetic: f64) -> f64 {
    let (flops, bandwidth) = (from.half / to.half, from.bandwidth / to.bandwidth);
    arithmetic * flops + (1.0 - arithmetic) * bandwidth
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn larger_batches_save_overhead_per_step_only() {
        let steps = |is_per_step, used: f64| Steps {
            level: 0.5,
            is_per_step,
            more_samples: 0.0,
            fixed: 0.2,
            activations: used - 0.2,
            kept: 0.25,
        };
        let saved = |steps: Steps| (steps.with_larger_batches() * 1_000.0).round() as i64;
        // One doubling, two, none.
        assert_eq!(saved(steps(true, 0.55)), 250);
        assert_eq!(saved(steps(true, 0.38)), 375);
        assert_eq!(saved(steps(true, 0.60)), 0);
        assert_eq!(saved(steps(false, 0.30)), 0);
        let checkpointed = steps(true, 0.9).with_checkpointing();
        assert!((checkpointed - (1.0 - 0.25 - 2.0 / 3.0)).abs() < 1e-9, "{checkpointed}");
    }
}
