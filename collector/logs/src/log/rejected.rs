//! Rejected rows: all are counted, and the first hundred are kept with their reason.

use std::fmt;
use std::sync::Arc;

/// Maximum number of rows kept with their reason.
const MAX_KEPT: usize = 100;

/// The rejected rows of all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedRows {
    /// The first hundred, in order of occurrence.
    pub first: Vec<RejectedRow>,
    /// How many there were.
    pub total: u64,
}

/// One rejected row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRow {
    /// Its log, as given by the user.
    pub file: Arc<str>,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Why it was rejected, to follow "line 3: ".
    pub reason: String,
}

impl RejectedRows {
    pub(crate) fn record(
        &mut self,
        file: &Arc<str>,
        line: u64,
        reason: &(impl fmt::Display + ?Sized),
    ) {
        self.total = self.total.saturating_add(1);
        if self.first.len() < MAX_KEPT {
            let (file, reason) = (Arc::clone(file), reason.to_string());
            self.first.push(RejectedRow { file, line, reason });
        }
    }

    /// The rows rejected after the first `total`, of which `kept` were kept.
    pub(crate) fn since(&self, kept: usize, total: u64) -> Self {
        let first = self.first.get(kept..).unwrap_or_default().to_vec();
        Self { first, total: self.total.saturating_sub(total) }
    }

    /// Adds the rejected rows of another log.
    pub(crate) fn merge(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        let free = MAX_KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(free));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rows_are_counted_and_hundred_kept() {
        let (mut rejected, file) = (RejectedRows::default(), Arc::from("a.csv"));
        for line in 1..=250 {
            rejected.record(&file, line, "invalid timestamp");
        }
        assert_eq!(rejected.total, 250);
        assert_eq!(rejected.first.len(), 100);
        assert_eq!(rejected.first.last().unwrap().line, 100);
    }
}
