//! The epoch clock that evaluation deadlines are counted in, and the limit on concurrent
//! evaluations.
//!
//! At most [`MAX_CONCURRENT`] evaluations hold a permit. While any does, one thread advances the
//! engine's epoch; otherwise the thread sleeps, so an idle sidecar has no timer wake-ups. It starts with
//! the first evaluation; if the system refuses that, evaluations have less fuel and no deadline.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use wasmtime::{Engine, EngineWeak};

use crate::limits::TICK;

/// Concurrent evaluations. A sidecar evaluates one window at a time; a second permit is for the
/// trial of the next generation, the others for embedders with several threads.
pub(crate) const MAX_CONCURRENT: usize = 4;

/// Fuel of an evaluation without a deadline: the default limit, seconds at most, interpreted too.
const FUEL_WITHOUT_DEADLINE: u64 = 500_000_000;

/// Hands out evaluation permits and advances the epoch. Dropping it stops the thread.
#[derive(Debug, Default)]
pub(crate) struct EpochTicker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Evaluations that hold a permit.
    active: usize,
    /// Evaluations waiting for a permit.
    waiting: usize,
    /// When the thread started ticking; `None` while it sleeps.
    awake_since: Option<Instant>,
    /// Ticks since then.
    ticks: u64,
    has_thread: bool,
    closed: bool,
}

impl State {
    /// Ticks due by now. A sleep takes longer than requested; missed ticks are made up at once.
    fn due(&self) -> u64 {
        let elapsed = self.awake_since.map(|since| since.elapsed().as_nanos() / TICK.as_nanos());
        elapsed.map_or(self.ticks, |due| u64::try_from(due).unwrap_or(u64::MAX).max(self.ticks))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is a few counters, consistent between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpochTicker {
    /// Blocks until a permit is free. Dropping the permit releases it. Advances the epoch of this engine,
    /// which must be the same each time.
    pub(crate) fn acquire(&self, engine: &Engine) -> EvaluationPermit<'_> {
        let mut state = self.shared.lock();
        if !state.has_thread {
            let (shared, engine) = (Arc::clone(&self.shared), engine.weak());
            let thread = thread::Builder::new().name("policy-ticker".to_owned());
            state.has_thread = thread.spawn(move || tick(&shared, &engine)).is_ok();
        }
        while state.active == MAX_CONCURRENT {
            state.waiting += 1;
            state = self.shared.wait(state);
            state.waiting -= 1;
        }
        state.active += 1;
        if state.awake_since.is_none() {
            self.shared.changed.notify_all();
        }
        EvaluationPermit {
            shared: &self.shared,
            pending_ticks: state.due() - state.ticks,
            max_fuel: if state.has_thread { u64::MAX } else { FUEL_WITHOUT_DEADLINE },
        }
    }
}

impl Drop for EpochTicker {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

/// The right to run one evaluation.
pub(crate) struct EvaluationPermit<'a> {
    shared: &'a Shared,
    /// Ticks that were due before the permit was acquired and are still to be applied. They must
    /// not count against this evaluation's deadline.
    pub(crate) pending_ticks: u64,
    /// Fuel that it may have at most: less if no deadline ends it.
    pub(crate) max_fuel: u64,
}

impl Drop for EvaluationPermit<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.active -= 1;
        if state.waiting > 0 {
            self.shared.changed.notify_all();
        }
    }
}

fn tick(shared: &Shared, engine: &EngineWeak) {
    let mut state = shared.lock();
    loop {
        if state.active == 0 {
            (state.awake_since, state.ticks) = (None, 0);
        }
        while state.active == 0 && !state.closed {
            state = shared.wait(state);
        }
        if state.closed {
            return;
        }
        state.awake_since.get_or_insert_with(Instant::now);
        drop(state);
        thread::sleep(TICK);
        let Some(engine) = engine.upgrade() else { return };
        // The lock is held while the epoch advances, so `pending_ticks` of a new permit is exact.
        state = shared.lock();
        let due = state.due();
        for _ in state.ticks..due {
            engine.increment_epoch();
        }
        state.ticks = due;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// One whose thread never runs.
    fn without_thread() -> EpochTicker {
        let ticker = EpochTicker::default();
        ticker.shared.lock().has_thread = true;
        ticker
    }

    #[test]
    fn permit_excludes_ticks_missed_before_it() {
        let ticker = without_thread();
        let engine = Engine::default();
        assert_eq!(ticker.acquire(&engine).pending_ticks, 0, "the thread sleeps");
        let mut state = ticker.shared.lock();
        let awake_since = Instant::now().checked_sub(Duration::from_millis(50)).unwrap();
        state.awake_since = Some(awake_since);
        state.ticks = 10;
        drop(state);
        let pending = ticker.acquire(&engine).pending_ticks;
        assert!(pending >= 40, "50 ticks are due, and 10 were applied");
        // A tick is a millisecond.
        let due = awake_since.elapsed().as_millis();
        assert!(u128::from(pending) + 10 <= due, "{pending} of {due} ticks");
    }

    #[test]
    fn acquire_waits_for_a_permit() {
        let ticker = without_thread();
        let engine = Engine::default();
        let permits: Vec<_> = (0..MAX_CONCURRENT).map(|_| ticker.acquire(&engine)).collect();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(ticker.acquire(&engine)));
            while ticker.shared.lock().waiting == 0 {
                thread::yield_now();
            }
            assert!(!waiter.is_finished());
            drop(permits);
        });
        let state = ticker.shared.lock();
        assert_eq!((state.active, state.waiting), (0, 0));
    }

    #[test]
    fn thread_ticks_only_while_a_permit_is_held() {
        let engine = Engine::default();
        let ticker = EpochTicker::default();
        let shared = Arc::clone(&ticker.shared);
        let wait_until = |holds: &dyn Fn(&State) -> bool| {
            let start = Instant::now();
            while !holds(&shared.lock()) {
                assert!(start.elapsed() < Duration::from_secs(10), "{shared:?}");
                thread::sleep(TICK);
            }
        };
        let permit = ticker.acquire(&engine);
        wait_until(&|state| state.ticks > 2);
        drop(permit);
        wait_until(&|state| state.awake_since.is_none() && state.ticks == 0);
        drop(ticker);
        // The thread, which has the other reference, ends.
        wait_until(&|_| Arc::strong_count(&shared) == 1);
    }
}
