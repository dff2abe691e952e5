//! Replays traces with instances that are stopped, filled with other work, or shared.
//!
//! All results are shares of the bill of the GPUs, in their order.

use crate::assumptions as assume;
use crate::fleet::{Fleet, Job};
use crate::trace::{Run, Trace, quiet_together};

/// Hours of a day.
const DAY: usize = 24;

impl Fleet {
    /// The traces of an instance.
    fn instance(&self, instance: usize) -> Vec<&Trace> {
        self.gpus_of(instance).filter_map(|gpu| self.traces.get(gpu)).collect()
    }

    /// Calculates the share of the log saved on each instance whose GPUs are all among these.
    pub(crate) fn per_instance(
        &self,
        gpus: &[usize],
        saved: impl Fn(usize, &[&Trace]) -> f64,
    ) -> Vec<f64> {
        let each = (0..self.instances()).map(|instance| {
            let is_whole = self.gpus_of(instance).all(|gpu| gpus.contains(&gpu));
            let counts = is_whole && self.is_returnable();
            if counts { saved(instance, &self.instance(instance)) } else { 0.0 }
        });
        let each: Vec<f64> = each.collect();
        gpus.iter().map(|gpu| each.get(self.instance_of(*gpu)).copied().unwrap_or(0.0)).collect()
    }

    /// Seconds of a run of readings.
    fn length(&self, run: Run) -> f64 {
        (run.end - run.start) as f64 * self.interval
    }

    /// Whether an instance may be stopped in this run.
    fn may_stop(&self, run: Run, traces: &[&Trace]) -> bool {
        let sample = |trace: &&Trace| {
            let middle = usize::midpoint(run.start, run.end);
            trace.0.get(middle).is_some_and(|sample| sample.is_held())
        };
        let is_held = traces.iter().any(sample);
        match &self.job {
            // It prepares its work.
            Job::Training(_) if is_held && run.start == 0 => false,
            Job::Service(service) if is_held => {
                let all_idle = traces.iter().all(|trace| trace.mean() == 0.0);
                if all_idle { !service.standby_stays } else { true }
            }
            _ => !is_held || self.luck.session_ended,
        }
    }

    /// Stops each instance this many seconds after its work, and starts it again with the next.
    pub(crate) fn released(&self, gpus: &[usize], after: f64) -> Vec<f64> {
        self.per_instance(gpus, |_, traces| {
            let end = traces.first().map_or(0, |trace| trace.0.len());
            let saved = quiet_together(traces).into_iter().map(|run| {
                if !self.may_stop(run, traces) {
                    return 0.0;
                }
                // An instance that is rented with its first job does not wait for it.
                let waits = if run.start == 0 && run.end < end { 0.0 } else { after };
                let starts = if run.end < end { self.luck.boot } else { 0.0 };
                (self.length(run) - waits - starts).max(0.0)
            });
            saved.sum::<f64>() / self.seconds()
        })
    }

    /// Stops each instance in the hours of the day in which it never worked, on working days and at
    /// weekends.
    pub(crate) fn scheduled(&self, gpus: &[usize]) -> Vec<f64> {
        let hour = ((3_600.0 / self.interval) as usize).max(1);
        self.per_instance(gpus, |_, traces| {
            let count = traces.first().map_or(0, |trace| trace.0.len());
            let is_quiet = |at: usize| {
                traces.iter().all(|trace| trace.0.get(at).is_none_or(|sample| sample.is_quiet()))
            };
            let hours = count.div_ceil(hour);
            let quiet: Vec<bool> = (0..hours)
                .map(|of_log| (of_log * hour..(of_log + 1) * hour).all(is_quiet))
                .collect();
            // Logs start on a Monday at midnight.
            let is_weekend = |of_log: usize| of_log / DAY % 7 > 4;
            let is_off = |of_log: usize| {
                let alike = (of_log % DAY..hours).step_by(DAY);
                let mut alike = alike.filter(|other| is_weekend(*other) == is_weekend(of_log));
                alike.all(|other| quiet.get(other) == Some(&true))
            };
            let may_stop = |of_log: usize| {
                let run = Run { start: of_log * hour, end: ((of_log + 1) * hour).min(count) };
                self.may_stop(run, traces)
            };
            let off: Vec<_> = (0..hours).map(|of_log| is_off(of_log) && may_stop(of_log)).collect();
            let starts = off.windows(2).filter(|pair| matches!(pair, [true, false])).count();
            let off = off.iter().filter(|off| **off).count() as f64 * hour as f64 * self.interval;
            let saved = (off - starts as f64 * self.luck.boot).max(0.0) / self.seconds();
            saved.min(1.0)
        })
    }

    /// Lets other work use each GPU while it is free for long enough.
    pub(crate) fn filled(&self, gpus: &[usize]) -> Vec<f64> {
        let of = |gpu: &usize| {
            let Some(trace) = self.traces.get(*gpu) else { return 0.0 };
            let free = quiet_together(&[trace]).into_iter().filter(|run| {
                self.length(*run) >= assume::MIN_PLACEMENT && self.may_stop(*run, &[trace])
            });
            let free: f64 = free.map(|run| self.length(run) - assume::RELEASE_AFTER).sum();
            self.luck.filled * free / self.seconds()
        };
        gpus.iter().map(of).collect()
    }

    /// Places up to `parts` tasks on each GPU, as far as memory and load allow. GPUs that are then free
    /// are given back, or used by other work. A single task shares with others.
    pub(crate) fn shared(&self, gpus: &[usize], parts: usize) -> Vec<f64> {
        let memory = assume::USABLE_MEMORY * self.offer.model.memory_gib;
        let alone = self.offer.gpus == 1 && self.is_returnable();
        if !self.luck.agrees_to_share || parts < 2 {
            return vec![0.0; gpus.len()];
        }
        let mut groups: Vec<(usize, f64, f64)> = Vec::new();
        let mut own = 0.0_f64;
        for gpu in gpus {
            let Some(trace) = self.traces.get(*gpu) else { continue };
            let (used, load) = (trace.peak_memory(), trace.mean());
            own = own.max((used / memory).max(load / assume::SHARED_LOAD));
            let fits = |group: &&mut (usize, f64, f64)| {
                group.0 < parts && group.1 + used <= memory && group.2 + load <= assume::SHARED_LOAD
            };
            match groups.iter_mut().find(fits) {
                Some(group) => *group = (group.0 + 1, group.1 + used, group.2 + load),
                None => groups.push((1, used, load)),
            }
        }
        let freed = 1.0 - groups.len() as f64 / gpus.len().max(1) as f64;
        let value = if alone { 1.0 } else { self.luck.filled };
        let others = if gpus.len() == 1 { self.luck.filled * (1.0 - own).max(0.0) } else { 0.0 };
        vec![(freed * value).max(others); gpus.len()]
    }
}
