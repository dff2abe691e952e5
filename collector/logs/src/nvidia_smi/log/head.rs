//! The first rows of a log, which are read ahead.

use std::num::NonZeroU32;

use super::super::admission::Step;
use super::super::columns::GpuIdentification;
use super::super::entry::Entry;
use super::super::error::LogErrorKind;
use super::super::interleave::{Fit, Head};
use super::super::local_clock::shifted;
use super::super::row_order::RowOrder;
use super::Log;
use crate::SourceError;
use crate::log::RejectedRows;

/// Number of rows to read ahead.
const HEAD: usize = 1_000;

impl Log {
    /// Reads the first rows, which show how GPUs are identified.
    pub(super) fn read_head(
        &mut self,
        gpus: Option<NonZeroU32>,
        rejected: &mut RejectedRows,
    ) -> Result<(), SourceError> {
        let (mut head, mut rows, mut steps) = (Head::default(), 0, Vec::new());
        while rows < HEAD {
            let step = self.step(rejected)?;
            match step {
                Step::Reading => head.push(self.entry.reading.at),
                Step::Rejected => head.push_torn(),
                Step::Header => head.push_header(),
                Step::End => {}
            }
            rows += usize::from(matches!(step, Step::Reading | Step::Rejected));
            steps.push((step, self.entry));
            if step == Step::End {
                break;
            }
        }
        let is_reading = |(step, _): &&(Step, Entry)| *step == Step::Reading;
        let readings = || steps.iter().filter(is_reading).map(|(_, entry)| *entry);
        if self.decoder.gpu_identification == GpuIdentification::RowOrder {
            let tick = self.tick_length(&head, gpus)?;
            self.decoder.registry.insert_positions(tick);
            self.assumed_single_gpu = tick == 1 && gpus.is_none();
            let spacing = head.spacing(tick).filter(|_| tick > 1);
            self.admission.set_row_order(spacing.map(|spacing| RowOrder::new(tick, spacing)));
        } else if let Some(requested) = gpus {
            // GPUs are numbered in order of appearance, so the first tick counts up.
            let found = readings().zip(0..).take_while(|(entry, row)| entry.gpu == *row).count();
            if requested.get() as usize != found {
                return Err(
                    self.error(LogErrorKind::GpusIdentified { requested: requested.get(), found })
                );
            }
        }
        if !self.admission.is_by_order() && (self.is_identified() || gpus.is_some()) {
            self.admission.detect_fast_log(&readings().collect::<Vec<_>>());
        }
        let mut shift = 0;
        for (step, entry) in steps {
            if let Some(entry) = shifted(entry, shift) {
                shift += self.accept(step, entry, rejected)?;
            }
        }
        if !self.advance(rejected)? {
            return Err(self.error(no_rows(rejected)));
        }
        Ok(())
    }

    /// Whether rows have IDs.
    fn is_identified(&self) -> bool {
        self.decoder.gpu_identification != GpuIdentification::RowOrder
    }

    /// The number of rows per tick, by the spacing of rows and `--gpu-count`.
    fn tick_length(&self, head: &Head, gpus: Option<NonZeroU32>) -> Result<usize, SourceError> {
        let candidates = || head.candidates();
        let kind = match gpus.map(NonZeroU32::get) {
            Some(1) => return Ok(1),
            Some(requested) => match (head.fit(requested), candidates()) {
                (Fit::Match, _) => return Ok(requested as usize),
                (Fit::Possible, candidates) if candidates.is_empty() => {
                    return Ok(requested as usize);
                }
                (Fit::TooShort, candidates) if candidates.is_empty() => {
                    LogErrorKind::TooShort { requested }
                }
                (_, candidates) => LogErrorKind::GpuCountMismatch { requested, candidates },
            },
            None => match candidates() {
                candidates if candidates.is_empty() => return Ok(1),
                candidates => LogErrorKind::GpuCountRequired { candidates },
            },
        };
        Err(self.error(kind))
    }
}

/// The error of a log without valid rows.
fn no_rows(rejected: &RejectedRows) -> LogErrorKind {
    match rejected.first.first() {
        Some(row) => LogErrorKind::NoValidRow { line: row.line, reason: row.reason.clone() },
        None => LogErrorKind::NoRows,
    }
}
