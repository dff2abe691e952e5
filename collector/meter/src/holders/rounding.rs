//! Divides whole amounts into whole amounts, and carries what is rounded to the next division.

use crate::apportion::apportion;

/// Binary digits of a fraction.
const BITS: u32 = 60;

/// The fractions that these parts are of their sum; `None` if they sum to zero. They sum to one.
pub(super) fn fractions(parts: &[u128]) -> Option<Vec<i128>> {
    let fractions = apportion(1 << BITS, parts)?;
    Some(fractions.into_iter().map(|fraction| i128::try_from(fraction).unwrap_or(0)).collect())
}

/// What a receiver was due and did not get yet; negative if it got more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carry(i128);

/// Divides `total`, which is not negative, by `fractions`. The results sum to it and are not negative. Each
/// receiver's results sum to what it was due in all, but for one or two units, however many divisions there are.
///
/// Of equal remainders the earlier ones are rounded up.
pub(super) fn divide(total: i128, fractions: &[i128], carries: &mut [Carry]) -> Vec<i128> {
    if total == 0 {
        return vec![0; fractions.len()];
    }
    let dues = fractions.iter().zip(carries.iter());
    let due: Vec<i128> = dues.map(|(fraction, carry)| total * fraction + carry.0).collect();
    let receives = |index: &usize| fractions[*index] > 0;
    let mut order: Vec<usize> = (0..fractions.len()).filter(receives).collect();
    let mut amounts = vec![0; fractions.len()];
    let mut left = total;
    for &index in &order {
        amounts[index] = (due[index] >> BITS).max(0);
        left -= amounts[index];
    }
    let remainder = |index: usize, amount: i128| due[index] - (amount << BITS);
    order.sort_by_key(|&index| std::cmp::Reverse(remainder(index, amounts[index])));
    while left > 0 && !order.is_empty() {
        for &index in order.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            amounts[index] += 1;
            left -= 1;
        }
    }
    while left < 0 {
        for &index in order.iter().rev() {
            if left < 0 && amounts[index] > 0 {
                amounts[index] -= 1;
                left += 1;
            }
        }
    }
    for &index in &order {
        carries[index] = Carry(remainder(index, amounts[index]));
    }
    amounts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Receivers get what they were due within two units, whatever was divided before, and all of it is divided.
        #[test]
        fn results_sum_to_total_and_follow_fractions(
            divisions in prop::collection::vec(
                (0_u32..50, prop::collection::vec(0_u32..5, 4)), 1..200,
            ),
        ) {
            let mut carries = [Carry::default(); 4];
            let (mut got, mut due) = ([0_i128; 4], [0.0; 4]);
            for (total, parts) in divisions {
                let wide: Vec<u128> = parts.iter().map(|part| u128::from(*part)).collect();
                let Some(fractions) = fractions(&wide) else { continue };
                let amounts = divide(total.into(), &fractions, &mut carries);
                prop_assert_eq!(amounts.iter().sum::<i128>(), i128::from(total));
                let sum = f64::from(parts.iter().sum::<u32>());
                for index in 0..4 {
                    prop_assert!(amounts[index] >= 0);
                    prop_assert!(parts[index] > 0 || amounts[index] == 0);
                    got[index] += amounts[index];
                    due[index] += f64::from(total) * f64::from(parts[index]) / sum;
                }
            }
            for index in 0..4 {
                let got = f64::from(i32::try_from(got[index]).unwrap());
                prop_assert!((got - due[index]).abs() < 4.0, "{got} of {}", due[index]);
            }
        }
    }

    #[test]
    fn thirds_are_equal_in_the_long_run() {
        let fractions = fractions(&[1, 1, 1]).unwrap();
        let mut carries = [Carry::default(); 3];
        let mut sums = [0; 3];
        for _ in 0..3_000 {
            let amounts = divide(10, &fractions, &mut carries);
            sums.iter_mut().zip(amounts).for_each(|(sum, amount)| *sum += amount);
        }
        assert_eq!(sums, [10_000; 3]);
    }
}
