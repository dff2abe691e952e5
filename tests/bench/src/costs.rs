//! Times of repeated runs, printed as a table row.

use std::time::Duration;

/// CPU or wall times of runs over the same rows.
pub(crate) struct Costs {
    rows: u64,
    times: Vec<Duration>,
}

impl Costs {
    /// No runs yet; each processes this many rows.
    pub(crate) const fn over(rows: u64) -> Self {
        Self { rows, times: Vec::new() }
    }

    /// Adds a run.
    pub(crate) fn add(&mut self, time: Duration) {
        self.times.push(time);
        self.times.sort_unstable();
    }

    /// Nanoseconds per row in the best run.
    fn best(&self) -> Option<f64> {
        self.times.first().map(|time| self.nanos_per_row(*time))
    }

    /// Nanoseconds per row in the median run.
    fn median(&self) -> Option<f64> {
        self.times.get(self.times.len() / 2).map(|time| self.nanos_per_row(*time))
    }

    fn nanos_per_row(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e9 / self.rows as f64
    }

    /// Prints the header of a table of these times.
    pub(crate) fn print_header(of: &str) {
        println!("{of:28}{:>12}{:>12}{:>16}{:>10}", "best", "median", "rows per second", "ratio");
    }

    /// Prints best, median, peak rows per second, and the ratio to another's best.
    pub(crate) fn print(&self, name: &str, other: &Self) {
        let (Some(best), Some(median)) = (self.best(), self.median()) else {
            return;
        };
        let ratio = other.best().map_or_else(|| "–".to_owned(), |of| format!("{:.2}", best / of));
        let millions = 1e3 / best;
        println!("{name:28}{best:>9.1} ns{median:>9.1} ns{millions:>14.1} M{ratio:>10}");
    }
}

/// A number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (position, digit) in (0..digits.len()).rev().zip(digits.chars()) {
        text.push(digit);
        if position > 0 && position % 3 == 0 {
            text.push(',');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_report_best_and_median() {
        let mut costs = Costs::over(1_000);
        for millis in [3, 1, 2] {
            costs.add(Duration::from_millis(millis));
        }
        assert_eq!(costs.best(), Some(1_000.0));
        assert_eq!(costs.median(), Some(2_000.0));
    }

    #[test]
    fn grouped_separates_thousands() {
        assert_eq!([0, 999, 1_000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
    }
}
