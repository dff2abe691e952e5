//! Divides a time slice among holders, by what each was granted and what each used.
//!
//! All amounts are utilization × time. With g the parts granted, u the uses and T the time of the slice, a holder
//! pays for
//! - all that it used: u;
//! - what it was granted and did not use, max(0, g·T − u), less what others took of it. What holders use beyond
//!   their grants is taken from all that is not used, in proportion.
//!
//! *Nobody* counts as one more holder, whose grant is what is not granted, and whose use is what no known holder used. So
//! all amounts sum to T: Σu is the utilization of the GPU, and what is not used of grants, less what is taken of
//! it, is the rest.

use super::parts::Parts;
use crate::apportion::apportion;
use crate::units::{Nanos, PPM};

/// What is known of the use of a GPU over a slice.
#[derive(Clone, Copy, Debug)]
pub(super) enum Usage<'a> {
    /// What each holder used, in ppm·ns. What is more than the use of the GPU is scaled down to it.
    Known(&'a [u128]),
    /// Only that of the GPU. It is divided by grants; what is more than all grants is nobody's.
    Unknown,
    /// The same, but uses were known before: the part of those that were not touched is nobody's.
    Missing(&'a [bool]),
}

/// A slice, divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// What each holder used, in ppm·ns.
    pub(super) used: Vec<u128>,
    /// What was granted to each and not used by anybody, in ppm·ns ÷ `denominator`.
    pub(super) unused: Vec<u128>,
    /// What nobody known used, in ppm·ns.
    pub(super) hidden: u128,
    /// What was neither granted nor used, in ppm·ns ÷ `denominator`.
    pub(super) free: u128,
    pub(super) denominator: u128,
}

impl Shares {
    /// Divides this time, in which the GPU was used for `weighted` ppm·ns.
    pub(super) fn of(time: Nanos, weighted: u128, grants: &Parts, usage: Usage<'_>) -> Self {
        let denominator = u128::from(grants.denominator);
        // In ppm·ns ÷ denominator.
        let one = u128::from(time.0) * u128::from(PPM);
        let granted: Vec<u128> = grants.parts.iter().map(|part| one * u128::from(*part)).collect();
        let used = match usage {
            Usage::Known(uses) => {
                let excess = uses.iter().sum::<u128>() > weighted;
                let scaled = excess.then(|| apportion(weighted, uses)).flatten();
                scaled.unwrap_or_else(|| uses.to_vec())
            }
            Usage::Unknown => by_grant(one, weighted, grants),
            Usage::Missing(is_touched) => {
                let parts = by_grant(one, weighted, grants).into_iter().zip(is_touched);
                parts.map(|(part, is_touched)| if *is_touched { part } else { 0 }).collect()
            }
        };
        let hidden = weighted.saturating_sub(used.iter().sum());
        let not_granted = (one * denominator).saturating_sub(granted.iter().sum());
        let all = granted.iter().zip(&used).chain([(&not_granted, &hidden)]);
        let rests: Vec<u128> =
            all.map(|(granted, used)| granted.saturating_sub(used * denominator)).collect();
        // Of the rests, what was taken is left out.
        let idle = one.saturating_sub(weighted) * denominator;
        let mut unused = apportion(idle, &rests).unwrap_or_else(|| vec![0; rests.len()]);
        let free = unused.pop().unwrap_or_default();
        Self { used, unused, hidden, free, denominator }
    }
}

/// The use of a GPU, divided by grants; at most all that was granted.
fn by_grant(one: u128, weighted: u128, grants: &Parts) -> Vec<u128> {
    let all: u128 = grants.parts.iter().map(|part| u128::from(*part)).sum();
    let denominator = u128::from(grants.denominator);
    if weighted * denominator < one * all {
        apportion(weighted, &grants.parts).unwrap_or_default()
    } else {
        grants.parts.iter().map(|part| one * u128::from(*part) / denominator).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holder::Share;

    /// One million ns, so that a percent is 10⁴ · 10⁶ ppm·ns.
    fn divide(shares: &[Option<Share>], percent: u128, uses: Option<&[u128]>) -> Vec<u128> {
        let percent_of = |percent: u128| percent * 10_000 * 1_000_000;
        let uses = uses.map(|uses| uses.iter().copied().map(percent_of).collect::<Vec<_>>());
        let usage = uses.as_deref().map_or(Usage::Unknown, Usage::Known);
        let grants = Parts::of(shares);
        let divided = Shares::of(Nanos(1_000_000), percent_of(percent), &grants, usage);
        let scale = 10_000 * 1_000_000 * divided.denominator;
        let used = divided.used.iter().map(|used| used * divided.denominator / scale);
        let unused = divided.unused.iter().map(|unused| unused / scale);
        let nobody = divided.hidden * divided.denominator + divided.free;
        used.chain(unused).chain([nobody / scale]).collect()
    }

    const QUARTER: Option<Share> = Share::new(1, 4);
    const HALF: Option<Share> = Share::new(1, 2);

    #[test]
    fn exclusive_holder_uses_what_the_gpu_does() {
        assert_eq!(divide(&[Some(Share::WHOLE)], 80, None), [80, 20, 0]);
    }

    #[test]
    fn four_quarters_are_one_gpu() {
        assert_eq!(divide(&[QUARTER; 4], 40, None), [10, 10, 10, 10, 15, 15, 15, 15, 0]);
        let uses = [25, 15, 0, 0];
        assert_eq!(divide(&[QUARTER; 4], 40, Some(&uses)), [25, 15, 0, 0, 0, 10, 25, 25, 0]);
    }

    /// 25 points more than its grant are taken: of 50 that another leaves and 25 that nobody was granted.
    #[test]
    fn use_beyond_grant_is_taken_in_proportion() {
        let uses = [50, 0];
        assert_eq!(divide(&[QUARTER, HALF], 50, Some(&uses)), [50, 0, 0, 33, 16]);
    }

    #[test]
    fn hidden_use_is_nobodys() {
        let uses = [10, 10];
        assert_eq!(divide(&[HALF, HALF], 60, Some(&uses)), [10, 10, 20, 20, 40]);
        assert_eq!(
            divide(&[QUARTER], 90, None),
            [25, 0, 75],
            "without known uses, up to its grant"
        );
        assert_eq!(divide(&[], 90, None), [100]);
    }

    #[test]
    fn uses_are_scaled_to_that_of_the_gpu() {
        let uses = [90, 30];
        assert_eq!(divide(&[HALF, HALF], 80, Some(&uses)), [60, 20, 0, 20, 0]);
    }
}
