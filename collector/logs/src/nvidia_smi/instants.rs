//! Finds different rows of one GPU at one instant: they are of several GPUs that share an ID.
//!
//! Of a log in which instants do not recur, nothing is compared after its first rows.

use phasemeter_meter::reading::MissingReason;
use phasemeter_meter::units::{Bytes, Milliwatts, Timestamp, Utilization};

use super::entry::Entry;

/// Rows without a second one of the same GPU and instant, after which rows are no longer compared.
const QUIET: u32 = 1_000;

/// Successive instants of a GPU with different rows, after which the log is unusable.
const MAX_DIFFERENT: u32 = 8;

/// Compares the rows of each GPU and instant.
#[derive(Debug, Default)]
pub(super) struct Instants {
    gpus: Vec<Instant>,
    /// Rows since the last one of the same GPU and instant as another.
    quiet: u32,
}

/// The last instant of a GPU, and those before it.
#[derive(Clone, Debug, Default)]
struct Instant {
    first: Option<(Timestamp, Values, u64)>,
    differs: bool,
    /// Number of instants, of those with different rows, and of the successive ones up to the last.
    total: u32,
    different: u32,
    successive: u32,
    /// Lines of two different rows.
    example: (u64, u64),
}

/// The values by which two rows differ.
type Values = (Result<Utilization, MissingReason>, Option<Bytes>, Option<Milliwatts>);

/// A row differs from an earlier one of the same GPU and instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Different {
    /// The line of the first.
    pub(super) first: u64,
    /// Whether there are too many to be wrong rows.
    pub(super) is_usual: bool,
}

impl Instants {
    /// Whether rows are compared.
    pub(super) const fn is_active(&self) -> bool {
        self.quiet < QUIET
    }

    /// Records a row.
    pub(super) fn record(&mut self, entry: &Entry) -> Result<(), Different> {
        let at = entry.reading.at;
        if self.gpus.len() <= entry.gpu {
            self.gpus.resize(entry.gpu + 1, Instant::default());
        }
        let values = values(entry);
        // A row that is not compared may be here for being of the same instant.
        self.quiet = if self.is_active() { self.quiet + 1 } else { 0 };
        let Some(instant) = self.gpus.get_mut(entry.gpu) else { return Ok(()) };
        match instant.first {
            Some((known, first, line)) if known == at => {
                self.quiet = 0;
                if first == values {
                    return Ok(());
                }
                instant.mark_different((entry.line, line));
                Err(Different { first: line, is_usual: instant.successive >= MAX_DIFFERENT })
            }
            Some((known, ..)) if known > at => Ok(()),
            _ => {
                if !std::mem::take(&mut instant.differs) {
                    instant.successive = 0;
                }
                instant.total = instant.total.saturating_add(1);
                instant.first = Some((at, values, entry.line));
                Ok(())
            }
        }
    }

    /// The GPU of which at least half of all instants have different rows, with the lines of two of them.
    pub(super) fn usually_different(&self) -> Option<(usize, u64, u64)> {
        let is_half = |gpu: &Instant| gpu.different > 0 && gpu.different >= gpu.total.div_ceil(2);
        let gpu = self.gpus.iter().position(is_half)?;
        let (line, first) = self.gpus.get(gpu)?.example;
        Some((gpu, line, first))
    }
}

impl Instant {
    fn mark_different(&mut self, lines: (u64, u64)) {
        self.example = lines;
        if !std::mem::replace(&mut self.differs, true) {
            self.different = self.different.saturating_add(1);
            self.successive = self.successive.saturating_add(1);
        }
    }
}

/// The values by which a row differs from another.
fn values(entry: &Entry) -> Values {
    (entry.reading.utilization, entry.reading.memory_used, entry.reading.power)
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::reading::Reading;

    use super::*;

    fn row(second: u64, percent: u32) -> Entry {
        let utilization = Ok(Utilization::from_percent(percent).unwrap());
        let at = Timestamp::from_millis(second * 1_000).unwrap();
        Entry { reading: Reading { utilization, ..Reading::at(at) }, line: second, ..Entry::EMPTY }
    }

    #[test]
    fn repeated_rows_are_harmless() {
        let mut instants = Instants::default();
        for second in 0..2_000 {
            assert_eq!(instants.record(&row(second, 5)), Ok(()));
            assert_eq!(instants.record(&row(second, 5)), Ok(()));
        }
        assert_eq!(instants.usually_different(), None);
    }

    #[test]
    fn one_different_row_costs_itself() {
        let mut instants = Instants::default();
        for second in 0..100 {
            instants.record(&row(second, 5)).unwrap();
        }
        let found = instants.record(&row(99, 7));
        assert_eq!(found, Err(Different { first: 99, is_usual: false }));
        assert_eq!(instants.usually_different(), None);
    }

    #[test]
    fn different_rows_of_successive_instants_are_of_several_gpus() {
        let mut instants = Instants::default();
        let mut found = Ok(());
        for second in 0..8 {
            instants.record(&row(second, 5)).unwrap();
            found = instants.record(&row(second, 95));
        }
        assert_eq!(found, Err(Different { first: 7, is_usual: true }));
        assert_eq!(instants.usually_different(), Some((0, 7, 7)));
    }

    #[test]
    fn rows_are_compared_until_instants_do_not_recur() {
        let mut instants = Instants::default();
        for second in 0..1_000 {
            assert!(instants.is_active());
            instants.record(&row(second, 5)).unwrap();
        }
        assert!(!instants.is_active());
        instants.record(&row(1_000, 5)).unwrap();
        assert!(instants.is_active());
    }
}
