//! Lengths of time: how many, how long on average, and how alike.

use crate::units::Nanos;

/// Parts of a binary logarithm that are counted.
const PARTS: f64 = 1_024.0;

/// The logarithm of the longest time, in these parts.
const LONGEST: f64 = 64.0 * PARTS;

/// Lengths of time. Its fields only grow, so what was added since an earlier state is their difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Their number.
    pub count: u64,
    /// Their sum.
    pub total: Nanos,
    /// The sum of their binary logarithms, of nanoseconds, in 1,024ths.
    pub logarithms: u64,
    /// The sum of the squares of these.
    pub squares: u64,
}

impl Lengths {
    pub(crate) fn add(&mut self, length: Nanos) {
        let logarithm = logarithm(length);
        self.count += 1;
        self.total += length;
        self.logarithms = self.logarithms.saturating_add(logarithm);
        self.squares = self.squares.saturating_add(logarithm * logarithm);
    }

    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            count: self.count.saturating_sub(earlier.count),
            total: Nanos(self.total.0.saturating_sub(earlier.total.0)),
            logarithms: self.logarithms.saturating_sub(earlier.logarithms),
            squares: self.squares.saturating_sub(earlier.squares),
        }
    }

    /// Their mean; `None` if there are none.
    #[must_use]
    pub fn mean(self) -> Option<Nanos> {
        self.total.0.checked_div(self.count).map(Nanos)
    }

    /// Their geometric standard deviation: at least 1, and 1 if all are equal or there are none. Two thirds of them are
    /// mostly between the mean divided by it and the mean times it, and a single one that is much longer changes it little.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "of sums")]
    pub fn deviation(self) -> f64 {
        let count = self.count.max(1) as f64;
        let mean = self.logarithms as f64 / count;
        let variance = self.squares as f64 / count - mean * mean;
        // Below a part, it is an error of rounding.
        let deviation = variance.max(0.0).sqrt().min(LONGEST);
        if deviation < 1.0 { 1.0 } else { (deviation / PARTS).exp2() }
    }
}

/// The binary logarithm of a length in 1,024ths: at most 65,536.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "from 0 to 65,536"
)]
fn logarithm(length: Nanos) -> u64 {
    ((length.0.max(1) as f64).log2() * PARTS).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(seconds: &[u64]) -> Lengths {
        let mut lengths = Lengths::default();
        seconds.iter().for_each(|length| lengths.add(Nanos::from_secs(*length)));
        lengths
    }

    #[test]
    fn equal_lengths_do_not_deviate() {
        assert!((Lengths::default().deviation() - 1.0).abs() < 1e-9);
        assert!((of(&[170; 500]).deviation() - 1.0).abs() < 1e-9);
        assert_eq!(of(&[10, 20]).mean(), Some(Nanos::from_secs(15)));
        assert_eq!(of(&[]).mean(), None);
    }

    #[test]
    fn deviation_is_a_factor() {
        // Logarithms of 7 and 9: one from their mean.
        assert!((of(&[128, 512]).deviation() - 2.0).abs() < 0.01);
        let mut mostly_alike = [180; 100];
        mostly_alike[50] = 7_200;
        assert!(of(&mostly_alike).deviation() < 1.5);
    }

    #[test]
    fn earlier_lengths_are_left_out() {
        let mut lengths = of(&[5, 5_000]);
        let earlier = lengths;
        lengths.add(Nanos::from_secs(60));
        assert_eq!(lengths.since(earlier), of(&[60]));
    }
}
