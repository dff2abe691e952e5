//! What to know about a bill: reports that were skipped, and what is missing or doubtful in others.

use phasemeter_meter::money::NanoUsd;
use phasemeter_terminal::number::counted;

use crate::dimension::Dimension;
use crate::format::dollars;
use crate::report::{Gpu, Report};

/// Maximum number of notes of one kind.
const MAX_NOTES: usize = 10;

/// Notes on the reports.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// Reports that occur several times.
    pub(crate) identical: NoteList,
    conflicting: NoteList,
    /// Reports that were rejected.
    pub(crate) skipped: NoteList,
    unpriced: NoteList,
    estimated: NoteList,
    /// GPUs of which it is unknown whether they are billed twice.
    pub(crate) unidentified: usize,
    /// Periods longer than a day.
    pub(crate) long_periods: usize,
    /// Cost of holders that reports do not keep apart, of which not all is known that the bill is split by.
    pub(crate) not_apart: NanoUsd,
    /// Parts of GPUs that were divided at the ends of days or months.
    pub(crate) divided_parts: usize,
}

/// The first notes of one kind, and their number.
#[derive(Debug, Default)]
pub(crate) struct NoteList {
    first: Vec<String>,
    total: usize,
}

impl Notes {
    /// Names attributes of a report that contradict each other.
    pub(crate) fn conflicts(&mut self, by: &[Dimension], file: &str, report: &Report) {
        for dimension in by {
            if let Some([(name, value), (other, different)]) =
                dimension.conflict(&report.experiment)
            {
                self.conflicting.push(format!(
                    "{file}: {name} is {value:?} and {other} is {different:?}; the first counts"
                ));
            }
        }
    }

    /// Names a report in which prices are missing or estimates.
    pub(crate) fn prices(&mut self, file: &str, report: &Report) {
        let all = report.gpus.len();
        let of_all = |count: usize| match (count, all) {
            (1, 1) => "its GPU".to_owned(),
            (count, all) if count == all => format!("all {all} GPUs"),
            (count, all) => format!("{count} of {all} GPUs"),
        };
        let has = |count: usize| if count == 1 { "has" } else { "have" };
        let unpriced = report.gpus.iter().filter(|gpu| gpu.cost_usd.is_none()).count();
        if unpriced > 0 {
            self.unpriced.push(format!(
                "{file}: {} {} no price; set --price when the report is written",
                of_all(unpriced),
                has(unpriced)
            ));
        }
        let is_estimated = |gpu: &&Gpu| gpu.range_of(NanoUsd::ZERO).is_some();
        let estimated = report.gpus.iter().filter(is_estimated).count();
        if estimated > 0 {
            self.estimated.push(format!(
                "{file}: the price of {} is an estimate; set --price or --provider when the report is written",
                of_all(estimated)
            ));
        }
    }

    /// All of them, one sentence each without its full stop.
    pub(crate) fn into_sentences(self) -> Vec<String> {
        let mut notes = Vec::new();
        for list in [self.skipped, self.identical, self.conflicting, self.unpriced, self.estimated]
        {
            let more = list.total - list.first.len();
            notes.extend(list.first);
            if more > 0 {
                notes.push(format!("and {more} more like the last"));
            }
        }
        if self.unidentified > 0 {
            notes.push(format!(
                "{} GPUs have neither a UUID nor a host and an index, so it is unchecked whether they \
                 are billed twice; log the column uuid",
                self.unidentified
            ));
        }
        if self.long_periods > 0 {
            notes.push(format!(
                "{} periods are longer than a day and count on their first one",
                self.long_periods
            ));
        }
        if self.not_apart > NanoUsd::ZERO {
            notes.push(format!(
                "{} of holders that ended early in long runs is not split further; write reports with \
                 --report-period",
                dollars(self.not_apart)
            ));
        }
        if self.divided_parts > 0 {
            notes.push(format!(
                "the end of a day or month of the bill divides {} by time; shorter reports are exact",
                counted(self.divided_parts as u64, "allocation")
            ));
        }
        notes
    }
}

impl NoteList {
    /// Adds one.
    pub(crate) fn push(&mut self, note: String) {
        self.total += 1;
        if self.first.len() < MAX_NOTES {
            self.first.push(note);
        }
    }
}
