//! Measures the energy of a GPU: the difference of its energy counter for the time that covers, and the
//! integral of its power for the time that only power readings cover.

use crate::energy::{Energy, EnergyBasis, EnergyPart, PICOJOULES};
use crate::energy_source::{EnergyCounter, PowerBasis};
use crate::quantity::Quantity;
use crate::rise::Rise;
use crate::units::{Millijoules, Milliwatts, Nanos, Timestamp};

/// Measures the energy of a GPU from its readings, in time order.
///
/// Between two counter values the counter covers all time, read or not, and power none of it. A
/// counter that fell was reset (the driver was reloaded) and covers nothing in between, unless it
/// returns to where it was: then it was misread, and what it rose by was not consumed. A counter that
/// rose by more than the GPU can draw in that time was misread, too; power covers the time until it
/// returns, or until [`AGREEING`] rises in a row show that it goes on from there.
#[derive(Clone, Debug, Default)]
pub struct EnergyMeter {
    /// The last counter value, and when it was read.
    counter: Option<(Timestamp, Millijoules)>,
    /// When that value was first read.
    risen: Timestamp,
    /// The last value that was misread, until one is not.
    misread: Option<Misread>,
    /// Whether the last reading had the counter, so that it probably covers the time since, too.
    is_counting: bool,
    until_counter: Energy,
    /// Power since the last counter value. If the next one is higher, it covers that time instead.
    since_counter: Energy,
    /// The state before the counter fell, until its next rise shows whether it was reset.
    before_fall: Option<BeforeFall>,
}

/// A counter value that the GPU cannot have reached.
#[derive(Clone, Copy, Debug)]
struct Misread {
    /// When it was first read.
    risen: Timestamp,
    counter: Millijoules,
    /// How often the counter has risen since by as much as a GPU can draw.
    agreeing: u32,
}

/// After this many possible rises in a row the counter goes on from a value that it cannot have reached.
const AGREEING: u32 = 3;

/// A GPU draws at most this multiple of its limit in the mean of a second. Limits hold in the mean of
/// some milliseconds; twice allows for a limit that has just been lowered.
const ABOVE_LIMIT: u64 = 2;

/// A counter may show energy of this much time before its last value: drivers refresh it every 10 to 100
/// ms, and samplers poll it every second.
const REFRESH: Nanos = Nanos::SECOND;

/// Whether a GPU with this power limit can draw this much in this time. If the limit is unknown, that of
/// the largest GPU counts.
fn is_possible(millijoules: u64, time: Nanos, limit: Option<Milliwatts>) -> bool {
    let largest = u64::try_from(Quantity::Power.range().1).unwrap_or(u64::MAX);
    let limit = limit.map_or(largest, |limit| u64::from(limit.get()).saturating_mul(ABOVE_LIMIT));
    let picojoules = u128::from(limit) * (u128::from(time.0) + u128::from(REFRESH.0));
    u128::from(millijoules) * PICOJOULES <= picojoules
}

/// The state before the counter fell.
#[derive(Clone, Debug)]
struct BeforeFall {
    counter: (Timestamp, Millijoules),
    /// When that value was first read.
    risen: Timestamp,
    until_counter: Energy,
}

impl EnergyMeter {
    /// Adds time at this power.
    #[inline]
    pub fn add(&mut self, power: Milliwatts, basis: PowerBasis, time: Nanos) {
        let picojoules = u128::from(power.get()) * u128::from(time.0);
        *self.since_counter.part_mut(EnergyBasis::Power(basis)) += EnergyPart { time, picojoules };
    }

    /// Records the counter of a reading of a GPU with this power limit, and its source; `None` if the reading
    /// lacks it, or the limit is unknown.
    #[inline]
    pub fn record(
        &mut self,
        at: Timestamp,
        counter: Option<Millijoules>,
        source: EnergyCounter,
        limit: Option<Milliwatts>,
    ) {
        let counter = counter.filter(|counter| self.is_readable(at, *counter, limit));
        self.is_counting = counter.is_some();
        if let Some(counter) = counter {
            self.count(at, counter, source);
        }
    }

    /// Whether the GPU can have reached this value. If not, the next ones decide whether the counter goes
    /// on from there: then it was reset.
    fn is_readable(
        &mut self,
        at: Timestamp,
        counter: Millijoules,
        limit: Option<Milliwatts>,
    ) -> bool {
        let Some((_, last)) = self.counter else { return true };
        // A return is a rise from the value before the fall, over the time since.
        let returns = self.before_fall.as_ref().filter(|before| before.counter.1 <= counter);
        let (risen, base) =
            returns.map_or((self.risen, last), |before| (before.risen, before.counter.1));
        let rise = counter.0.saturating_sub(base.0);
        if is_possible(rise, at.since(risen), limit) {
            self.misread = None;
            return true;
        }
        let next = match self.misread {
            Some(misread) if counter == misread.counter => misread,
            Some(Misread { risen, counter: before, agreeing })
                if counter > before
                    && is_possible(counter.0 - before.0, at.since(risen), limit) =>
            {
                Misread { risen: at, counter, agreeing: agreeing + 1 }
            }
            _ => Misread { risen: at, counter, agreeing: 0 },
        };
        self.misread = Some(next).filter(|misread| misread.agreeing < AGREEING);
        if self.misread.is_none() {
            (self.counter, self.before_fall) = (None, None);
        }
        self.misread.is_none()
    }

    fn count(&mut self, at: Timestamp, counter: Millijoules, source: EnergyCounter) {
        let since_counter = std::mem::take(&mut self.since_counter);
        let mut last = self.counter.replace((at, counter));
        let risen = self.risen;
        if last.is_none_or(|(_, last)| last != counter) {
            self.risen = at;
        }
        if let Some(before) = self.before_fall.take_if(|before| before.counter.1 <= counter) {
            self.until_counter = before.until_counter;
            last = Some(before.counter);
        }
        let rise = last.map(|(from, before)| (from, Rise::between(before.0, counter.0)));
        if let Some((from, Rise::By(millijoules))) = rise {
            let picojoules = u128::from(millijoules) * PICOJOULES;
            let part = EnergyPart { time: at.since(from), picojoules };
            *self.until_counter.part_mut(EnergyBasis::Counter(source)) += part;
            self.before_fall.take_if(|_| millijoules > 0);
        } else {
            // The first value, or a reset: power covers the time before it.
            let until_counter = self.until_counter;
            let before = last.map(|counter| BeforeFall { counter, risen, until_counter });
            self.before_fall = self.before_fall.take().or(before);
            self.until_counter += &since_counter;
        }
    }

    /// Time follows that another meter covers: no counter value after it covers any time before.
    pub fn interrupt(&mut self) {
        self.finish();
        self.until_counter += &std::mem::take(&mut self.since_counter);
        (self.counter, self.misread) = (None, None);
    }

    /// Ends the input. A counter that fell and did not return was reset.
    pub fn finish(&mut self) {
        self.before_fall = None;
        // No further value covers the time since the last one.
        self.is_counting = false;
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

    const COUNTER: EnergyBasis = EnergyBasis::Counter(EnergyCounter::Nvml);
    const DRAW: EnergyBasis = EnergyBasis::Power(PowerBasis::Draw);

    /// One reading every ten seconds: watts for the ten seconds before it, and the counter.
    fn measure(readings: &[(Option<u32>, Option<u64>)]) -> EnergyMeter {
        let mut energy = EnergyMeter::default();
        for (second, (watts, counter)) in (0..).step_by(10).zip(readings) {
            if let Some(power) = watts.and_then(|watts| Milliwatts::new(watts * 1_000)) {
                energy.add(power, PowerBasis::Draw, Nanos::from_secs(10));
            }
            let at = Timestamp::from_millis(second * 1_000).unwrap();
            energy.record(
                at,
                counter.map(|joules| Millijoules(joules * 1_000)),
                EnergyCounter::Nvml,
                None,
            );
        }
        energy
    }

    /// The energy of a GPU with a limit of 300 W that draws 200 W, in joules: one reading per second with
    /// this counter.
    fn joules(counters: &[u64]) -> f64 {
        let (mut energy, limit) = (EnergyMeter::default(), Milliwatts::new(300_000));
        for (second, counter) in (0..).zip(counters) {
            let at = Timestamp::from_millis(second * 1_000).unwrap();
            if second > 0 {
                energy.add(Milliwatts::new(200_000).unwrap(), PowerBasis::Draw, Nanos::SECOND);
            }
            energy.record(at, Some(Millijoules(counter * 1_000)), EnergyCounter::Nvml, limit);
        }
        energy.finish();
        energy.total().joules().unwrap()
    }

    /// A GPU draws 200 J per second; 1,000 J in one are impossible at a limit of 300 W.
    #[test]
    fn rise_beyond_power_and_time_is_not_consumption() {
        // Misread once, held, several times, below and above each other, and at the end.
        for misread in [
            &[8_000][..],
            &[8_000, 8_000],
            &[9_007_199_254_740, 8_000, 70_000],
            &[100, 9_000_000, 50],
            &[3_000_000, 3_000_000, 3_000_200, 3_000_200],
        ] {
            let mut counters = vec![5_000, 5_200];
            counters.extend(misread);
            let last = 5_000 + 200 * u64::try_from(counters.len()).unwrap();
            counters.extend([last, last + 200]);
            let expected = f64::from(u32::try_from(counters.len() - 1).unwrap()) * 200.0;
            assert!((joules(&counters) - expected).abs() < 1e-9, "{misread:?}");
            counters.push(77_000_000);
            assert!((joules(&counters) - expected - 200.0).abs() < 1e-9, "{misread:?} at the end");
        }
    }

    /// A counter that is misread as less for a minute, as one value or as many, returns; and so without power.
    #[test]
    fn return_after_a_long_fall_is_not_a_reset() {
        for step in [0, 1] {
            let mut counters = vec![5_000, 5_200];
            counters.extend((0..60).map(|second| 100 - second * step));
            counters.extend((62..65).map(|second| 5_000 + second * 200));
            let expected = 64.0 * 200.0;
            assert!((joules(&counters) - expected).abs() < 1e-9, "{}", joules(&counters));
            let (mut energy, limit) = (EnergyMeter::default(), Milliwatts::new(300_000));
            for (second, counter) in (0..).zip(counters) {
                let at = Timestamp::from_millis(second * 1_000).unwrap();
                energy.record(at, Some(Millijoules(counter * 1_000)), EnergyCounter::Nvml, limit);
            }
            let total = energy.total().joules().unwrap();
            assert!((total - expected).abs() < 1e-9, "{total}");
        }
    }

    /// The counter jumps and goes on from there: power covers the time until that is known.
    #[test]
    fn counter_that_goes_on_from_an_impossible_rise_counts_again() {
        let counters: Vec<u64> =
            (0..4).chain(100_000..100_010).map(|second| 5_000 + second * 200).collect();
        assert!((joules(&counters) - 13.0 * 200.0).abs() < 1e-9);
        // Each value is read ten times. Of 13 rises, three are before the jump and six after three that
        // agree; power covers the 31 s between.
        let rare: Vec<u64> = counters.iter().flat_map(|counter| [*counter; 10]).collect();
        assert!((joules(&rare) - (9.0 + 31.0) * 200.0).abs() < 1e-9);
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
        assert_eq!(parts(&energy), [(COUNTER, 10, 1_000.0), (DRAW, 20, 6_000.0)]);
        assert_eq!(energy.total().joules(), Some(7_000.0));
    }

    #[test]
    fn returning_counter_covers_the_time_it_was_not_read() {
        let mut readings =
            vec![(None, Some(5_000)), (Some(300), Some(6_000)), (Some(300), None), (None, None)];
        let until = measure(&readings);
        assert_eq!(parts(&until), [(COUNTER, 10, 1_000.0), (DRAW, 10, 3_000.0)]);
        readings.push((Some(300), Some(7_500)));
        assert_eq!(parts(&measure(&readings)), [(COUNTER, 40, 2_500.0)]);
    }

    #[test]
    fn reset_counter_covers_nothing_before_it() {
        let readings = [(None, Some(5_000)), (Some(300), Some(100)), (Some(300), Some(1_100))];
        let energy = measure(&readings);
        assert_eq!(parts(&energy), [(COUNTER, 10, 1_000.0), (DRAW, 10, 3_000.0)]);
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
        assert_eq!(parts(&measure(&readings)), [(COUNTER, 70, 4_000.0), (DRAW, 10, 900.0)]);
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
