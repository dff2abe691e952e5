//! Division of whole amounts in proportion to parts, by largest remainder.

/// Divides `total` in proportion to `parts`. The results sum to `total`, and each is its exact share,
/// rounded down or up. Of equal remainders the earlier ones are rounded up. Without any part, the first
/// takes all.
///
/// Each part must be less than 2^63, and so must their sum.
pub(crate) fn apportion(total: u128, parts: &[u64]) -> Vec<u128> {
    let whole: u128 = parts.iter().map(|&part| u128::from(part)).sum();
    if whole == 0 {
        let mut shares = vec![0; parts.len()];
        if let Some(first) = shares.first_mut() {
            *first = total;
        }
        return shares;
    }
    // total × part ÷ whole, split so that no product exceeds 128 bits.
    let (quotient, remainder) = (total / whole, total % whole);
    let mut shares = Vec::with_capacity(parts.len());
    let mut remainders = Vec::with_capacity(parts.len());
    for &part in parts {
        let rest = remainder * u128::from(part);
        shares.push(quotient * u128::from(part) + rest / whole);
        remainders.push(rest % whole);
    }
    let missing = total - shares.iter().sum::<u128>();
    round_up(&mut shares, &remainders, missing);
    shares
}

/// Adds one to the shares with the largest remainders, `missing` times.
pub(crate) fn round_up(shares: &mut [u128], remainders: &[u128], missing: u128) {
    let mut missing = usize::try_from(missing).unwrap_or(usize::MAX);
    let mut order: Vec<usize> = (0..shares.len()).collect();
    while missing > 0 && !order.is_empty() {
        let count = missing.min(order.len());
        if count < order.len() {
            order.select_nth_unstable_by(count, |&a, &b| {
                remainders[b].cmp(&remainders[a]).then(a.cmp(&b))
            });
        }
        for &index in &order[..count] {
            shares[index] += 1;
        }
        missing -= count;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_sum_to_total_and_are_within_one_of_exact(
            total in 0..u128::from(u64::MAX),
            parts in prop::collection::vec(0..1_u64 << 40, 1..50),
        ) {
            let shares = apportion(total, &parts);
            prop_assert_eq!(shares.iter().sum::<u128>(), total);
            let whole: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            if whole > 0 {
                for (share, part) in shares.iter().zip(&parts) {
                    let exact = total * u128::from(*part);
                    prop_assert!(share * whole < exact + whole && exact < share * whole + whole);
                }
            }
        }
    }

    #[test]
    fn largest_remainders_are_rounded_up() {
        assert_eq!(apportion(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(apportion(7, &[3, 2, 2]), [3, 2, 2]);
        assert_eq!(apportion(5, &[0, 0]), [5, 0]);
        assert_eq!(apportion(5, &[]), Vec::<u128>::new());
    }
}
