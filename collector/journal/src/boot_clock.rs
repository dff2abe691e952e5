//! The clock of a run, which goes on while its process does not: by time since boot, and after a reboot by the wall clock.

use phasemeter_environment::host;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_sources::clock::Clock;
use serde::{Deserialize, Serialize};

use crate::NotContinued;

/// A run that was killed longer ago is not continued. A node may take 20 minutes to start again.
pub(crate) const MAX_GAP: Nanos = Nanos::from_secs(3_600);

/// The clock of a run in one boot of its machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootClock {
    /// The boot, if known.
    pub boot_id: Option<String>,
    /// Time since boot at an instant of the run.
    pub boot: Nanos,
    /// That instant.
    pub at: Timestamp,
}

impl BootClock {
    /// That of a run with this clock, in the boot in progress.
    #[must_use]
    pub fn of(clock: Clock) -> Self {
        let (boot, at) = clock.origin();
        Self { boot_id: host::boot_id(), boot, at }
    }

    pub(crate) fn is_same_boot(&self, other: &Self) -> bool {
        self.boot_id.is_some() && self.boot_id == other.boot_id
    }

    /// The clock by which a run goes on whose last step was at `until`, when the wall clock was ahead by `wall`. `now`: the
    /// clock of a run that begins now, at wall time.
    pub(crate) fn continued(
        self,
        until: Timestamp,
        wall: WallOffset,
        now: Self,
    ) -> Result<Self, NotContinued> {
        let (at, continued) = if self.is_same_boot(&now) {
            (self.at + (now.boot - self.boot), self)
        } else {
            let at = wall.instant(now.at);
            (at, Self { at, ..now })
        };
        match at {
            _ if at < until => Err(NotContinued::Behind),
            _ if at.since(until) > MAX_GAP => Err(NotContinued::TooLate),
            _ => Ok(continued),
        }
    }

    /// The clock.
    pub(crate) fn clock(&self) -> Clock {
        Clock::continuing(self.boot, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis((1_785_110_400 + seconds) * 1_000).unwrap()
    }

    fn clock(boot_id: Option<&str>, boot: u64, seconds: u64) -> BootClock {
        let boot_id = boot_id.map(str::to_owned);
        BootClock { boot_id, boot: Nanos::from_secs(boot), at: at(seconds) }
    }

    /// Guarantee: within a boot, time goes on by the clock that counts since boot, whatever the wall clock shows.
    #[test]
    fn time_since_boot_counts_within_a_boot() {
        let (began, unset) = (clock(Some("a"), 50, 0), WallOffset::default());
        for wall in [0, 120, 100_000] {
            let continued = began.clone().continued(at(100), unset, clock(Some("a"), 170, wall));
            assert_eq!(continued.unwrap(), began);
        }
        let late = began.continued(at(100), unset, clock(Some("a"), 50 + 3_701, 0));
        assert!(matches!(late, Err(NotContinued::TooLate)));
    }

    /// Guarantee: after a reboot, or if it is not known whether there was one, time goes on by the wall clock, as the run
    /// has known it: never back, and for an hour at most.
    #[test]
    fn wall_clock_counts_after_a_reboot() {
        let began = clock(Some("a"), 5_000, 0);
        // The wall clock was set by 30 s during the run.
        let set = WallOffset::between(at(0), at(30));
        for (boot_id, of_run) in [(Some("b"), &began), (None, &began), (None, &clock(None, 9, 0))] {
            let after = |wall| of_run.clone().continued(at(100), set, clock(boot_id, 20, wall));
            assert_eq!(after(130).unwrap(), clock(boot_id, 20, 100));
            assert_eq!(after(730).unwrap(), clock(boot_id, 20, 700));
            assert_eq!(after(3_730).unwrap(), clock(boot_id, 20, 3_700));
            assert!(matches!(after(129), Err(NotContinued::Behind)));
            assert!(matches!(after(3_731), Err(NotContinued::TooLate)));
        }
    }
}
