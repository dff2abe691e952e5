//! Exact accrual of one GPU's cost since its first reading, with rates that change at instants.
//!
//! C(t) is the exact cost up to t: Σ rate × time, a rational number with the nanoseconds of an hour
//! as denominator. The charge of [a, b) is ⌊C(b)⌋ − ⌊C(a)⌋. Charges are therefore never negative
//! and sum to ⌊C(end)⌋ to the nano-dollar, however time is cut.

use std::ops::{AddAssign, Sub};

use crate::money::{NanoUsd, Rate};
use crate::units::{NANOS_PER_HOUR, PPM, Timestamp};

/// Accrues the cost of one GPU, forward in time only.
#[derive(Clone, Debug)]
pub struct Accrual {
    /// Everything before this instant is charged.
    charged: Timestamp,
    /// The rate at that instant.
    rate: Rate,
    /// The fraction cut off by ⌊C(charged)⌋, in nano-USD ÷ [`NANOS_PER_HOUR`]; less than one
    /// nano-USD.
    fraction: u64,
    /// Future rate changes, all after `charged`, the next one last.
    changes: Vec<(Timestamp, Rate)>,
}

/// The cost of a time range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// ⌊C(to)⌋ − ⌊C(from)⌋, never negative.
    pub cost: NanoUsd,
    /// The rate at the start of the range; of all of it if the range was cut at
    /// [`Accrual::next_change`].
    pub rate: Rate,
}

impl Accrual {
    /// Accrual from `start` on, at this rate.
    #[must_use]
    pub const fn new(start: Timestamp, rate: Rate) -> Self {
        Self { charged: start, rate, fraction: 0, changes: Vec::new() }
    }

    /// Moves the start of accrual forward to `start`.
    pub fn begin(&mut self, start: Timestamp) {
        self.charge(start);
        self.fraction = 0;
    }

    /// Changes the rate from `at` on, until the next scheduled change. A second change at the same
    /// instant replaces the first.
    ///
    /// # Errors
    /// Returns an error if time after `at` has been charged.
    pub fn change_rate(&mut self, at: Timestamp, rate: Rate) -> Result<(), AlreadyCharged> {
        if at < self.charged {
            return Err(AlreadyCharged { at, charged: self.charged });
        }
        if at == self.charged {
            self.rate = rate;
            return Ok(());
        }
        self.changes.retain(|&(known, _)| known != at);
        let later = self.changes.partition_point(|&(known, _)| known > at);
        self.changes.insert(later, (at, rate));
        Ok(())
    }

    /// Charges nothing for the time `from`..`to`: another meter has billed it, or may have. After it the
    /// rate is what it would have been. Returns the start of the time that is exempt, which is later than
    /// `from` if that has been charged.
    pub fn exempt(&mut self, from: Timestamp, to: Timestamp) -> Timestamp {
        let from = from.max(self.charged);
        if from < to {
            let after = self.rate_at(to);
            self.changes.retain(|&(at, _)| at < from || at >= to);
            // Neither instant is charged.
            let _ = self.change_rate(from, Rate::ZERO);
            let _ = self.change_rate(to, after);
        }
        from
    }

    /// The rate at an instant that is not charged.
    fn rate_at(&self, at: Timestamp) -> Rate {
        let last = self.changes.iter().find(|&&(change, _)| change <= at);
        last.map_or(self.rate, |&(_, rate)| rate)
    }

    /// The instant up to which time is charged.
    #[must_use]
    pub const fn charged(&self) -> Timestamp {
        self.charged
    }

    /// The rate at [`Accrual::charged`].
    #[must_use]
    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// The first scheduled rate change after `after`. Values weighted by the rate are cut there, so
    /// that each part has one rate.
    #[inline]
    #[must_use]
    pub fn next_change(&self, after: Timestamp) -> Option<Timestamp> {
        self.changes.iter().rev().map(|&(at, _)| at).find(|&at| at > after)
    }

    /// Charges the time from [`Accrual::charged`] to `to`, across any rate changes; zero if `to` is
    /// not later.
    pub fn charge(&mut self, to: Timestamp) -> Cost {
        let rate = self.rate;
        let mut cost = NanoUsd::ZERO;
        while let Some(&(at, next)) = self.changes.last()
            && at <= to
        {
            cost += self.accrue(at);
            self.rate = next;
            self.changes.pop();
        }
        cost += self.accrue(to);
        Cost { cost, rate }
    }

    /// Accrues cost up to `to` at the current rate.
    ///
    /// One second of a GPU of up to $18 per hour fits 64 bits, in which dividing by the constant
    /// compiles to a multiplication; only longer ranges or higher rates need the 128-bit division.
    fn accrue(&mut self, to: Timestamp) -> NanoUsd {
        let time = to.since(self.charged).0;
        let exact = u128::from(self.rate.nano_usd_per_hour()) * u128::from(time)
            + u128::from(self.fraction);
        self.charged = self.charged.max(to);
        match u64::try_from(exact) {
            Ok(exact) => {
                self.fraction = exact % NANOS_PER_HOUR;
                NanoUsd(i128::from(exact / NANOS_PER_HOUR))
            }
            Err(_) => self.carry(exact),
        }
    }

    /// Splits off the fraction of a large sum. The sum is at most [`Rate::MAX`] × the maximum time,
    /// 1e13 × 9.3e18 < 2^107, so the quotient fits an `i128`.
    #[cold]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        reason = "a remainder of a u64, and a quotient below 2^66"
    )]
    fn carry(&mut self, exact: u128) -> NanoUsd {
        self.fraction = (exact % u128::from(NANOS_PER_HOUR)) as u64;
        NanoUsd((exact / u128::from(NANOS_PER_HOUR)) as i128)
    }
}

/// A rate change at an instant whose following time has been charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "rate change at {} ns rejected: time is charged up to {} ns (since 1970)",
    .at.as_nanos(),
    .charged.as_nanos()
)]
pub struct AlreadyCharged {
    /// When the rate should have changed.
    pub at: Timestamp,
    /// The instant up to which time is charged.
    pub charged: Timestamp,
}

/// Why a rate change was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateChangeError {
    /// Its time has been charged.
    #[error(transparent)]
    AlreadyCharged(#[from] AlreadyCharged),
    /// The GPU is unpriced; the cost of its time is unknown, not $0.
    #[error("rate change rejected: the GPU is unpriced")]
    Unpriced,
    /// The GPU has a price already.
    #[error("first rate rejected: the GPU is priced")]
    Priced,
    /// A session has ended, whose spans were emitted without a cost, or a part of the run, whose report was.
    #[error("first rate rejected: a session or part has ended without a price")]
    SessionEnded,
}

/// Exact utilized cost, Σ u·rate·dt, in ppm × nano-USD per hour × ns. It is summed unrounded and
/// converted to nano-USD once, when an account is read.
///
/// A single GPU cannot overflow it: one million ppm × [`Rate::MAX`] × the maximum time, 1e6 × 1e13
/// × 9.3e18 = 9.3e37, is less than 2^127 = 1.7e38. Sums of several GPUs saturate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct UtilizedCost(i128);

impl UtilizedCost {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// From effective time Σ u·dt in ppm × ns, all at one rate.
    #[must_use]
    pub fn of(effective_time: u128, rate: Rate) -> Self {
        let time = i128::try_from(effective_time).unwrap_or(i128::MAX);
        Self(time.saturating_mul(i128::from(rate.nano_usd_per_hour())))
    }

    /// The part of `weighted` in `of`, the effective time that this is the cost of, all at one rate.
    pub(crate) fn part(self, weighted: u128, of: u128) -> Self {
        let [weighted, of] = [weighted, of].map(|time| i128::try_from(time).unwrap_or(i128::MAX));
        let rate = self.0.checked_div(of).unwrap_or_default();
        Self(rate.saturating_mul(weighted))
    }

    /// From what [`Self::exact`] returns.
    #[must_use]
    pub const fn from_exact(exact: i128) -> Self {
        Self(exact)
    }

    /// In ppm × nano-USD per hour × ns.
    #[must_use]
    pub const fn exact(self) -> i128 {
        self.0
    }

    /// In whole nano-USD, rounded down.
    #[must_use]
    pub const fn floor(self) -> NanoUsd {
        NanoUsd(self.0 / (NANOS_PER_HOUR as i128 * PPM as i128))
    }
}

impl Sub for UtilizedCost {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl AddAssign for UtilizedCost {
    fn add_assign(&mut self, other: Self) {
        self.0 = self.0.saturating_add(other.0);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOUR: u64 = NANOS_PER_HOUR;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn rate(nano_usd: u64) -> Rate {
        Rate::new(nano_usd).unwrap()
    }

    /// ⌊C(end)⌋ by the definition: exact cost per constant rate, then one division.
    fn reference_cost(start: u64, first: Rate, changes: &[(u64, Rate)], end: u64) -> i128 {
        let mut known = vec![(start, first)];
        for &(at, rate) in changes {
            known.retain(|&(other, _)| other != at);
            known.push((at, rate));
        }
        known.sort_by_key(|&(at, _)| at);
        known.push((end, first));
        let exact: u128 = known
            .windows(2)
            .map(|pair| {
                let time = pair[1].0.min(end).saturating_sub(pair[0].0);
                u128::from(time) * u128::from(pair[0].1.nano_usd_per_hour())
            })
            .sum();
        i128::try_from(exact / u128::from(HOUR)).unwrap()
    }

    /// Sets the cost of each nanosecond of a range.
    fn set(cost: &mut [u64], from: u64, until: u64, per_nano: u64) {
        let range = usize::try_from(from).unwrap()..usize::try_from(until).unwrap();
        cost[range].fill(per_nano);
    }

    /// Low and high rates, so that both divisions are exercised.
    fn any_rate() -> impl Strategy<Value = Rate> {
        prop_oneof![0..=20_000_000_000_u64, 0..=Rate::MAX].prop_map(rate)
    }

    /// From seconds to the whole time range.
    fn any_time() -> impl Strategy<Value = u64> {
        prop_oneof![0..3_000_000_000_u64, 0..100 * HOUR, 0..Timestamp::END / 2]
    }

    proptest! {
        #[test]
        fn charges_sum_exactly_over_splits_and_rate_changes(
            start in 0..Timestamp::END / 2,
            first in any_rate(),
            changes in prop::collection::vec((any_time(), any_rate()), 0..6),
            mut cuts in prop::collection::vec(any_time(), 1..12),
        ) {
            let changes: Vec<_> =
                changes.into_iter().map(|(after, rate)| (start + after, rate)).collect();
            let mut accrual = Accrual::new(at(start), first);
            for &(when, rate) in &changes {
                accrual.change_rate(at(when), rate).unwrap();
            }
            cuts.sort_unstable();
            let mut total = 0;
            for cut in cuts {
                let charge = accrual.charge(at(start + cut));
                prop_assert!(charge.cost.0 >= 0);
                total += charge.cost.0;
                prop_assert_eq!(total, reference_cost(start, first, &changes, start + cut));
            }
        }

        #[test]
        fn rate_changes_up_to_last_charge(
            first in any_rate(),
            steps in prop::collection::vec((any_time(), any_rate()), 1..8),
        ) {
            let (mut accrual, mut now, mut total) = (Accrual::new(at(0), first), 0_u64, 0);
            let mut changes = Vec::new();
            for (step, rate) in steps {
                now = (now + step).min(Timestamp::END - 1);
                total += accrual.charge(at(now)).cost.0;
                accrual.change_rate(at(now), rate).unwrap();
                changes.push((now, rate));
                prop_assert_eq!(accrual.rate(), rate);
            }
            prop_assert_eq!(total, reference_cost(0, first, &changes, now));
        }

        /// At one or two nano-dollars per nanosecond, the charge is the sum over the nanoseconds that are
        /// not exempt, whatever is charged in between.
        #[test]
        fn exempt_time_costs_nothing_and_changes_no_other_cost(
            changes in prop::collection::vec((0_u64..200, 0_u64..=2), 0..6),
            exempt in prop::collection::vec((0_u64..200, 0_u64..60), 0..4),
            cut in 0_u64..200,
        ) {
            let mut accrual = Accrual::new(at(0), rate(HOUR));
            let mut cost: Vec<u64> = vec![1; 300];
            for &(from, per_nano) in &changes {
                accrual.change_rate(at(from), rate(per_nano * HOUR)).unwrap();
                let later = changes.iter().map(|(at, _)| *at).filter(|at| *at > from);
                let until = later.min().unwrap_or(300);
                set(&mut cost, from, until, per_nano);
            }
            let mut total = accrual.charge(at(cut)).cost.0;
            for &(from, length) in &exempt {
                let to = from + length;
                prop_assert_eq!(accrual.exempt(at(from), at(to)), at(from.max(cut)));
                set(&mut cost, from.max(cut), to.max(cut), 0);
            }
            total += accrual.charge(at(300)).cost.0;
            prop_assert_eq!(total, i128::from(cost.iter().sum::<u64>()));
        }

        #[test]
        fn parts_cut_at_rate_changes_have_one_rate(
            first in any_rate(),
            changes in prop::collection::vec((any_time(), any_rate()), 0..6),
            end in any_time(),
        ) {
            let mut accrual = Accrual::new(at(0), first);
            for &(when, rate) in &changes {
                accrual.change_rate(at(when), rate).unwrap();
            }
            // At 100% utilization the utilized cost is the cost.
            let mut utilized = UtilizedCost::ZERO;
            let mut total = NanoUsd::ZERO;
            while accrual.charged() < at(end) {
                let next = accrual.next_change(accrual.charged());
                let to = next.map_or(at(end), |next| next.min(at(end)));
                let time = u128::from(to.since(accrual.charged()).0) * u128::from(PPM);
                let charge = accrual.charge(to);
                utilized += UtilizedCost::of(time, charge.rate);
                total += charge.cost;
            }
            prop_assert_eq!(utilized.floor(), total);
        }
    }

    #[test]
    fn charged_time_is_final() {
        let mut accrual = Accrual::new(at(HOUR), rate(7));
        assert_eq!(accrual.charge(at(2 * HOUR)).cost, NanoUsd(7));
        assert_eq!(accrual.charge(at(HOUR)).cost, NanoUsd::ZERO, "accrual never moves back");
        assert_eq!(accrual.charged(), at(2 * HOUR));
        let late = AlreadyCharged { at: at(HOUR), charged: at(2 * HOUR) };
        assert_eq!(accrual.change_rate(at(HOUR), rate(8)), Err(late));
    }

    #[test]
    fn maximum_rate_and_time_fit() {
        let end = Timestamp::END - 1;
        let time = u128::from(end) * u128::from(PPM);
        let utilized = UtilizedCost::of(time, rate(Rate::MAX));
        let cost = Accrual::new(at(0), rate(Rate::MAX)).charge(at(end)).cost;
        assert_eq!(utilized.floor(), cost);
        assert!(utilized.0 < i128::MAX);
    }

    #[test]
    fn eight_gpus_at_8_usd_for_75_minutes_cost_80_usd() {
        let gpu = || Accrual::new(at(0), Rate::parse("8").unwrap()).charge(at(HOUR / 4 * 5)).cost;
        let bill: NanoUsd = (0..8).map(|_| gpu()).sum();
        assert_eq!(bill.to_string(), "80.000000000");
    }
}
