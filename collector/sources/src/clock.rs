//! The clocks of a live run.
//!
//! The time of a run starts at the wall time and continues by the clock that counts since boot, also
//! while the machine is suspended: setting the wall clock changes no length. A watch compares the
//! clocks, and tells a step of the wall clock from a suspension.

use std::fmt;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use phasemeter_meter::units::{Nanos, Timestamp};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Minimum difference that counts as a step or a suspension. NTP daemons slew smaller ones, which
/// affects all clocks alike.
const MIN_CHANGE: Nanos = Nanos::from_millis(500);

/// Maximum time between reading the clocks for a valid comparison; otherwise the thread was delayed in
/// between.
const MAX_READ_GAP: Nanos = Nanos::from_millis(10);

/// The clocks at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// Time since boot, including suspension.
    pub boot: Nanos,
    /// Time since boot without suspension.
    pub awake: Nanos,
    /// The wall clock, clamped to 1970–2261.
    pub wall: Timestamp,
    /// How far apart the clocks were read.
    pub gap: Nanos,
}

/// Clocks, and how to wait by them.
#[derive(Clone, Copy, Debug)]
pub enum TimeSource {
    /// The clocks of this machine.
    System,
    /// The clocks of a simulation.
    Simulated {
        /// Reads the clocks.
        read: fn() -> ClockReading,
        /// Waits for this long.
        wait: fn(Duration),
    },
}

impl TimeSource {
    fn read(self) -> ClockReading {
        match self {
            Self::System => read_system(),
            Self::Simulated { read, .. } => read(),
        }
    }

    fn boot(self) -> Nanos {
        match self {
            Self::System => read_clock(BOOT),
            Self::Simulated { read, .. } => read().boot,
        }
    }

    fn awake(self) -> Nanos {
        match self {
            Self::System => read_clock(ClockId::Monotonic),
            Self::Simulated { read, .. } => read().awake,
        }
    }

    fn wait(self, duration: Duration) {
        match self {
            Self::System => thread::park_timeout(duration),
            Self::Simulated { wait, .. } => wait(duration),
        }
    }
}

/// The time of a run. It never runs backwards and never steps.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    source: TimeSource,
    /// The clocks at the start.
    start: ClockReading,
}

impl Clock {
    /// Starts the time of a run now.
    #[must_use]
    pub fn start() -> Self {
        Self::starting(TimeSource::System)
    }

    /// Starts the time of a run by these clocks.
    #[must_use]
    pub fn starting(source: TimeSource) -> Self {
        Self { source, start: source.read() }
    }

    /// Continues the time of a run that began at this time since the same boot, with this wall time.
    #[must_use]
    pub fn continuing(boot: Nanos, wall: Timestamp) -> Self {
        let source = TimeSource::System;
        Self { source, start: ClockReading { boot, wall, ..source.read() } }
    }

    /// The same time, by these clocks.
    #[must_use]
    pub const fn by(self, source: TimeSource) -> Self {
        Self { source, ..self }
    }

    /// Time since boot, and wall time, at its start.
    #[must_use]
    pub const fn origin(&self) -> (Nanos, Timestamp) {
        (self.start.boot, self.start.wall)
    }

    /// The time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(self.source.boot())
    }

    /// The time now, and the clocks.
    #[must_use]
    pub fn read(&self) -> (Timestamp, ClockReading) {
        let reading = self.source.read();
        (self.at(reading.boot), reading)
    }

    /// Time since boot at an instant of the run.
    #[must_use]
    pub fn boot_at(&self, at: Timestamp) -> Nanos {
        self.start.boot + at.since(self.start.wall) - self.start.wall.since(at)
    }

    /// The instant of the run at this time since boot, also before its start.
    #[must_use]
    pub fn at_boot(&self, boot: Nanos) -> Timestamp {
        self.at(boot).saturating_sub(self.start.boot - boot)
    }

    /// Time since boot without suspension, for deadlines.
    #[must_use]
    pub fn awake(&self) -> Nanos {
        self.source.awake()
    }

    /// Waits for this long, or until the thread is unparked.
    pub fn wait(&self, duration: Duration) {
        self.source.wait(duration);
    }

    /// Watches for changes since the start.
    #[must_use]
    pub const fn watch(self) -> ClockWatch {
        ClockWatch { clock: self, last: self.start }
    }

    /// Watches for changes from now on, and for steps since the wall time of the run was this one.
    #[must_use]
    pub fn watch_from(self, wall: impl FnOnce(Timestamp) -> Timestamp) -> ClockWatch {
        let (now, reading) = self.read();
        ClockWatch { clock: self, last: ClockReading { wall: wall(now), ..reading } }
    }

    fn at(&self, boot: Nanos) -> Timestamp {
        self.start.wall + (boot - self.start.boot)
    }
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "full", derive(serde::Serialize, serde::Deserialize))]
pub struct Step {
    /// When it was noticed, in the time of the run.
    pub at: Timestamp,
    /// The wall time then, without the step.
    pub before: Timestamp,
    /// The wall time then. Earlier than `before` if the clock was set back.
    pub after: Timestamp,
}

impl Step {
    /// Seconds by which the clock was set forward; negative if it was set back.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.after.since(self.before).as_secs_f64() - self.before.since(self.after).as_secs_f64()
    }
}

/// For logs and reports.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.after < self.before { "back" } else { "forward" };
        write!(f, "system clock set {way} by {:.1} s", self.seconds().abs())
    }
}

/// Changes of the clocks since they were last compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockChange {
    /// The wall clock was set.
    pub step: Option<Step>,
    /// The machine was suspended for this long.
    pub suspended: Option<Nanos>,
}

/// Compares the clocks with each other.
#[derive(Clone, Copy, Debug)]
pub struct ClockWatch {
    clock: Clock,
    /// The clocks at the start, and after each change.
    last: ClockReading,
}

impl ClockWatch {
    /// The changes since the last call. A slow slew of the wall clock adds up to a step.
    pub fn check(&mut self) -> ClockChange {
        let now = self.clock.source.read();
        if now.gap > MAX_READ_GAP {
            return ClockChange::default();
        }
        let last = &mut self.last;
        let elapsed = now.boot - last.boot;
        let suspended = elapsed - (now.awake - last.awake);
        let suspended = (suspended >= MIN_CHANGE).then_some(suspended);
        let before = last.wall + elapsed;
        let is_step = now.wall.since(before).max(before.since(now.wall)) >= MIN_CHANGE;
        let at = self.clock.at(now.boot);
        let step = is_step.then_some(Step { at, before, after: now.wall });
        if suspended.is_some() || step.is_some() {
            let wall = if is_step { now.wall } else { before };
            *last = ClockReading { wall, ..now };
        }
        ClockChange { step, suspended }
    }
}

/// By how much a time that others state may be ahead of the wall clock of this machine: clocks differ.
pub const MAX_AHEAD: Nanos = Nanos::from_secs(300);

/// The wall clock of this machine, clamped to 1970–2261.
#[must_use]
pub fn wall_time() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map(Nanos::from).unwrap_or_default();
    Timestamp::from_nanos(since.0).unwrap_or(Timestamp::LAST)
}

fn read_system() -> ClockReading {
    let boot = read_clock(BOOT);
    let wall = wall_time();
    let awake = read_clock(ClockId::Monotonic);
    ClockReading { boot, awake, wall, gap: read_clock(BOOT) - boot }
}

/// The clock that counts during suspension, where the system has one.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOT: ClockId = ClockId::Boottime;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOT: ClockId = ClockId::Monotonic;

/// A clock that counts from boot is never negative.
fn read_clock(clock: ClockId) -> Nanos {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    let seconds = Nanos::from_secs(u64::try_from(tv_sec).unwrap_or_default());
    seconds + Nanos(u64::try_from(tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static NOW: Cell<ClockReading> = const {
            Cell::new(ClockReading {
                boot: Nanos::from_secs(1_000),
                awake: Nanos::from_secs(900),
                wall: Timestamp::EPOCH,
                gap: Nanos::ZERO,
            })
        };
    }

    const SIMULATED: TimeSource = TimeSource::Simulated { read: || NOW.get(), wait: |_| () };

    /// Time passes, and the wall clock and the time awake advance by as much plus these milliseconds.
    fn pass(millis: u64, step_millis: i64, suspended_millis: u64) {
        let now = NOW.get();
        let wall = now.wall.as_nanos() / 1_000_000 + millis;
        NOW.set(ClockReading {
            boot: now.boot + Nanos::from_millis(millis),
            awake: now.awake + Nanos::from_millis(millis - suspended_millis),
            wall: Timestamp::from_millis(wall.strict_add_signed(step_millis)).unwrap(),
            gap: Nanos::ZERO,
        });
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn started() -> (Clock, ClockWatch) {
        pass(0, 1_767_225_600_000, 0);
        let clock = Clock::starting(SIMULATED);
        (clock, clock.watch())
    }

    const START: u64 = 1_767_225_600_000;

    #[test]
    fn time_of_run_ignores_wall_clock() {
        let (clock, mut watch) = started();
        assert_eq!(clock.now(), at(START));
        pass(60_000, 499, 0);
        assert_eq!((clock.now(), watch.check()), (at(START + 60_000), ClockChange::default()));
        pass(1_000, 3_600_000, 0);
        assert_eq!(clock.now(), at(START + 61_000));
        pass(1_000, -7_200_000, 0);
        assert_eq!(clock.now(), at(START + 62_000));
    }

    #[test]
    fn instants_and_times_since_boot_are_converted() {
        let (clock, _) = started();
        let boot = NOW.get().boot;
        for (millis, since) in [(5_000, boot + Nanos::from_secs(5)), (0, boot)] {
            assert_eq!(clock.boot_at(at(START + millis)), since);
            assert_eq!(clock.at_boot(since), at(START + millis));
        }
        let before = boot - Nanos::from_secs(7);
        assert_eq!(
            (clock.boot_at(at(START - 7_000)), clock.at_boot(before)),
            (before, at(START - 7_000))
        );
        assert_eq!(clock.boot_at(Timestamp::EPOCH), Nanos::ZERO, "before boot");
    }

    #[test]
    fn step_is_reported_once_with_both_times() {
        let (_, mut watch) = started();
        pass(60_000, -10_000, 0);
        let change = watch.check();
        let step = change.step.unwrap();
        let now = at(START + 60_000);
        assert_eq!(step, Step { at: now, before: now, after: at(START + 50_000) });
        assert_eq!(step.to_string(), "system clock set back by 10.0 s");
        assert_eq!((step.seconds(), change.suspended), (-10.0, None));
        pass(1_000, 0, 0);
        assert_eq!(watch.check(), ClockChange::default());
        pass(1_000, 3_600_000, 0);
        let step = watch.check().step.unwrap();
        assert_eq!((step.at, step.before), (at(START + 62_000), at(START + 52_000)));
        assert_eq!(step.to_string(), "system clock set forward by 3600.0 s");
    }

    #[test]
    fn slew_adds_up_to_a_step() {
        let (_, mut watch) = started();
        pass(1_000, 300, 0);
        assert_eq!(watch.check(), ClockChange::default());
        pass(1_000, 300, 0);
        assert_eq!(watch.check().step.map(|step| step.seconds()), Some(0.6));
    }

    #[test]
    fn suspension_is_not_a_step() {
        let (clock, mut watch) = started();
        pass(600_000, 0, 590_000);
        let suspended = Some(Nanos::from_secs(590));
        assert_eq!(watch.check(), ClockChange { step: None, suspended });
        assert_eq!(watch.check(), ClockChange::default());
        assert_eq!(clock.now(), at(START + 600_000));
        // The clock may be set during it.
        pass(60_000, 3_000, 50_000);
        let change = watch.check();
        assert_eq!(change.step.map(|step| step.seconds()), Some(3.0));
        assert_eq!(change.suspended, Some(Nanos::from_secs(50)));
    }

    #[test]
    fn delayed_reading_of_clocks_is_not_compared() {
        let (_, mut watch) = started();
        pass(1_000, 3_000, 0);
        NOW.set(ClockReading { gap: Nanos::from_millis(11), ..NOW.get() });
        assert_eq!(watch.check(), ClockChange::default());
        NOW.set(ClockReading { gap: Nanos::ZERO, ..NOW.get() });
        assert!(watch.check().step.is_some());
    }

    #[test]
    fn clocks_of_the_system_advance() {
        let clock = Clock::start();
        let mut watch = clock.watch();
        let (start, awake) = (clock.now(), clock.awake());
        clock.wait(Duration::from_millis(5));
        assert!(clock.now() > start && clock.awake() > awake);
        assert_eq!(watch.check().suspended, None);
    }
}
