//! Wake-up lateness of idle threads on this machine, at the sampler's rate: the baseline for its tick
//! lateness.

use std::thread;
use std::time::{Duration, Instant};

/// The sampling interval.
const PERIOD: Duration = Duration::from_millis(100);

/// Wake-up lateness.
#[derive(Default)]
pub(super) struct IdleBaseline {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
}

/// Measures for `time` on this many threads, staggered within a period.
pub(super) fn measure(threads: u32, time: Duration) -> IdleBaseline {
    let start = Instant::now();
    let mut late: Vec<Duration> = thread::scope(|scope| {
        let sleeper = |thread| move || lateness(start + PERIOD / threads * thread, time);
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(sleeper(thread))).collect();
        all.into_iter().filter_map(|it| it.join().ok()).flatten().collect()
    });
    late.sort_unstable();
    let at = |percent: usize| late.get(late.len() * percent / 100).or(late.last());
    let at = |percent| at(percent).copied().unwrap_or_default();
    IdleBaseline { p50: at(50), p99: at(99), max: at(100) }
}

/// Lateness of each wake-up of one thread.
fn lateness(start: Instant, time: Duration) -> Vec<Duration> {
    let deadlines = (0_u32..).map(|tick| start + PERIOD * tick);
    let deadlines = deadlines.take_while(|deadline| *deadline < start + time);
    let wake = |deadline: Instant| {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        deadline.elapsed()
    };
    deadlines.map(wake).collect()
}
