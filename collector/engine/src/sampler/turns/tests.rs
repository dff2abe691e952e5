//! Threads that block take no other GPU with them, and none is lost.

use std::future::poll_fn;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::Poll;
use std::time::Instant;

use super::*;

const TICK: Nanos = Nanos::from_millis(20);
const TIMEOUT: Duration = Duration::from_secs(60);

/// GPUs that count their turns, and block in one until it is released.
struct Rig {
    turns: Arc<Turns>,
    stop: Arc<AtomicBool>,
    counts: Vec<Arc<AtomicU64>>,
}

impl Rig {
    /// With these GPUs, of which each blocks in its third turn if it is given a release.
    fn start(blocked: Vec<Option<Receiver<()>>>) -> Self {
        let (clock, stop) = (Clock::start(), Arc::new(AtomicBool::new(false)));
        let ticker = Ticker::new(clock.awake(), TICK);
        let turns = Arc::new(Turns::new(ticker, clock, Arc::clone(&stop)));
        let counts: Vec<_> = blocked.iter().map(|_| Arc::new(AtomicU64::new(0))).collect();
        for (release, count) in blocked.into_iter().zip(&counts) {
            let (count, stop) = (Arc::clone(count), Arc::clone(&stop));
            turns.add(Box::pin(poll_fn(move |_| {
                let before = count.fetch_add(1, Ordering::Relaxed);
                if let (2, Some(release)) = (before, &release) {
                    release.recv().unwrap();
                }
                if stop.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
            })));
        }
        turns.start_threads().unwrap();
        Self { turns, stop, counts }
    }

    fn count(&self, gpu: usize) -> u64 {
        self.counts[gpu].load(Ordering::Relaxed)
    }

    fn until(&self, condition: impl Fn() -> bool) {
        let began = Instant::now();
        while !condition() {
            assert!(began.elapsed() < TIMEOUT, "{:?}", self.turns);
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.turns.wake();
    }
}

fn blocked<const N: usize>() -> (Vec<Sender<()>>, [Option<Receiver<()>>; N]) {
    let (releases, blocked): (Vec<_>, Vec<_>) = (0..N).map(|_| mpsc::channel()).unzip();
    (releases, <[_; N]>::try_from(blocked).unwrap().map(Some))
}

#[test]
fn blocked_gpus_delay_no_other_and_go_on_when_released() {
    let (releases, [first, second, third]) = blocked();
    let rig = Rig::start(vec![first, None, second, None, third]);
    rig.until(|| [0, 2, 4].iter().all(|gpu| rig.count(*gpu) == 3));
    let before = rig.count(1).max(rig.count(3));
    rig.until(|| rig.count(1) >= before + 20 && rig.count(3) >= before + 20);
    assert_eq!([0, 2, 4].map(|gpu| rig.count(gpu)), [3; 3], "their turns have not ended");
    assert!(rig.turns.lock().threads.len() <= 5, "{:?}", rig.turns);
    releases.iter().for_each(|release| release.send(()).unwrap());
    rig.until(|| (0..5).all(|gpu| rig.count(gpu) >= 10));
    rig.stop();
    rig.until(|| rig.turns.unfinished().is_empty());
}

/// Guarantee: the other GPUs have their last turn, and the one that is blocked is named, until it ends.
#[test]
fn end_does_not_wait_for_a_blocked_gpu() {
    let (releases, [first, second]) = blocked();
    let rig = Rig::start(vec![None, first, None, second]);
    rig.until(|| rig.count(1) == 3 && rig.count(3) == 3);
    rig.stop();
    rig.until(|| rig.turns.unfinished() == [1, 3]);
    releases.iter().for_each(|release| release.send(()).unwrap());
    rig.until(|| rig.turns.unfinished().is_empty());
}

/// Scenario: the system takes the processor from the leader between two turns for long.
#[test]
fn leader_that_is_replaced_between_turns_stands_by() {
    let turns = Turns::new(Ticker::new(Nanos::ZERO, TICK), Clock::start(), Arc::default());
    turns.add(Box::pin(async {}));
    {
        let mut state = turns.lock();
        (state.leader, state.standby) = (Some(0), Some(1));
    }
    let Step::Poll(0, sampling) = turns.next(0) else { panic!("{turns:?}") };
    turns.lock().end_turn(0, Gpu { turn: Turn::Waits(sampling), lasted: Nanos::ZERO });
    thread::sleep(Duration::from_nanos(PATIENCE.0 + 1));
    assert!(matches!(turns.next(1), Step::Lead));
    assert!(matches!(turns.next(0), Step::Wait(_)));
    let roles = |state: &State| (state.leader, state.standby);
    assert_eq!(roles(&turns.lock()), (Some(1), Some(0)));
    // One more is idle until it is needed.
    assert!(matches!(turns.next(2), Step::Wait(_)));
    assert_eq!(turns.lock().idle, [2]);
}

#[test]
fn gpu_whose_turn_was_long_comes_last() {
    let turns = Turns::new(Ticker::new(Nanos::ZERO, TICK), Clock::start(), Arc::default());
    (0..4).for_each(|_| turns.add(Box::pin(async {})));
    let mut state = turns.lock();
    state.gpus[1].lasted = PATIENCE;
    state.gpus[2].turn = Turn::Taken;
    state.begin(Nanos::ZERO);
    let order = std::iter::from_fn(|| state.left.pop());
    assert_eq!(order.collect::<Vec<_>>(), [0, 3, 1]);
}
