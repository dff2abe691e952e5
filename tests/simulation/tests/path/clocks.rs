//! The clocks of a machine, and the time of a run by them.

use std::cell::Cell;

use phasemeter_journal::BootClock;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::{Clock, ClockReading, TimeSource};
use tokio::time::Instant;

/// When a seed begins, in seconds since 1970.
const EPOCH: u64 = 1_785_110_395;

thread_local! {
    /// The instant of that.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// How far the wall clock was set forward since.
    static AHEAD: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
    /// When the machine was started last, since then.
    static BOOTED: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
}

/// A seed begins.
pub(crate) fn begin() {
    BEGAN.set(Some(Instant::now()));
    AHEAD.set(Nanos::ZERO);
}

/// The wall clock is set forward.
pub(crate) fn set_forward(seconds: u64) {
    AHEAD.set(AHEAD.get() + Nanos::from_secs(seconds));
}

/// The wall clock, in nanoseconds since 1970.
pub(crate) fn wall_nanos() -> u64 {
    wall().as_nanos()
}

fn wall() -> Timestamp {
    Timestamp::from_nanos(EPOCH * 1_000_000_000).unwrap() + elapsed() + AHEAD.get()
}

fn elapsed() -> Nanos {
    BEGAN.get().map(|began| began.elapsed().into()).unwrap_or_default()
}

/// The clocks of the machine.
pub(crate) const CLOCKS: TimeSource = TimeSource::Simulated { read, wait: |_| () };

fn read() -> ClockReading {
    let boot = elapsed() - BOOTED.get();
    ClockReading { boot, awake: boot, wall: wall(), gap: Nanos::ZERO }
}

/// The time of a run that begins now.
pub(crate) fn clock() -> Clock {
    Clock::starting(CLOCKS)
}

/// A boot of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot {
    number: u64,
    began: Nanos,
}

impl Boot {
    /// That with this number begins.
    pub(crate) fn begin(number: u64) -> Self {
        BOOTED.set(elapsed());
        Self { number, began: elapsed() }
    }

    /// The next one begins.
    pub(crate) fn next(self) -> Self {
        Self::begin(self.number + 1)
    }

    /// Its ID.
    pub(crate) fn id(self) -> Option<String> {
        Some(self.number.to_string())
    }

    /// The clock of a run that begins now.
    pub(crate) fn clock(self) -> BootClock {
        BootClock { boot_id: self.id(), boot: elapsed() - self.began, at: wall() }
    }

    /// The clocks now, of a run at this time.
    pub(crate) fn moment(self, at: Timestamp) -> Moment {
        Moment { at, boot: self, elapsed: elapsed(), wall: wall() }
    }
}

/// An instant of a run, and what the clocks showed then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) at: Timestamp,
    boot: Boot,
    elapsed: Nanos,
    wall: Timestamp,
}

impl Moment {
    /// The time of the run now: what has passed since, as this machine can know it. The wall clock alone goes on while it is
    /// off.
    pub(crate) fn now(&self, boot: Boot) -> Timestamp {
        let is_same_boot = self.boot.number == boot.number;
        self.at + if is_same_boot { elapsed() - self.elapsed } else { wall().since(self.wall) }
    }

    /// Which length a gap may have that ends here, where a run begins, after an instant of an earlier one of which these are
    /// moments: the shortest and the longest. In one boot they are the same. After a reboot wall time counts: if the clock was
    /// set since, its steps are in the gap or not, and wall time is kept in whole seconds from a step on.
    pub(crate) fn since(&self, at: Timestamp, moments: &[Self]) -> (i128, i128) {
        let nanos = |time: Nanos| i128::from(time.0);
        let wall = |time: Timestamp| i128::from(time.as_nanos());
        let after = |moment: &Self| wall(at) - wall(moment.at);
        let in_boot = moments.iter().filter(|it| it.boot.number == self.boot.number);
        for moment in in_boot {
            let elapsed = nanos(moment.elapsed) + after(moment);
            if elapsed > nanos(self.boot.began) {
                let length = nanos(self.elapsed) - elapsed;
                return (length, length);
            }
        }
        let ahead = |moment: &Self| wall(moment.wall) - nanos(moment.elapsed);
        let labels = moments.iter().flat_map(|moment| {
            let label = wall(moment.wall) + after(moment);
            [label, label + ahead(self) - ahead(moment)]
        });
        let labels: Vec<_> = labels.collect();
        let (first, last) = (labels.iter().min().unwrap(), labels.iter().max().unwrap());
        let rounding = if first == last { 0 } else { 1_000_000_000 };
        (wall(self.wall) - last, wall(self.wall) - first + rounding)
    }
}
