//! The output of `dcgmi dmon`: a header with short names of fields, and a row per entity and tick.
//!
//! Rows have no time of their own: a time precedes each line, as `ts` writes it, or ticks are counted from
//! a given start. Must not depend on which fields are used.

use std::borrow::Cow;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::error::LineError;
use super::format::{after_time, is_dmon_header};
use super::sample::Sample;

/// Before the short name of a field in the name of its metric.
const PREFIX: &str = "dcgmi.dmon.";

/// Maximum number of fields of a row.
const MAX_FIELDS: usize = 256;

/// The times of rows without any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmonTimes {
    /// The first tick.
    pub start: Timestamp,
    /// Between two ticks: the option `-d`.
    pub interval: Nanos,
}

/// Decodes rows, which depend on the header before them.
#[derive(Clone, Debug)]
pub(super) struct DmonDecoder {
    times: Option<DmonTimes>,
    fields: Vec<String>,
    /// The entities of the current tick.
    tick: Vec<(String, String)>,
    ticks: u64,
}

impl DmonDecoder {
    pub(super) const fn new(times: Option<DmonTimes>) -> Self {
        Self { times, fields: Vec::new(), tick: Vec::new(), ticks: 0 }
    }

    /// Reads a line: the samples of an entity, none if it is not a row.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Result<Vec<Sample<'a>>, LineError> {
        let (at, line) = after_time(line.trim());
        let line = line.trim();
        if line.is_empty() || line.starts_with("dmon was stopped") {
            return Ok(Vec::new());
        }
        if is_dmon_header(line) {
            self.header(line);
            return Ok(Vec::new());
        }
        let mut words = line.split_whitespace();
        let (kind, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // The units of the fields.
        if kind.eq_ignore_ascii_case("id") {
            return Ok(Vec::new());
        }
        if self.fields.is_empty() {
            return Err(LineError::NoHeader);
        }
        let number: Option<u32> = id.parse().ok();
        let cells = after_words(line, 2);
        // Text may have single blanks.
        let cells: Vec<&str> =
            cells.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
        if number.is_none() || cells.len() != self.fields.len() {
            return Err(LineError::CellCount { expected: self.fields.len(), found: cells.len() });
        }
        let at = self.time(at, kind, id)?;
        let labels = match kind {
            "GPU" => vec![(Cow::Borrowed("gpu"), Cow::Borrowed(id))],
            // Of MIG instances and of links nothing is read.
            _ => return Ok(Vec::new()),
        };
        let sample = |(field, cell): (&String, &&'a str)| {
            let number = match *cell {
                // Not supported.
                "N/A" => f64::NAN,
                text => text.parse().ok()?,
            };
            let metric = Cow::Owned(format!("{PREFIX}{field}"));
            Some(Sample { metric, labels: labels.clone(), at: Some(at), number })
        };
        Ok(self.fields.iter().zip(&cells).filter_map(sample).collect())
    }

    fn header(&mut self, line: &str) {
        let names = after_words(line.trim_start_matches(['#', ' ']), 1).split_whitespace();
        let names = names.filter(|name| !name.eq_ignore_ascii_case("id")).take(MAX_FIELDS);
        self.fields = names.map(str::to_owned).collect();
    }

    /// The time of a row. A tick begins with an entity that the one before it has.
    fn time(&mut self, own: Option<Instant>, kind: &str, id: &str) -> Result<Timestamp, LineError> {
        if let Some(Instant(at)) = own {
            return Ok(at);
        }
        let DmonTimes { start, interval } = self.times.ok_or(LineError::NoRowTime)?;
        if self.tick.iter().any(|(known, number)| known == kind && number == id) {
            self.tick.clear();
            self.ticks = self.ticks.saturating_add(1);
        }
        self.tick.push((kind.to_owned(), id.to_owned()));
        let nanos = start.as_nanos().checked_add(interval.saturating_mul(self.ticks).0);
        nanos.and_then(Timestamp::from_nanos).ok_or(LineError::Time)
    }
}

/// What follows the first `count` words.
fn after_words(text: &str, count: usize) -> &str {
    (0..count).fold(text.trim_start(), |rest, _| {
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        rest.get(end..).unwrap_or_default().trim_start()
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As DCGM 4 prints it.
    const OUTPUT: &str = "\
#Entity   GPUTL       POWER         DVNAM                 SMACT       
ID                    W                                               
GPU 0     37          61.500        NVIDIA L4             0.371       
GPU 1     N/A         N/A           NVIDIA L4             N/A         
GPU-I 0   N/A         N/A           NVIDIA L4             0.100       
GPU 0     100         72.125        NVIDIA L4             1.000       


dmon was stopped do to receiving a signal
";

    fn start() -> Timestamp {
        Timestamp::from_millis(1_785_110_400_000).unwrap()
    }

    fn times() -> Option<DmonTimes> {
        Some(DmonTimes { start: start(), interval: Nanos::from_millis(500) })
    }

    /// The samples of a text: milliseconds since the start, GPU, field and number.
    fn samples(times: Option<DmonTimes>, text: &str) -> Vec<(u64, String, String, f64)> {
        let mut decoder = DmonDecoder::new(times);
        let lines = text.lines().flat_map(|line| decoder.line(line).unwrap());
        let brief = |sample: Sample<'_>| {
            let at = sample.at.unwrap().since(start()).0 / 1_000_000;
            let field = sample.metric.strip_prefix(PREFIX).unwrap().to_owned();
            (at, sample.label("gpu").unwrap().to_owned(), field, sample.number)
        };
        lines.map(brief).collect()
    }

    fn expected(times: [u64; 2]) -> Vec<(u64, String, String, f64)> {
        let [first, second] = times;
        let row = |at: u64, gpu: &str, field: &str, number| {
            (at, gpu.to_owned(), field.to_owned(), number)
        };
        vec![
            row(first, "0", "GPUTL", 37.0),
            row(first, "0", "POWER", 61.5),
            row(first, "0", "SMACT", 0.371),
            row(second, "0", "GPUTL", 100.0),
            row(second, "0", "POWER", 72.125),
            row(second, "0", "SMACT", 1.0),
        ]
    }

    #[test]
    fn rows_are_timed_by_ticks() {
        let (missing, found): (Vec<_>, Vec<_>) =
            samples(times(), OUTPUT).into_iter().partition(|sample| sample.3.is_nan());
        assert_eq!(found, expected([0, 500]));
        assert_eq!(missing.len(), 3);
        assert!(missing.iter().all(|(at, gpu, ..)| (*at, gpu.as_str()) == (0, "1")));
    }

    #[test]
    fn time_before_each_line_is_its_time() {
        let mut timed = String::new();
        for (index, line) in OUTPUT.lines().enumerate() {
            timed += &format!("2026-07-27T00:00:{index:02}.25Z {line}\n");
        }
        let found = samples(None, &timed);
        let found: Vec<_> = found.into_iter().filter(|sample| !sample.3.is_nan()).collect();
        assert_eq!(found, expected([2_250, 5_250]));
    }

    #[test]
    fn malformed_rows_are_rejected() {
        let mut decoder = DmonDecoder::new(None);
        assert_eq!(decoder.line("GPU 0     37"), Err(LineError::NoHeader));
        assert_eq!(decoder.line("#Entity   GPUTL   POWER"), Ok(Vec::new()));
        assert_eq!(decoder.line("GPU 0     37      61.5"), Err(LineError::NoRowTime));
        let count = |found| Err(LineError::CellCount { expected: 2, found });
        assert_eq!(decoder.line("GPU 0     37"), count(1));
        assert_eq!(decoder.line("torn"), count(0));
        assert_eq!(decoder.line("GPU x     37      61.5"), count(2));
    }

    proptest! {
        /// Any text is rows or errors.
        #[test]
        fn text_is_rows_or_errors(text in "(#Entity  A  B\n)?[ -~\n]{0,200}") {
            let mut decoder = DmonDecoder::new(times());
            for line in text.lines() {
                let _ = decoder.line(line);
            }
        }
    }
}
