//! Energy of a GPU: the difference of its energy counter for the time that covers, and the integral of
//! its power for the time that only power readings cover.
//!
//! Must not depend on the source of either.

use std::ops::AddAssign;

use crate::reading::PowerBasis;
use crate::rise::Rise;
use crate::units::{Millijoules, Milliwatts, Nanos, Timestamp};

/// Picojoules per millijoule. 1 pJ is 1 mW × 1 ns.
const PICOJOULES: u128 = 1_000_000_000;

/// What energy is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBasis {
    /// Differences of the driver's energy counter.
    Counter,
    /// Power × the time covered by power readings.
    Power(PowerBasis),
}

impl EnergyBasis {
    /// All bases, in report order.
    pub const ALL: [Self; 5] = [
        Self::Counter,
        Self::Power(PowerBasis::Draw),
        Self::Power(PowerBasis::Average),
        Self::Power(PowerBasis::Instant),
        Self::Power(PowerBasis::NvmlUsage),
    ];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "nvml.total_energy_consumption",
            Self::Power(power) => power.name(),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Counter => 0,
            Self::Power(power) => 1 + power as usize,
        }
    }
}

/// Energy computed from one basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyPart {
    /// The time it covers.
    pub time: Nanos,
    picojoules: u128,
}

impl EnergyPart {
    /// In joules.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double")]
    pub fn joules(&self) -> f64 {
        // A counter has whole millijoules, which a double holds exactly.
        let (millijoules, rest) = (self.picojoules / PICOJOULES, self.picojoules % PICOJOULES);
        millijoules as f64 / 1e3 + rest as f64 / 1e12
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            time: Nanos(self.time.0.saturating_sub(earlier.time.0)),
            picojoules: self.picojoules.saturating_sub(earlier.picojoules),
        }
    }
}

impl AddAssign for EnergyPart {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.picojoules += other.picojoules;
    }
}

/// Energy by basis. Each instant is covered by at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy([EnergyPart; EnergyBasis::ALL.len()]);

impl Energy {
    /// The bases that cover any time, in report order.
    pub fn parts(&self) -> impl Iterator<Item = (EnergyBasis, EnergyPart)> {
        let parts = EnergyBasis::ALL.into_iter().zip(self.0);
        parts.filter(|(_, part)| part.time > Nanos::ZERO)
    }

    /// The sum over all bases in joules; `None` if none covers any time.
    #[must_use]
    pub fn joules(&self) -> Option<f64> {
        let all = self.parts().map(|(_, part)| part).reduce(|mut sum, part| {
            sum += part;
            sum
        });
        all.map(|all| all.joules())
    }

    /// The difference to an `earlier` state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (mine, theirs) in since.0.iter_mut().zip(earlier.0) {
            *mine = mine.since(theirs);
        }
        since
    }

    const fn part_mut(&mut self, basis: EnergyBasis) -> &mut EnergyPart {
        &mut self.0[basis.index()]
    }
}

impl AddAssign<&Self> for Energy {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}

/// Measures the energy of a GPU from its readings, in time order.
///
/// Between two counter values the counter covers all time, read or not, and power none of it. A
/// counter that fell was reset (the driver was reloaded) and covers nothing in between, unless it
/// returns to where it was: then it was misread, and what it rose by was not consumed.
#[derive(Clone, Debug, Default)]
pub struct EnergyMeter {
    /// The last counter value, and when it was read.
    counter: Option<(Timestamp, Millijoules)>,
    /// Whether the last reading had the counter, so that it probably covers the time since, too.
    is_counting: bool,
    until_counter: Energy,
    /// Power since the last counter value. If the next one is higher, it covers that time instead.
    since_counter: Energy,
    /// The state before the counter fell, until its next rise shows whether it was reset.
    before_fall: Option<BeforeFall>,
}

/// The state before the counter fell.
#[derive(Clone, Debug)]
struct BeforeFall {
    counter: (Timestamp, Millijoules),
    until_counter: Energy,
}

impl EnergyMeter {
    /// Adds time at this power.
    #[inline]
    pub fn add(&mut self, power: Milliwatts, basis: PowerBasis, time: Nanos) {
        let picojoules = u128::from(power.get()) * u128::from(time.0);
        *self.since_counter.part_mut(EnergyBasis::Power(basis)) += EnergyPart { time, picojoules };
    }

    /// Records the counter of a reading; `None` if the reading lacks it.
    #[inline]
    pub fn record(&mut self, at: Timestamp, counter: Option<Millijoules>) {
        self.is_counting = counter.is_some();
        if let Some(counter) = counter {
            self.count(at, counter);
        }
    }

    fn count(&mut self, at: Timestamp, counter: Millijoules) {
        let since_counter = std::mem::take(&mut self.since_counter);
        let mut last = self.counter.replace((at, counter));
        if let Some(before) = self.before_fall.take_if(|before| before.counter.1 <= counter) {
            self.until_counter = before.until_counter;
            last = Some(before.counter);
        }
        let rise = last.map(|(from, before)| (from, Rise::between(before.0, counter.0)));
        if let Some((from, Rise::By(millijoules))) = rise {
            let picojoules = u128::from(millijoules) * PICOJOULES;
            let part = EnergyPart { time: at.since(from), picojoules };
            *self.until_counter.part_mut(EnergyBasis::Counter) += part;
            self.before_fall.take_if(|_| millijoules > 0);
        } else {
            // The first value, or a reset: power covers the time before it.
            let until_counter = self.until_counter;
            let before = last.map(|counter| BeforeFall { counter, until_counter });
            self.before_fall = self.before_fall.take().or(before);
            self.until_counter += &since_counter;
        }
    }

    /// Ends the input. A counter that fell and did not return was reset.
    pub fn finish(&mut self) {
        self.before_fall = None;
    }

    /// The energy so far. While the counter is read, up to its last value; after a fall, up to that.
    #[must_use]
    pub fn total(&self) -> Energy {
        if let Some(before) = &self.before_fall {
            return before.until_counter;
        }
        let mut total = self.until_counter;
        if !self.is_counting {
            total += &self.since_counter;
        }
        total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAW: EnergyBasis = EnergyBasis::Power(PowerBasis::Draw);

    /// One reading every ten seconds: watts for the ten seconds before it, and the counter.
    fn measure(readings: &[(Option<u32>, Option<u64>)]) -> EnergyMeter {
        let mut energy = EnergyMeter::default();
        for (second, (watts, counter)) in (0..).step_by(10).zip(readings) {
            if let Some(power) = watts.and_then(|watts| Milliwatts::new(watts * 1_000)) {
                energy.add(power, PowerBasis::Draw, Nanos::from_secs(10));
            }
            let at = Timestamp::from_millis(second * 1_000).unwrap();
            energy.record(at, counter.map(|joules| Millijoules(joules * 1_000)));
        }
        energy
    }

    fn parts(energy: &EnergyMeter) -> Vec<(EnergyBasis, u64, f64)> {
        let parts = energy.total();
        let seconds = |part: EnergyPart| part.time.0 / Nanos::SECOND.0;
        parts.parts().map(|(basis, part)| (basis, seconds(part), part.joules())).collect()
    }

    #[test]
    fn power_counts_until_counter_appears() {
        let energy = measure(&[
            (None, None),
            (Some(300), None),
            (Some(300), Some(70_000)),
            (Some(1), Some(71_000)),
        ]);
        assert_eq!(parts(&energy), [(EnergyBasis::Counter, 10, 1_000.0), (DRAW, 20, 6_000.0)]);
        assert_eq!(energy.total().joules(), Some(7_000.0));
    }

    #[test]
    fn returning_counter_covers_the_time_it_was_not_read() {
        let mut readings =
            vec![(None, Some(5_000)), (Some(300), Some(6_000)), (Some(300), None), (None, None)];
        let until = measure(&readings);
        assert_eq!(parts(&until), [(EnergyBasis::Counter, 10, 1_000.0), (DRAW, 10, 3_000.0)]);
        readings.push((Some(300), Some(7_500)));
        assert_eq!(parts(&measure(&readings)), [(EnergyBasis::Counter, 40, 2_500.0)]);
    }

    #[test]
    fn reset_counter_covers_nothing_before_it() {
        let readings = [(None, Some(5_000)), (Some(300), Some(100)), (Some(300), Some(1_100))];
        let energy = measure(&readings);
        assert_eq!(parts(&energy), [(EnergyBasis::Counter, 10, 1_000.0), (DRAW, 10, 3_000.0)]);
    }

    /// The counter is misread once, and returns; energy never decreases.
    #[test]
    fn fall_and_rise_back_is_not_consumption() {
        let counters = [5_000, 6_000, 100, 100, 7_500, 300, 8_000, 9_000];
        let readings: Vec<_> = counters.map(|joules| (Some(90), Some(joules))).into();
        let totals: Vec<_> = (2..=readings.len())
            .map(|count| measure(&readings[..count]).total().joules().unwrap())
            .collect();
        assert_eq!(totals, [1_900.0, 1_900.0, 1_900.0, 3_400.0, 3_400.0, 3_900.0, 4_900.0]);
        assert_eq!(
            parts(&measure(&readings)),
            [(EnergyBasis::Counter, 70, 4_000.0), (DRAW, 10, 900.0)]
        );
    }

    #[test]
    fn energy_without_covered_time_is_none() {
        assert_eq!(measure(&[]).total().joules(), None);
        assert_eq!(measure(&[(None, Some(5_000))]).total().joules(), None);
        assert_eq!(
            measure(&[(None, Some(5_000)), (None, Some(5_000))]).total().joules(),
            Some(0.0)
        );
    }

    #[test]
    fn energy_since_is_the_difference_per_basis() {
        let readings =
            [(None, Some(0)), (Some(7), Some(100)), (Some(300), None), (Some(200), None)];
        let since = measure(&readings).total().since(&measure(&readings[..3]).total());
        assert_eq!(since.joules(), Some(2_000.0));
        assert_eq!(since.parts().map(|(basis, _)| basis).collect::<Vec<_>>(), [DRAW]);
    }
}
