//! Finds preallocated memory: a large block of constant size, of which readings do not tell how much is
//! in use.

use crate::units::Bytes;

/// Share of the memory from which a block of constant size may be preallocated. A smaller one is treated as
/// in use. An assumption: frameworks that preallocate take most of the memory.
const MIN_SHARE: f64 = 0.5;

/// Its maximum variation, as a share of the memory. An assumption.
const VARIATION: f64 = 0.002;

/// Part of the column that is left out at its start: frameworks allocate after a while. An assumption.
const STARTUP: usize = 20;

/// The share of the memory that is preallocated, 0.5–1, from a column of the memory in use in bytes, NaN
/// where unobserved. `None` if it is not, or if that is unknown.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a share for evaluation")]
pub fn share(column: &[f64], total: Bytes) -> Option<f64> {
    let total = total.get() as f64;
    let observed = |points: &[f64]| {
        let observed = points.iter().copied().filter(|value| !value.is_nan());
        observed.fold(None, |range: Option<(f64, f64)>, value| {
            let (low, high) = range.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        })
    };
    let (_, peak) = observed(column)?;
    let (low, high) = observed(column.get(column.len() / STARTUP..)?)?;
    (high - low <= VARIATION * total && peak >= MIN_SHARE * total && peak <= total)
        .then(|| peak / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOTAL: Bytes = Bytes::from_mebibytes(80 << 10).unwrap();

    /// The share of a column of 600 points, in GiB.
    fn of(memory: impl Fn(u32) -> f64) -> Option<f64> {
        let column: Vec<_> = (0..600).map(|point| memory(point) * f64::from(1 << 30)).collect();
        share(&column, TOTAL)
    }

    #[test]
    fn large_constant_block_is_preallocated() {
        assert_eq!(of(|_| 60.0), Some(0.75));
        assert_eq!(of(|_| 40.0), Some(0.5));
        assert_eq!(of(|_| 39.9), None, "smaller than half");
        assert_eq!(of(|point| if point < 20 { 1.0 } else { 60.0 }), Some(0.75), "after its start");
        assert_eq!(of(|point| if point < 40 { 1.0 } else { 60.0 }), None);
        assert_eq!(of(|point| 60.0 + f64::from(point % 7)), None);
        assert_eq!(of(|point| 60.0 + f64::from(point % 2) * 0.15), Some(60.15 / 80.0));
        assert_eq!(of(|point| if point % 2 == 0 { f64::NAN } else { 60.0 }), Some(0.75));
    }

    #[test]
    fn unobserved_memory_is_unknown() {
        assert_eq!(share(&[], TOTAL), None);
        assert_eq!(of(|_| f64::NAN), None);
        assert_eq!(of(|point| if point < 20 { 60.0 } else { f64::NAN }), None);
        assert_eq!(of(|_| 90.0), None, "more than there is");
    }
}
