//! Division of whole amounts in proportion to parts, by largest remainder.

/// Divides `total` in proportion to `parts`; `None` if they sum to zero. The results sum to `total`, and each is its
/// exact share, rounded down or up. Of equal remainders the earlier ones are rounded up.
///
/// If the parts sum to 64 bits or more, and total and sum to more than 128, low bits of the parts do not count.
#[must_use]
pub fn apportion<P: Copy + Into<u128>>(total: u128, parts: &[P]) -> Option<Vec<u128>> {
    let bits = |value: u128| 128 - value.leading_zeros();
    let sum = parts.iter().fold(0_u128, |sum, &part| sum.saturating_add(part.into()));
    let excess = bits(sum).saturating_sub(64).min((bits(total) + bits(sum)).saturating_sub(128));
    let parts = || parts.iter().map(|&part| part.into() >> excess);
    let whole: u128 = parts().sum();
    if whole == 0 {
        return None;
    }
    // total × part ÷ whole, split so that no product exceeds 128 bits.
    let (quotient, remainder) = (total / whole, total % whole);
    let (mut shares, remainders): (Vec<u128>, Vec<u128>) = parts()
        .map(|part| {
            let rest = remainder * part;
            (quotient * part + rest / whole, rest % whole)
        })
        .unzip();
    let missing = total - shares.iter().sum::<u128>();
    for index in largest(&remainders, usize::try_from(missing).unwrap_or(usize::MAX)) {
        shares[index] += 1;
    }
    Some(shares)
}

/// The indices of this many largest remainders, in no order; of equal ones the first.
#[must_use]
pub fn largest(remainders: &[u128], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..remainders.len()).collect();
    if count < order.len() {
        order.select_nth_unstable_by(count, |&a, &b| {
            remainders[b].cmp(&remainders[a]).then(a.cmp(&b))
        });
        order.truncate(count);
    }
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_sum_to_total_and_are_within_one_of_exact(
            total in 0..u128::from(u64::MAX),
            parts in prop::collection::vec(prop_oneof![0..10_u64, 0..1_u64 << 40], 1..50),
        ) {
            let whole: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            let shares = apportion(total, &parts);
            prop_assert_eq!(shares.is_none(), whole == 0);
            let shares = shares.unwrap_or_else(|| vec![total]);
            prop_assert_eq!(shares.iter().sum::<u128>(), total);
            for (share, part) in shares.iter().zip(&parts).filter(|_| whole > 0) {
                let exact = total * u128::from(*part);
                prop_assert!(share * whole < exact + whole && exact < share * whole + whole);
            }
        }

        #[test]
        fn shares_of_huge_amounts_and_parts_sum_to_total(
            total in any::<u128>(),
            parts in prop::collection::vec(1..u128::MAX / 50, 1..50),
        ) {
            let shares = apportion(total, &parts).unwrap();
            prop_assert_eq!(shares.iter().sum::<u128>(), total);
        }
    }

    #[test]
    fn largest_remainders_are_rounded_up() {
        assert_eq!(apportion(10, &[1_u64, 1, 1]).unwrap(), [4, 3, 3]);
        assert_eq!(apportion(7, &[3_u64, 2, 2]).unwrap(), [3, 2, 2]);
        assert_eq!(apportion(5, &[1_u128, 2, 1]).unwrap(), [1, 3, 1]);
        assert_eq!(apportion(5, &[0_u64, 0]), None);
        assert_eq!(apportion::<u64>(5, &[]), None);
    }
}
