//! The parts of a GPU that holders were granted, with one denominator.

use crate::share::{Share, gcd};

/// The largest denominator with which parts are exact. Shares with a larger one are rounded down.
const MAX_DENOMINATOR: u64 = 1 << 32;

/// Parts of a GPU. They sum to at most the denominator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) parts: Vec<u64>,
    pub(super) denominator: u64,
}

impl Parts {
    /// The parts of these shares. Those that are unknown (`None`) divide equally what others leave. Shares that
    /// sum to more than the GPU are parts of their sum.
    pub(super) fn of(shares: &[Option<Share>]) -> Self {
        let known = || shares.iter().flatten().map(|share| share.ratio());
        let unknown = u64::try_from(shares.iter().filter(|share| share.is_none()).count());
        let unknown = unknown.unwrap_or(u64::MAX).max(1);
        let exact = known().try_fold(1_u64, |multiple, (_, of)| {
            let common = lcm(multiple, of.into());
            Some(common).filter(|common| *common <= MAX_DENOMINATOR / unknown.min(MAX_DENOMINATOR))
        });
        let whole = exact.unwrap_or(MAX_DENOMINATOR / unknown);
        let part = |(parts, of): (u32, u32)| {
            let part = u128::from(whole) * u128::from(parts) / u128::from(of.max(1));
            u64::try_from(part).unwrap_or(whole)
        };
        let granted: u64 = known().map(part).sum();
        // The rest is whole as a multiple of `unknown`, so that each of those has the same part.
        let rest = whole.saturating_sub(granted);
        let parts = shares.iter().map(|share| match share {
            Some(share) => part(share.ratio()) * unknown,
            None => rest,
        });
        Self { parts: parts.collect(), denominator: whole.max(granted) * unknown }
    }
}

/// The least common multiple, at most 2⁶⁴ − 1.
fn lcm(a: u64, b: u64) -> u64 {
    let (a, b) = (u128::from(a), u128::from(b));
    u64::try_from(a / gcd(a, b).max(1) * b).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(shares: &[(u32, u32)]) -> (Vec<u64>, u64) {
        // 0 of 0 stands for unknown.
        let shares: Vec<_> = shares.iter().map(|(parts, of)| Share::new(*parts, *of)).collect();
        let Parts { parts, denominator } = Parts::of(&shares);
        (parts, denominator)
    }

    #[test]
    fn parts_have_one_denominator() {
        assert_eq!(parts(&[(1, 1)]), (vec![1], 1));
        assert_eq!(parts(&[(1, 4), (1, 6)]), (vec![3, 2], 12));
        assert_eq!(parts(&[]), (vec![], 1));
    }

    #[test]
    fn unknown_shares_divide_equally_what_others_leave() {
        assert_eq!(parts(&[(0, 0), (0, 0), (0, 0)]), (vec![1, 1, 1], 3));
        assert_eq!(parts(&[(1, 4), (0, 0), (0, 0)]), (vec![2, 3, 3], 8));
        assert_eq!(parts(&[(1, 1), (0, 0)]), (vec![1, 0], 1));
    }

    #[test]
    fn more_than_the_gpu_is_divided_in_proportion() {
        assert_eq!(parts(&[(1, 1), (1, 1), (1, 2)]), (vec![2, 2, 1], 5));
    }

    #[test]
    fn large_denominators_are_rounded_down() {
        let primes = [(1, 4_294_967_291), (1, 4_294_967_279), (1, 3)];
        let (parts, denominator) = parts(&primes);
        assert_eq!((parts[2], denominator), (MAX_DENOMINATOR / 3, MAX_DENOMINATOR));
        assert!(parts.iter().sum::<u64>() <= denominator);
    }
}
