//! How long a reading is valid.

use super::*;

#[test]
fn stale_after_fixed_needs_no_estimate() {
    assert_eq!(StaleAfter::Estimated.fixed(), None);
    assert_eq!(StaleAfter::Fixed(Nanos(7)).fixed(), Some(Nanos(7)));
    assert_eq!(StaleAfter::from_interval(Nanos::from_secs(2)).fixed(), Some(Nanos::from_secs(6)));
    assert_eq!(StaleAfter::from_interval(Nanos(1)).fixed(), Some(Nanos::SECOND));
}

/// Fifty long intervals, then short ones: the 51st short one decides.
#[test]
fn estimate_needs_only_the_first_readings() {
    let times: Vec<_> =
        (0..200_u64).map(|i| at(i.min(50) * 10_000 + i.saturating_sub(50) * 2_000)).collect();
    let first = estimate(times.iter().copied().take(READINGS_NEEDED));
    assert_eq!(first, Nanos::from_secs(6));
    assert_eq!(first, estimate(times.iter().copied()));
    assert_eq!(estimate(times.iter().copied().take(READINGS_NEEDED - 1)), Nanos::from_secs(30));
}
