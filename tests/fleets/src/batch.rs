//! Batch work: jobs with gaps between them, jobs of the night, and jobs that wait for input.

use crate::assumptions as assume;
use crate::draft::{Draft, Generated};
use crate::input::Input;
use crate::prng::Prng;
use crate::trace::{Trace, Work, quiet_together};

/// Batch work.
#[derive(Clone, Debug)]
pub(crate) enum Batch {
    /// Share of the log that a queue without gaps no longer takes.
    Gaps(f64),
    /// At the same hours every day.
    Nightly,
    Input(Input),
    /// At full load all the time.
    Full,
}

impl Batch {
    pub(crate) fn generate(draft: Draft) -> Generated<Self> {
        let Draft { offer, mut prng, mut noise } = draft;
        let memory = offer.model.memory_gib * prng.within((0.2, 0.9));
        let shape = prng.weighted(&[0.4, 0.2, 0.2, 0.2]);
        let interval = [5.0, 60.0, 1.0, 5.0].get(shape).copied().unwrap_or(5.0);
        let hours = [(8.0, 24.0), (48.0, 120.0), (1.0, 3.0), (3.0, 12.0)];
        let hours = prng.within(hours.get(shape).copied().unwrap_or((3.0, 12.0)));
        let count = (hours * 3_600.0 / interval) as usize;
        let busy = Work::Steady(0.85, 0.99);
        let input = Input::draw(&mut prng);
        let gaps = (prng.within((600.0, 2_400.0)), prng.within((120.0, 1_500.0)));
        let nightly = (prng.within((0.0, 20.0)), prng.within((1.5, 10.0)));
        let mut traces = Vec::new();
        for _ in 0..offer.gpus {
            let mut trace = Trace::default();
            match shape {
                0 => jobs(&mut trace, count, gaps, memory, &mut prng, &mut noise),
                1 => days(&mut trace, count, nightly, memory, &mut noise),
                2 => trace.extend(count, interval, input.work(), memory, &mut noise),
                _ => trace.extend(count, interval, busy, memory, &mut noise),
            }
            traces.push(trace);
        }
        let job = match shape {
            0 => Self::Gaps(queued(&traces, interval, &mut prng)),
            1 => Self::Nightly,
            2 => Self::Input(input),
            _ => Self::Full,
        };
        Generated { interval, traces, job }
    }
}

/// Jobs of about this length, with gaps of about this length, in seconds.
fn jobs(
    trace: &mut Trace,
    count: usize,
    (job, gap): (f64, f64),
    memory: f64,
    prng: &mut Prng,
    noise: &mut Prng,
) {
    let until = |trace: &Trace, seconds: f64| (trace.0.len() + (seconds / 5.0) as usize).min(count);
    while trace.0.len() < count {
        let end = until(trace, job * prng.within((0.5, 1.5)));
        trace.extend(end, 5.0, Work::Steady(0.85, 0.99), memory, noise);
        let end = until(trace, gap * prng.within((0.4, 1.6)));
        trace.extend(end, 5.0, Work::Nothing, 0.0, noise);
    }
}

/// One job a day from this hour on, for so many hours.
fn days(trace: &mut Trace, count: usize, (from, hours): (f64, f64), memory: f64, noise: &mut Prng) {
    let at = |day: usize, hour: f64| (((day * 24) as f64 + hour) * 60.0) as usize;
    for day in 0.. {
        trace.extend(at(day, from).min(count), 60.0, Work::Nothing, 0.0, noise);
        let end = at(day, (from + hours).min(24.0)).min(count);
        trace.extend(end, 60.0, Work::Steady(0.85, 0.99), memory, noise);
        if trace.0.len() >= count {
            return;
        }
    }
}

/// Share of the log that is saved if each job starts soon after the one before it.
fn queued(traces: &[Trace], interval: f64, prng: &mut Prng) -> f64 {
    if !prng.chance(assume::COULD_QUEUE) {
        return 0.0;
    }
    let next = prng.within(assume::NEXT_JOB);
    let of = |trace: &Trace| {
        let gaps = quiet_together(&[trace]).into_iter();
        let saved = gaps.map(|gap| ((gap.end - gap.start) as f64 * interval - next).max(0.0));
        saved.sum::<f64>() / (trace.0.len() as f64 * interval)
    };
    traces.iter().map(of).sum::<f64>() / traces.len().max(1) as f64
}
