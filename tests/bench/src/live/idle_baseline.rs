//! What this machine itself does to punctuality: a thread that only waits, as often as the sampler's.

use std::thread;
use std::time::{Duration, Instant};

/// As long as a tick.
const PERIOD: Duration = Duration::from_millis(100);

/// How late it woke: half of the times at most `p50`, 99 of 100 at most `p99`.
#[derive(Default)]
pub(super) struct Waited {
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    pub(super) max: Duration,
}

/// Waits for so long, on as many threads at a time, which take turns within a period.
pub(super) fn wait(threads: u32, time: Duration) -> Waited {
    let start = Instant::now();
    let mut late: Vec<Duration> = thread::scope(|scope| {
        let waits = |turn| move || lateness(start + PERIOD / threads * turn, time);
        let all: Vec<_> = (0..threads).map(|turn| scope.spawn(waits(turn))).collect();
        all.into_iter().filter_map(|it| it.join().ok()).flatten().collect()
    });
    late.sort_unstable();
    let at = |percent: usize| late.get(late.len() * percent / 100).or(late.last());
    let at = |percent| at(percent).copied().unwrap_or_default();
    Waited { p50: at(50), p99: at(99), max: at(100) }
}

/// How late each wake-up of one thread came.
fn lateness(start: Instant, time: Duration) -> Vec<Duration> {
    let deadlines = (0_u32..).map(|tick| start + PERIOD * tick);
    let deadlines = deadlines.take_while(|deadline| *deadline < start + time);
    let wake = |deadline: Instant| {
        thread::sleep(deadline.saturating_duration_since(Instant::now()));
        deadline.elapsed()
    };
    deadlines.map(wake).collect()
}
