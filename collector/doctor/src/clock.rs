//! Whether the wall clock can be believed.

use std::time::{Duration, Instant, SystemTime};

use phasemeter_process::ClockState;

use super::findings::{Findings, Topic};

/// Between the two clocks, a difference that a clock that is disciplined without steps cannot make in seconds.
const STEP: Duration = Duration::from_millis(50);

/// An error of the clock that shifts seconds against those of other machines.
const FAR: Duration = Duration::from_secs(1);

/// Both clocks at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    wall: SystemTime,
    monotonic: Instant,
}

impl Clocks {
    /// Reads both.
    #[must_use]
    pub fn read() -> Self {
        Self { wall: SystemTime::now(), monotonic: Instant::now() }
    }

    /// Compares the clocks with what they were.
    pub fn check(&self, findings: &mut Findings) {
        let now = Self::read();
        let monotonic = now.monotonic.duration_since(self.monotonic);
        // In either direction.
        let difference = match now.wall.duration_since(self.wall) {
            Ok(wall) => wall.abs_diff(monotonic),
            Err(back) => back.duration() + monotonic,
        };
        describe(ClockState::read(), monotonic, difference, findings);
    }
}

fn describe(state: ClockState, passed: Duration, difference: Duration, findings: &mut Findings) {
    let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    let synchronized = match state {
        ClockState::Synchronized(error) => {
            if error > FAR {
                findings.note(format!(
                    "clock: it may be wrong by {}; check chrony or systemd-timesyncd",
                    millis(error)
                ));
            }
            format!("synchronized within {}", millis(error))
        }
        ClockState::Unsynchronized => {
            findings.note(
                "clock: nothing synchronizes it, so hours and days may be wrong; start chrony or systemd-timesyncd",
            );
            "not synchronized".to_owned()
        }
        ClockState::Unknown => "synchronization unknown".to_owned(),
    };
    findings.fact(Topic::Clock, synchronized);
    let passed = format!("{:.1} s", passed.as_secs_f64());
    findings.fact(
        Topic::Clock,
        format!("wall and monotonic clock differ by {} after {passed}", millis(difference)),
    );
    if difference > STEP {
        findings.note(format!(
            "clock: it was stepped by {} during the check; each step begins new sessions",
            millis(difference)
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clock_in_doubt_has_a_note() {
        let notes = |state, difference| {
            let mut findings = Findings::default();
            let millis = Duration::from_millis;
            describe(state, millis(3_000), millis(difference), &mut findings);
            assert!(findings.works());
            findings.notes.len()
        };
        let close = ClockState::Synchronized(Duration::from_millis(3));
        assert_eq!(notes(close, 1), 0);
        assert_eq!(notes(ClockState::Unknown, 1), 0);
        assert_eq!(notes(ClockState::Synchronized(Duration::from_secs(16)), 1), 1);
        assert_eq!(notes(ClockState::Unsynchronized, 3_600_000), 2);
    }
}
