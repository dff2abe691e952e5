//! The output of `dcgmi dmon`: a header with short names of fields, and a row per entity and tick.
//!
//! Rows have no time of their own: a time precedes each line, as `ts` writes it, or ticks are counted from
//! a given start. A tick counts whether or not its rows can be read.

use std::borrow::Cow;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::error::LineError;
use super::format::{after_time, is_dmon_header};
use super::sample::Sample;

/// Before the short name of a field in the name of its metric.
const PREFIX: &str = "dcgmi.dmon.";

/// The IDs of the MIG instances of a GPU begin at this multiple of its own (`DCGM_MAX_INSTANCES_PER_GPU`).
const INSTANCES_PER_GPU: u32 = 8;

/// Maximum number of entities of a tick.
const MAX_ENTITIES: usize = 4_096;

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
    ticks: Ticks,
}

/// Counts ticks: rows of the same entities in the same order.
#[derive(Clone, Debug, Default)]
struct Ticks {
    /// The entities of a tick, in order, each as kind and number.
    entities: Vec<(String, String)>,
    /// The place of the next row in its tick.
    next: usize,
    /// Number of ticks before the current one.
    before: u64,
}

impl DmonDecoder {
    /// Decodes output that begins with `head`, which shows the entities of a tick.
    pub(super) fn new(times: Option<DmonTimes>, head: &str) -> Self {
        Self { times, fields: Vec::new(), ticks: Ticks::of(head) }
    }

    /// Reads a line: the samples of an entity, none if it is not a row.
    pub(super) fn line<'a>(&mut self, line: &'a str) -> Result<Vec<Sample<'a>>, LineError> {
        let (own, row) = after_time(line.trim_start());
        let line = row.trim();
        if is_dmon_header(line) {
            self.header(line);
            return Ok(Vec::new());
        }
        if !is_row(line) {
            return Ok(Vec::new());
        }
        let mut words = line.split_whitespace();
        let (kind, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if self.fields.is_empty() {
            return Err(LineError::NoHeader);
        }
        let number: Option<u32> = id.parse().ok();
        let cells = after_words(line, 2);
        // Text may have single blanks.
        let cells: Vec<&str> =
            cells.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
        let is_valid = number.is_some() && cells.len() == self.fields.len();
        let at = self.time(own, entity(row), is_valid);
        if !is_valid {
            return Err(LineError::CellCount { expected: self.fields.len(), found: cells.len() });
        }
        let at = at?;
        let labels = match (kind, number) {
            ("GPU", _) => vec![(Cow::Borrowed("gpu"), Cow::Borrowed(id))],
            ("GPU-I", Some(instance)) => vec![
                (Cow::Borrowed("gpu"), Cow::Owned((instance / INSTANCES_PER_GPU).to_string())),
                (Cow::Borrowed("gpu_instance"), Cow::Borrowed(id)),
            ],
            // Of compute instances and of links nothing is read.
            _ => return Ok(Vec::new()),
        };
        let sample = |(field, cell): (&String, &&'a str)| {
            let number = match *cell {
                // Not supported.
                "N/A" => f64::NAN,
                text => text.parse().ok()?,
            };
            let metric = Cow::Owned(format!("{PREFIX}{field}"));
            Some(Sample::undeclared(metric, labels.clone(), Some(at), number))
        };
        Ok(self.fields.iter().zip(&cells).filter_map(sample).collect())
    }

    fn header(&mut self, line: &str) {
        let names = after_words(line.trim_start_matches(['#', ' ']), 1).split_whitespace();
        let names = names.filter(|name| !name.eq_ignore_ascii_case("id")).take(MAX_FIELDS);
        self.fields = names.map(str::to_owned).collect();
    }

    /// The time of a row, valid or not.
    fn time(
        &mut self,
        own: Option<Instant>,
        entity: Option<(&str, &str)>,
        is_valid: bool,
    ) -> Result<Timestamp, LineError> {
        if let Some(Instant(at)) = own {
            return Ok(at);
        }
        let DmonTimes { start, interval } = self.times.ok_or(LineError::NoRowTime)?;
        let before = self.ticks.record(entity, is_valid);
        let nanos = start.as_nanos().checked_add(interval.saturating_mul(before).0);
        nanos.and_then(Timestamp::from_nanos).ok_or(LineError::Time)
    }
}

impl Ticks {
    /// The entities of a tick of output that begins with `head`: the longest run of different ones. The
    /// first row is the first of its tick, even if it is torn.
    fn of(head: &str) -> Self {
        // The last line may be cut.
        let complete = head.rsplit_once('\n').map_or("", |(complete, _)| complete);
        let lines = complete.lines().map(|line| after_time(line.trim_start()).1);
        let lines = lines.skip_while(|line| !is_dmon_header(line.trim()));
        let is_row = |line: &&str| !is_dmon_header(line.trim()) && is_row(line);
        let rows: Vec<Option<(&str, &str)>> = lines.filter(is_row).map(entity).collect();
        let (mut first, mut longest) = (0, Vec::new());
        for start in 0..rows.len() {
            let mut run: Vec<(&str, &str)> = Vec::new();
            let following = rows.iter().skip(start).map_while(|row| *row);
            for entity in following {
                if run.contains(&entity) {
                    break;
                }
                run.push(entity);
            }
            if run.len() > longest.len() {
                (first, longest) = (start, run);
            }
        }
        if !longest.is_empty() {
            let place = first % longest.len();
            longest.rotate_right(place);
        }
        let owned = |(kind, id): (&str, &str)| (kind.to_owned(), id.to_owned());
        Self { entities: longest.into_iter().map(owned).collect(), ..Self::default() }
    }

    /// Records a row; returns the number of ticks before its own. A torn row of an unknown entity has the
    /// place after the row before it.
    fn record(&mut self, entity: Option<(&str, &str)>, is_valid: bool) -> u64 {
        let known = entity.and_then(|(kind, id)| self.place(kind, id));
        let place = match (known, entity) {
            (Some(place), _) => place,
            (None, Some((kind, id))) if is_valid && self.entities.len() < MAX_ENTITIES => {
                let place = self.next.min(self.entities.len());
                self.entities.insert(place, (kind.to_owned(), id.to_owned()));
                place
            }
            (None, _) if self.next < self.entities.len() => self.next,
            (None, _) => 0,
        };
        self.before = self.before.saturating_add(u64::from(place < self.next));
        self.next = place + 1;
        self.before
    }

    fn place(&self, kind: &str, id: &str) -> Option<usize> {
        self.entities.iter().position(|(known, number)| known == kind && number == id)
    }
}

/// Whether a line, without its time, is a row, valid or not.
fn is_row(line: &str) -> bool {
    let line = line.trim();
    let is_unit_line =
        || line.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("id"));
    !line.is_empty() && !line.starts_with("dmon was stopped") && !is_unit_line()
}

/// Kind and number of the entity of a row, of which the rest may be torn.
fn entity(row: &str) -> Option<(&str, &str)> {
    let (kind, rest) = row.trim_start().split_once(' ')?;
    let (id, _) = rest.trim_start().split_once(' ')?;
    let is_number = id.bytes().all(|byte| byte.is_ascii_digit());
    let is_kind = kind.starts_with(|first: char| first.is_ascii_alphabetic());
    (is_kind && is_number && !id.is_empty()).then_some((kind, id))
}

/// The text after the first `count` words.
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
GPU-I 7   N/A         N/A           NVIDIA L4             0.100       
GPU-I 8   N/A         N/A           NVIDIA L4             0.200       
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
        let mut decoder = DmonDecoder::new(times, text);
        let lines = text.lines().flat_map(|line| decoder.line(line).unwrap_or_default());
        let brief = |sample: Sample<'_>| {
            let at = sample.at.unwrap().since(start()).0 / 1_000_000;
            let field = sample.metric.strip_prefix(PREFIX).unwrap().to_owned();
            let instance = sample.label("gpu_instance").map(|id| format!("-{id}"));
            let gpu = sample.label("gpu").unwrap().to_owned() + &instance.unwrap_or_default();
            (at, gpu, field, sample.number)
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
        let (instances, found): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|sample| sample.1.contains('-'));
        assert_eq!(found, expected([0, 500]));
        let instances: Vec<_> = instances.iter().map(|it| (it.0, it.1.as_str(), it.3)).collect();
        assert_eq!(instances, [(0, "0-7", 0.1), (0, "1-8", 0.2)], "of GPUs 0 and 1");
        assert_eq!(missing.len(), 3 + 2 * 2);
        let of_gpus: Vec<_> = missing.iter().filter(|(_, gpu, ..)| !gpu.contains('-')).collect();
        assert_eq!(of_gpus.len(), 3);
        assert!(of_gpus.iter().all(|(at, gpu, ..)| (*at, gpu.as_str()) == (0, "1")));
    }

    #[test]
    fn time_before_each_line_is_its_time() {
        let mut timed = String::new();
        for (index, line) in OUTPUT.lines().enumerate() {
            timed += &format!("2026-07-27T00:00:{index:02}.25Z {line}\n");
        }
        let found = samples(None, &timed);
        let is_of_gpu = |sample: &(u64, String, String, f64)| !sample.1.contains('-');
        let found = found.into_iter().filter(|it| !it.3.is_nan() && is_of_gpu(it));
        assert_eq!(found.collect::<Vec<_>>(), expected([2_250, 6_250]));
    }

    /// A tick counts for time whether or not its rows can be read, wherever they are torn.
    #[test]
    fn torn_row_keeps_its_tick() {
        for gpus in [1_u64, 2, 12] {
            let ticks = 0..10_u64;
            let rows = ticks.flat_map(|tick| (0..gpus).map(move |gpu| (tick, gpu)));
            let rows: Vec<(u64, u64, String)> = rows
                .map(|(tick, gpu)| (tick, gpu, format!("GPU {gpu:<6}{:<10}61.500", tick + 1)))
                .collect();
            for (first, length) in [(0, 5), (0, 12), (1, 3), (1, 12), (gpus, 1), (11, 14), (17, 6)]
            {
                let mut text = "#Entity   GPUTL     POWER\nID                  W\n".to_owned();
                for (number, (_, _, row)) in (0_u64..).zip(&rows) {
                    let is_torn = [first, first + 7].contains(&number);
                    let length = if is_torn { length } else { row.len() };
                    text += &format!("{}\n", &row[..length]);
                }
                let found = samples(times(), &text);
                let found: Vec<_> = found.iter().filter(|sample| sample.2 == "GPUTL").collect();
                let torn =
                    [first, first + 7].iter().filter(|row| **row < rows.len() as u64).count();
                assert_eq!(found.len(), rows.len() - torn, "{gpus} {first} {length}");
                for (at, gpu, _, number) in found {
                    let apart = (number - 1.0) * 500.0 - *at as f64;
                    assert!(apart.abs() < 0.5, "GPU {gpu} of {gpus}, {first}, {length}");
                }
            }
        }
    }

    #[test]
    fn malformed_rows_are_rejected() {
        let mut decoder = DmonDecoder::new(None, "");
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
            let mut decoder = DmonDecoder::new(times(), &text);
            for line in text.lines() {
                let _ = decoder.line(line);
            }
        }
    }
}
