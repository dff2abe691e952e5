//! Spreads an amount over weights by largest remainder: the shares sum to it exactly.

use std::cmp::Reverse;

use phasemeter_meter::money::NanoUsd;

/// The share of each weight; `None` if all weights are zero. It is within one nano-dollar of the exact one,
/// unless the product of amount and weights exceeds 127 bits: then low bits of weights do not count.
/// Of equal remainders, the first gets the rest.
pub(crate) fn spread(amount: NanoUsd, weights: &[u128]) -> Option<Vec<NanoUsd>> {
    let amount = u128::try_from(amount.0).unwrap_or_default();
    let sum = weights.iter().fold(0_u128, |sum, weight| sum.saturating_add(*weight));
    if sum == 0 {
        return None;
    }
    // The product of amount and weight must fit 128 bits.
    let bits = |value: u128| 128 - value.leading_zeros();
    let shift = (bits(amount) + bits(sum)).saturating_sub(127);
    let mut weights: Vec<u128> = weights.iter().map(|weight| weight >> shift).collect();
    if weights.iter().all(|weight| *weight == 0) {
        weights.fill(1);
    }
    let sum: u128 = weights.iter().sum();
    let mut shares: Vec<u128> = weights.iter().map(|weight| amount * weight / sum).collect();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| (Reverse(amount * weights[*index] % sum), *index));
    let left = amount - shares.iter().sum::<u128>();
    let left = usize::try_from(left).unwrap_or_default();
    order.iter().take(left).for_each(|index| shares[*index] += 1);
    Some(shares.into_iter().map(|share| NanoUsd(share.cast_signed())).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_sum_to_amount_within_a_nano_dollar_each(
            amount in prop_oneof![0_i128..1_000, 0_i128..1 << 60],
            weights in prop::collection::vec(prop_oneof![0_u128..10, 0_u128..1 << 60], 1..40),
        ) {
            let shares = spread(NanoUsd(amount), &weights);
            let sum: u128 = weights.iter().sum();
            prop_assert_eq!(shares.is_none(), sum == 0);
            for (share, weight) in shares.iter().flatten().zip(&weights) {
                let exact = amount as f64 * (*weight as f64 / sum as f64);
                let rounding = 1.0 + exact * 1e-12;
                prop_assert!((share.0 as f64 - exact).abs() <= rounding);
            }
            let huge = NanoUsd(amount << 20);
            let shares_of_huge: NanoUsd = spread(huge, &weights).into_iter().flatten().sum();
            prop_assert!(sum == 0 || shares_of_huge == huge);
            let total: NanoUsd = shares.into_iter().flatten().sum();
            prop_assert!(sum == 0 || total == NanoUsd(amount));
        }
    }

    #[test]
    fn largest_remainders_get_the_rest() {
        let shares = |amount, weights: &[u128]| {
            let shares = spread(NanoUsd(amount), weights).unwrap();
            shares.into_iter().map(|share| share.0).collect::<Vec<_>>()
        };
        assert_eq!(shares(20, &[6, 2]), [15, 5]);
        assert_eq!(shares(1, &[1, 1, 1]), [1, 0, 0]);
        assert_eq!(shares(5, &[1, 2, 1]), [1, 3, 1]);
    }
}
