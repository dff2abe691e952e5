//! What a log held that no reading could be made of: the first hundred rows are kept with their
//! reason, all are counted.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::error::HeaderError;

/// Rows that are kept with their reason.
const MAX_KEPT: usize = 100;

/// The rows that were left out, over all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedRows {
    /// The first hundred, as they were met.
    pub first: Vec<RejectedRow>,
    /// How many there were.
    pub total: u64,
}

/// One row that was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedRow {
    /// Its log, as the user named it.
    pub file: Arc<str>,
    /// Its line in the file, from 1.
    pub line: u64,
    /// Why it was left out, in words that follow "line 3: ".
    pub reason: String,
}

impl RejectedRows {
    pub(super) fn record(
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

    /// Adds what another one booked.
    pub(super) fn merge(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        let free = MAX_KEPT.saturating_sub(self.first.len());
        self.first.extend(other.first.into_iter().take(free));
    }
}

/// Why the reader left a row out.
#[derive(Debug, thiserror::Error)]
pub(super) enum RejectReason {
    #[error("the number of its cells is {found}, of columns {expected}")]
    CellCount { found: usize, expected: usize },
    #[error("no readable timestamp")]
    Timestamp,
    #[error("longer than 64 KiB")]
    TooLong,
    #[error("no readable id of its GPU")]
    NoGpuId,
    #[error("one GPU more than the {0} that a log may have")]
    TooManyGpus(usize),
    #[error("a header that cannot be used: {0}")]
    Header(HeaderError),
    #[error("under a header that cannot be used")]
    NoColumns,
    #[error("the compressed data is damaged or cut off from here on: {0}")]
    Corrupt(io::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_a_hundred_kept() {
        let (mut rejected, file) = (RejectedRows::default(), Arc::from("a.csv"));
        for line in 1..=250 {
            rejected.record(&file, line, &RejectReason::Timestamp);
        }
        assert_eq!(rejected.total, 250);
        assert_eq!(rejected.first.len(), 100);
        assert_eq!(rejected.first.last().unwrap().line, 100);
    }
}
