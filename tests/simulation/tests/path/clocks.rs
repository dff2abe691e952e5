//! The clocks of a machine, and the time of a run by them.

use std::cell::Cell;

use phasemeter_journal::BootClock;
use phasemeter_meter::units::{Nanos, Timestamp};
use tokio::time::Instant;

/// When a seed begins, in seconds since 1970.
const EPOCH: u64 = 1_785_110_395;

thread_local! {
    /// The instant of that.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// How far the wall clock was set forward since.
    static AHEAD: Cell<Nanos> = const { Cell::new(Nanos::ZERO) };
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

/// A boot of the machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Boot {
    number: u64,
    began: Nanos,
}

impl Boot {
    /// That with this number begins.
    pub(crate) fn begin(number: u64) -> Self {
        Self { number, began: elapsed() }
    }

    /// The next one begins.
    pub(crate) fn next(self) -> Self {
        Self::begin(self.number + 1)
    }

    /// The clock of a run that begins now.
    pub(crate) fn clock(self) -> BootClock {
        let boot_id = Some(self.number.to_string());
        BootClock { boot_id, boot: elapsed() - self.began, at: wall() }
    }

    /// The clocks now, of a run at this time.
    pub(crate) fn moment(self, at: Timestamp) -> Moment {
        Moment { at, boot: self.number, elapsed: elapsed(), wall: wall() }
    }
}

/// An instant of a run, and what the clocks showed then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Timestamp,
    boot: u64,
    elapsed: Nanos,
    wall: Timestamp,
}

impl Moment {
    /// The time of the run now: what has passed since, as this machine can know it. The wall clock alone goes on while it is
    /// off.
    pub(crate) fn now(&self, boot: Boot) -> Timestamp {
        let is_same_boot = self.boot == boot.number;
        self.at + if is_same_boot { elapsed() - self.elapsed } else { wall().since(self.wall) }
    }
}
