//! What a GPU did, reading by reading.

use crate::prng::Prng;

/// Utilization below which a GPU does nothing.
const QUIET: f64 = 0.01;

/// Memory in GiB from which a process holds a GPU.
const HELD: f64 = 0.3;

/// One GPU at the instant of a reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// 0–1.
    pub(crate) load: f64,
    pub(crate) memory_gib: f64,
    /// Whether a kernel runs that computes nothing.
    pub(crate) hangs: bool,
}

/// One GPU over the whole log.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace(pub(crate) Vec<Sample>);

impl Sample {
    pub(crate) fn is_quiet(self) -> bool {
        self.load < QUIET
    }

    pub(crate) fn is_held(self) -> bool {
        self.memory_gib >= HELD
    }
}

/// What a GPU does for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Nothing,
    /// Load varies between these values.
    Steady(f64, f64),
    /// Busy at the start of each period, in seconds, for this share of it.
    Waves {
        period: f64,
        busy: f64,
    },
    /// Full utilization at low power.
    Hang,
}

impl Trace {
    /// Appends this work until `end`, an index; `interval` is between readings, in seconds.
    pub(crate) fn extend(
        &mut self,
        end: usize,
        interval: f64,
        work: Work,
        memory_gib: f64,
        noise: &mut Prng,
    ) {
        while self.0.len() < end {
            let at = self.0.len() as f64 * interval;
            let load = match work {
                Work::Nothing => 0.0,
                Work::Hang => 1.0,
                Work::Steady(low, high) => noise.within((low, high)),
                Work::Waves { period, busy } if (at / period).fract() < busy => {
                    noise.within((0.88, 0.99))
                }
                Work::Waves { .. } => noise.within((0.0, 0.03)),
            };
            let hangs = matches!(work, Work::Hang);
            self.0.push(Sample { load: load.clamp(0.0, 1.0), memory_gib, hangs });
        }
    }

    /// Mean load.
    pub(crate) fn mean(&self) -> f64 {
        self.0.iter().map(|sample| sample.load).sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The largest memory use.
    pub(crate) fn peak_memory(&self) -> f64 {
        self.0.iter().map(|sample| sample.memory_gib).fold(0.0, f64::max)
    }
}

/// A percentile, 0–1, of values; 0 if there are none.
pub(crate) fn percentile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let rank = (values.len() as f64 * share) as usize;
    values.get(rank.min(values.len().saturating_sub(1))).copied().unwrap_or(0.0)
}

/// A run of readings without work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: usize,
    /// Exclusive.
    pub(crate) end: usize,
}

/// The runs in which none of these GPUs works.
pub(crate) fn quiet_together(traces: &[&Trace]) -> Vec<Run> {
    let length = traces.iter().map(|trace| trace.0.len()).min().unwrap_or(0);
    let is_quiet = |at: usize| {
        traces.iter().all(|trace| trace.0.get(at).is_some_and(|sample| sample.is_quiet()))
    };
    let mut runs: Vec<Run> = Vec::new();
    for at in (0..length).filter(|at| is_quiet(*at)) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end = at + 1,
            _ => runs.push(Run { start: at, end: at + 1 }),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_runs_are_those_of_all_traces() {
        let mut noise = Prng::of(1, 1);
        let mut trace = |stages: &[(usize, Work)]| {
            let mut trace = Trace::default();
            for (end, work) in stages {
                trace.extend(*end, 1.0, *work, 1.0, &mut noise);
            }
            trace
        };
        let busy = Work::Steady(0.8, 0.9);
        let first = trace(&[(10, Work::Nothing), (20, busy), (40, Work::Nothing)]);
        let second = trace(&[(15, Work::Nothing), (25, busy), (40, Work::Nothing)]);
        let run = |start, end| Run { start, end };
        assert_eq!(quiet_together(&[&first]), [run(0, 10), run(20, 40)]);
        assert_eq!(quiet_together(&[&first, &second]), [run(0, 10), run(25, 40)]);
        let waves = trace(&[(100, Work::Waves { period: 10.0, busy: 0.4 })]);
        assert!((waves.mean() - 0.4).abs() < 0.05, "{}", waves.mean());
    }
}
