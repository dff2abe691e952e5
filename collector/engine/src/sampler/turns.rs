//! GPUs take turns on one thread at each tick; if a turn does not end, another thread goes on with the
//! others.
//!
//! A wake-up costs more than the calls of a GPU, so one thread leads through the round of all GPUs. A
//! second stands by: it looks once per tick whether the round has ended in time. If not, a call to the
//! driver blocks the leader, and the second leads from then on, without the GPU whose turn goes on. The
//! thread that was blocked then stands by, or is idle until it is needed. So there are two threads more
//! than blocked GPUs at most.

use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use phasemeter_meter::units::Nanos;
use phasemeter_sources::clock::Clock;

use super::ticker::Ticker;

/// How long a thread may lead through a round before another one does: longer than the usual calls of eight GPUs, and
/// a fraction of a tick.
pub(super) const PATIENCE: Nanos = Nanos::from_millis(5);

/// How long an idle thread sleeps at a time. It is unparked when it is needed.
const IDLE: Nanos = Nanos::from_secs(3_600);

/// What is polled at each turn of a GPU. It is ready once sampling was stopped.
pub(super) type Sampling = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The turns of all GPUs.
#[derive(Debug)]
pub(super) struct Turns {
    clock: Clock,
    stop: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    ticker: Ticker,
    gpus: Vec<Gpu>,
    /// The GPUs of this round whose turn is still to come, the next one last.
    left: Vec<usize>,
    /// When the round was due, or another thread took the lead.
    since: Nanos,
    /// Whether the leader has not come to the end of the round.
    is_open: bool,
    /// Each is the number of a thread.
    leader: Option<usize>,
    standby: Option<usize>,
    idle: Vec<usize>,
    threads: Vec<Thread>,
}

struct Gpu {
    turn: Turn,
    /// How long its last turn took.
    lasted: Nanos,
}

enum Turn {
    /// It waits for the next one.
    Waits(Sampling),
    /// A thread polls it.
    Taken,
    /// Sampling has ended.
    Over,
}

/// What a thread does next.
enum Step {
    Poll(usize, Sampling),
    Wait(Nanos),
    /// Leads from now on.
    Lead,
    End,
}

impl Turns {
    /// Turns at the ticks of `ticker`, until `stop` is set and [`Turns::wake`] called.
    pub(super) fn new(ticker: Ticker, clock: Clock, stop: Arc<AtomicBool>) -> Self {
        let state = State {
            ticker,
            gpus: Vec::new(),
            left: Vec::new(),
            since: Nanos::ZERO,
            is_open: false,
            leader: None,
            standby: None,
            idle: Vec::new(),
            threads: Vec::new(),
        };
        Self { clock, stop, state: Mutex::new(state) }
    }

    /// Adds a GPU, which has its first turn at the next tick.
    pub(super) fn add(&self, sampling: Sampling) {
        let turn = Turn::Waits(sampling);
        self.lock().gpus.push(Gpu { turn, lasted: Nanos::ZERO });
    }

    /// Starts the threads that are missing. Without one to stand by, a GPU that blocks delays the others
    /// until there is one.
    ///
    /// # Errors
    /// Returns an error if no thread leads and none can start.
    pub(super) fn start_threads(self: &Arc<Self>) -> io::Result<()> {
        let mut state = self.lock();
        if state.leader.is_none() {
            state.leader = Some(self.start_thread(&mut state)?);
        }
        let sampled = state.gpus.iter().filter(|gpu| !matches!(gpu.turn, Turn::Over)).count();
        if state.standby.is_none() && sampled > 1 {
            state.standby = match state.idle.pop() {
                Some(number) => {
                    state.threads.get(number).inspect(|thread| thread.unpark());
                    Some(number)
                }
                None => self.start_thread(&mut state).ok(),
            };
        }
        Ok(())
    }

    fn start_thread(self: &Arc<Self>, state: &mut State) -> io::Result<usize> {
        let (turns, number) = (Arc::clone(self), state.threads.len());
        let thread = thread::Builder::new().name("sampler".to_owned());
        let handle = thread.spawn(move || turns.serve(number))?;
        state.threads.push(handle.thread().clone());
        Ok(number)
    }

    /// Leads on this thread until sampling was stopped.
    #[cfg(test)]
    pub(super) fn lead(self: &Arc<Self>) {
        let number = {
            let mut state = self.lock();
            state.threads.push(thread::current());
            let number = state.threads.len() - 1;
            state.leader = Some(number);
            number
        };
        self.serve(number);
    }

    /// Unparks all threads, so that they notice the end.
    pub(super) fn wake(&self) {
        self.lock().threads.iter().for_each(Thread::unpark);
    }

    /// The GPUs whose sampling has begun and not ended.
    pub(super) fn unfinished(&self) -> Vec<usize> {
        let state = self.lock();
        if state.leader.is_none() {
            return Vec::new();
        }
        let gpus = state.gpus.iter().enumerate();
        gpus.filter(|(_, gpu)| !matches!(gpu.turn, Turn::Over)).map(|(place, _)| place).collect()
    }

    fn serve(self: &Arc<Self>, number: usize) {
        loop {
            match self.next(number) {
                Step::Poll(gpu, mut sampling) => {
                    let began = self.clock.awake();
                    let mut context = Context::from_waker(Waker::noop());
                    let is_over = sampling.as_mut().poll(&mut context).is_ready();
                    let lasted = self.clock.awake() - began;
                    let turn = if is_over { Turn::Over } else { Turn::Waits(sampling) };
                    self.lock().end_turn(gpu, Gpu { turn, lasted });
                }
                Step::Wait(time) => self.clock.wait(Duration::from_nanos(time.0)),
                // Another one is to stand by. If none can start, the next drain tries again.
                Step::Lead => _ = self.start_threads(),
                Step::End => return,
            }
        }
    }

    fn next(&self, number: usize) -> Step {
        let (now, is_stopped) = (self.clock.awake(), self.is_stopped());
        let mut state = self.lock();
        if state.leader == Some(number) {
            return state.lead(now, is_stopped);
        }
        // Another thread may have taken the lead at any time since the last step.
        state.idle.retain(|idle| *idle != number);
        if *state.standby.get_or_insert(number) == number {
            return state.stand_by(number, now, is_stopped);
        }
        if is_stopped {
            return Step::End;
        }
        state.idle.push(number);
        Step::Wait(IDLE)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn lead(&mut self, now: Nanos, is_stopped: bool) -> Step {
        if self.left.is_empty() {
            let due = if is_stopped {
                Ok(now)
            } else {
                self.ticker.tick_at(now).map(|tick| now - tick.late)
            };
            match due {
                Ok(due) => self.begin(due),
                Err(early) => {
                    self.is_open = false;
                    return Step::Wait(early);
                }
            }
        }
        while let Some(place) = self.left.pop() {
            if let Some(gpu) = self.gpus.get_mut(place)
                && let Turn::Waits(sampling) = std::mem::replace(&mut gpu.turn, Turn::Taken)
            {
                return Step::Poll(place, sampling);
            }
        }
        self.is_open = false;
        if is_stopped { Step::End } else { Step::Wait(Nanos::ZERO) }
    }

    /// Begins a round of all GPUs that wait for it. Those whose last turn was long come last, so that they
    /// delay no other.
    fn begin(&mut self, due: Nanos) {
        (self.since, self.is_open) = (due, true);
        let waits = |place: &usize| {
            self.gpus.get(*place).is_some_and(|gpu| matches!(gpu.turn, Turn::Waits(_)))
        };
        self.left.extend((0..self.gpus.len()).rev().filter(waits));
        let patience = |place: &usize| {
            let lasted = self.gpus.get(*place).map_or(Nanos::ZERO, |gpu| gpu.lasted);
            std::cmp::Reverse(lasted.0 / PATIENCE.0)
        };
        self.left.sort_by_key(patience);
    }

    fn stand_by(&mut self, number: usize, now: Nanos, is_stopped: bool) -> Step {
        // At the end, also for a GPU whose turn has ended after the leader's last round.
        let overdue = if self.is_open {
            self.since + PATIENCE
        } else if !is_stopped {
            // Or a little later, if the leader is late itself.
            return Step::Wait((self.ticker.next_due() - now) + PATIENCE);
        } else if self.gpus.iter().any(|gpu| matches!(gpu.turn, Turn::Waits(_))) {
            now
        } else {
            self.standby = None;
            return Step::End;
        };
        if now < overdue {
            return Step::Wait(overdue - now);
        }
        (self.leader, self.standby, self.since) = (Some(number), None, now);
        Step::Lead
    }

    fn end_turn(&mut self, gpu: usize, after: Gpu) {
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            *gpu = after;
        }
    }
}

/// Without what is polled.
impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let turn = match self.turn {
            Turn::Waits(_) => "waits",
            Turn::Taken => "taken",
            Turn::Over => "over",
        };
        write!(f, "{turn}, {:?}", self.lasted)
    }
}

#[cfg(test)]
mod tests;
