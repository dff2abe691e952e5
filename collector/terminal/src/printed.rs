//! Amounts as printed: whole cents, or another unit, of which the parts of a sum add up to it.
//!
//! Rounded independently, parts can sum to a cent more or less than the whole. Here each is rounded down, and
//! the missing units go to the largest remainders.

use phasemeter_meter::apportion::largest;
use phasemeter_meter::money::{NanoUsd, div_half_even};

/// Nano-dollars per cent.
pub const CENT: i128 = 10_000_000;

/// An amount in whole units of so many nano-dollars, rounded half to even.
#[must_use]
pub fn rounded(amount: NanoUsd, unit: i128) -> i128 {
    div_half_even(amount.0, unit).unwrap_or_default()
}

/// The parts of an amount that is printed as `whole` units of so many nano-dollars, in units: they sum to it, and
/// each is within one unit of its own if the whole is within one unit of their sum. The first of equal remainders
/// is rounded up.
#[must_use]
pub fn parts(whole: i128, parts: &[NanoUsd], unit: i128) -> Vec<i128> {
    parts_with(whole, parts, unit, |_| None)
}

/// The same. An amount that is `known` to be printed elsewhere is printed alike, if the others then still are
/// within one unit of their own.
#[must_use]
pub fn parts_with(
    whole: i128,
    parts: &[NanoUsd],
    unit: i128,
    known: impl Fn(NanoUsd) -> Option<i128>,
) -> Vec<i128> {
    let unit = unit.max(1);
    let floor = |amount: NanoUsd| amount.0.div_euclid(unit);
    let is_near = |amount: NanoUsd, printed: i128| {
        (printed.saturating_mul(unit) - amount.0).saturating_abs() < unit
    };
    let mut fixed: Vec<Option<i128>> =
        parts.iter().map(|part| known(*part).filter(|printed| is_near(*part, *printed))).collect();
    loop {
        let each = parts.iter().zip(&fixed);
        let mut printed: Vec<i128> =
            each.map(|(part, fixed)| fixed.unwrap_or(floor(*part))).collect();
        let missing = whole - printed.iter().sum::<i128>();
        let each = parts.iter().zip(&fixed);
        let remainders = each.map(|(part, fixed)| fixed.map_or(part.0.rem_euclid(unit), |_| 0));
        let remainders: Vec<u128> = remainders.map(i128::unsigned_abs).collect();
        let free = remainders.iter().filter(|remainder| **remainder > 0).count();
        match usize::try_from(missing) {
            Ok(missing) if missing <= free => {
                largest(&remainders, missing).into_iter().for_each(|index| printed[index] += 1);
                return printed;
            }
            // What is known does not fit.
            _ if fixed.iter().any(Option::is_some) => fixed.fill(None),
            // These are not the parts of this amount. The sum holds.
            _ => {
                if let Some(largest) = (0..parts.len()).max_by_key(|index| parts[*index]) {
                    printed[largest] += missing;
                }
                return printed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn printed(whole: i128, amounts: &[i128]) -> Vec<i128> {
        parts(whole, &amounts.iter().copied().map(NanoUsd).collect::<Vec<_>>(), 10)
    }

    #[test]
    fn missing_units_go_to_the_largest_remainders() {
        assert_eq!(printed(10, &[33, 33, 34]), [3, 3, 4]);
        assert_eq!(printed(1, &[5, 5]), [1, 0]);
        assert_eq!(printed(0, &[164, -164]), [16, -16]);
        assert_eq!(printed(0, &[]), Vec::<i128>::new());
        // Parts of another sum still add up.
        assert_eq!(printed(20, &[33, 60]), [3, 17]);
    }

    #[test]
    fn amount_is_printed_as_elsewhere() {
        let amounts = [33, 33, 34].map(NanoUsd);
        let known = |amount: NanoUsd| (amount == NanoUsd(34)).then_some(3);
        assert_eq!(parts_with(10, &amounts, 10, known), [4, 3, 3]);
        let wrong = |amount: NanoUsd| (amount == NanoUsd(34)).then_some(9);
        assert_eq!(parts_with(10, &amounts, 10, wrong), [3, 3, 4]);
        assert_eq!(rounded(NanoUsd(25), 10), 2);
    }

    proptest! {
        /// Also of a whole that is itself a rounded part of another one.
        #[test]
        fn printed_parts_sum_to_printed_whole_within_one_unit_each(
            amounts in prop::collection::vec(
                prop_oneof![Just(0_i128), -50..50_i128, -1_000_000_000_000..1_000_000_000_000_i128],
                1..30,
            ),
            unit in prop_oneof![Just(10_i128), Just(CENT)],
            up in any::<bool>(),
        ) {
            let sum: i128 = amounts.iter().sum();
            let exact = sum.rem_euclid(unit) == 0;
            let whole = sum.div_euclid(unit) + i128::from(up && !exact);
            let amounts: Vec<NanoUsd> = amounts.into_iter().map(NanoUsd).collect();
            let printed = parts(whole, &amounts, unit);
            prop_assert_eq!(printed.iter().sum::<i128>(), whole);
            for (amount, printed) in amounts.iter().zip(&printed) {
                prop_assert!((amount.0 - printed * unit).abs() < unit);
                prop_assert!(amount.0 != 0 || *printed == 0);
            }
        }
    }
}
