//! One log of metrics: decodes its lines into values of GPUs, those of one instant together, without
//! instants of a GPU whose clock is far ahead.
//!
//! Must not depend on other logs.

use std::collections::{BTreeMap, VecDeque};
use std::io::Read;
use std::sync::Arc;

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::decoder::{Decoded, Decoder};
use super::dmon::DmonTimes;
use super::error::{LineError, MetricLogError};
use super::format::Format;
use super::sample::Sample;
use crate::SourceError;
use crate::clock_jump::{Clock, Rejection, Timed};
use crate::mapping::{GpuValue, Mapped, Mappings, Point, SAME_INSTANT, UnitChecks, UnitNotice};
use crate::nvidia_smi::lines::{Line, Lines};
use crate::nvidia_smi::rejected::RejectedRows;
use crate::nvidia_smi::stream;

/// Values of one instant that are read at once.
const MAX_VALUES: usize = 65_536;

/// Instants that are read ahead, while it is unknown whether the first one of a GPU is far ahead.
const MAX_AHEAD: usize = 1_024;

/// Maximum number of GPUs with a clock. Labels come from anywhere.
const MAX_CLOCKS: usize = 4_096;

/// An open log.
pub(super) struct MetricLog {
    name: Arc<str>,
    /// Qualifies the IDs of its GPUs that neither a UUID nor a host does.
    label: Option<String>,
    lines: Lines,
    max_line: usize,
    decoder: Decoder,
    /// The values of a line that is of another instant than those before, with its number.
    next: Vec<(u64, GpuValue)>,
    /// By how much a value may be earlier than one before it.
    allowed_lateness: Nanos,
    /// The clocks of its GPUs, of which one may be wrong.
    clocks: BTreeMap<String, Clock<Instant>>,
    /// Number of clocks that may still reject their first instant.
    undecided: usize,
    /// Number of instants so far.
    count: u64,
    /// The last line of a rejected instant.
    rejected_line: u64,
    /// What its senders show about their units.
    units: UnitChecks,
    /// Instants that are read and follow those before.
    instants: VecDeque<Instant>,
    /// Values of the current instant, with their lines.
    ready: VecDeque<(u64, GpuValue)>,
    is_finished: bool,
}

/// The values of a GPU at one instant, with their lines.
struct Instant {
    at: Timestamp,
    /// Its place among the instants of the log.
    place: u64,
    values: Vec<(u64, GpuValue)>,
}

impl Timed for Instant {
    fn at(&self) -> Timestamp {
        self.at
    }

    fn line(&self) -> u64 {
        self.place
    }
}

impl MetricLog {
    /// Opens a log of this format, in which values may be this much earlier than those before them. `head`
    /// is the beginning of its text.
    pub(super) fn open(
        name: Arc<str>,
        label: Option<String>,
        (head, bytes): (&str, Box<dyn Read + Send>),
        format: Format,
        times: Option<DmonTimes>,
        allowed_lateness: Nanos,
    ) -> Result<Self, SourceError> {
        let unreadable = |source| SourceError::Unreadable { input: name.to_string(), source };
        let text = stream::decode(bytes).map_err(unreadable)?;
        let (decoder, max_line) = Decoder::of(format, times, head);
        let lines = Lines::new(text, max_line);
        Ok(Self {
            name,
            label,
            lines,
            max_line,
            decoder,
            next: Vec::new(),
            allowed_lateness,
            clocks: BTreeMap::new(),
            undecided: 0,
            count: 0,
            rejected_line: 0,
            units: UnitChecks::default(),
            instants: VecDeque::new(),
            ready: VecDeque::new(),
            is_finished: false,
        })
    }

    /// The log as given by the user.
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The last line that was read.
    pub(super) const fn line(&self) -> u64 {
        self.lines.number()
    }

    /// The time of the next value, which has been read.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        self.ready.front().map(|(_, value)| value.at)
    }

    /// Takes the next value, which has been read, with its line.
    pub(super) fn take(&mut self) -> Option<(u64, GpuValue)> {
        self.ready.pop_front()
    }

    /// Reads the values of the next instant, if none are ready. There are none at the end.
    pub(super) fn read(
        &mut self,
        mappings: &Mappings,
        rejected: &mut RejectedRows,
    ) -> Result<(), SourceError> {
        while self.ready.is_empty() {
            let is_decided = self.undecided == 0 || self.instants.len() >= MAX_AHEAD;
            if (self.is_finished || is_decided)
                && let Some(instant) = self.instants.pop_front()
            {
                self.ready.extend(instant.values);
                continue;
            }
            if self.is_finished {
                break;
            }
            let values = self.read_values(mappings, rejected)?;
            self.is_finished = values.is_empty();
            for (at, values) in split(values) {
                self.count += 1;
                if let Some(rejection) = self.resolve(Instant { at, place: self.count, values }) {
                    self.reject(rejection, rejected);
                }
            }
            if self.is_finished {
                let mut clocks = std::mem::take(&mut self.clocks);
                let unconfirmed = clocks.values_mut().filter_map(Clock::finish);
                unconfirmed.for_each(|rejection| self.reject(rejection, rejected));
            }
        }
        Ok(())
    }

    /// Appends an instant to those that are read, unless the clock of its GPU is far ahead. Returns the
    /// instant that is rejected by it, if any.
    fn resolve(&mut self, instant: Instant) -> Option<Rejection<Instant>> {
        let gpu = instant.values.first().map(|(_, value)| value.gpu.id.name())?;
        if !self.clocks.contains_key(&gpu) {
            if self.clocks.len() >= MAX_CLOCKS {
                self.instants.push_back(instant);
                return None;
            }
            self.clocks.insert(gpu.clone(), Clock::new(None, self.allowed_lateness));
        }
        let clock = self.clocks.get_mut(&gpu)?;
        let was_undecided = !clock.knows_first();
        let rejection = clock.resolve(instant, &mut self.instants);
        self.undecided += usize::from(!clock.knows_first());
        self.undecided -= usize::from(was_undecided);
        rejection
    }

    /// Records each line of a rejected instant, once if it has several GPUs.
    fn reject(&mut self, (instant, jump): Rejection<Instant>, rejected: &mut RejectedRows) {
        let mut lines: Vec<u64> = instant.values.iter().map(|(line, _)| *line).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            if std::mem::replace(&mut self.rejected_line, line) != line {
                rejected.record(&self.name, line, &jump);
            }
        }
    }

    /// Reads the values of the next instant, or of a line with several instants; none at the end.
    fn read_values(
        &mut self,
        mappings: &Mappings,
        rejected: &mut RejectedRows,
    ) -> Result<Vec<(u64, GpuValue)>, SourceError> {
        let mut all = std::mem::take(&mut self.next);
        let mut is_complete = has_several_instants(&all);
        while !is_complete && all.len() < MAX_VALUES {
            let mut values = Vec::new();
            if !self.read_line(mappings, rejected, &mut values)? {
                break;
            }
            let line = self.lines.number();
            let values = values.into_iter().map(|value| (line, value)).collect::<Vec<_>>();
            let Some(first) = all.first() else {
                is_complete = has_several_instants(&values);
                all = values;
                continue;
            };
            let is_next = |(_, value): &(u64, GpuValue)| !is_same_instant(first.1.at, value.at);
            if values.iter().any(is_next) {
                self.next = values;
                break;
            }
            all.extend(values);
        }
        // Utilization first: it has the time of the reading, which the others join.
        all.sort_by_key(|(_, value)| (value.at, value.quantity != Some(Quantity::Utilization)));
        Ok(all)
    }

    /// Reads the values of one line; false at the end.
    fn read_line(
        &mut self,
        mappings: &Mappings,
        rejected: &mut RejectedRows,
        values: &mut Vec<GpuValue>,
    ) -> Result<bool, SourceError> {
        let number = self.lines.number() + 1;
        let line = match self.lines.next() {
            Ok(None) => return Ok(self.read_series(mappings, rejected, values)),
            Ok(Some(line)) => line,
            Err(error) if stream::is_corrupt(&error) => {
                let reason = format!("compressed data corrupt or truncated from here on: {error}");
                rejected.record(&self.name, self.lines.number() + 1, &reason);
                return Ok(self.read_series(mappings, rejected, values));
            }
            Err(source) => {
                return Err(SourceError::Unreadable { input: self.name.to_string(), source });
            }
        };
        let line = match line {
            Line::TooLong => Err(LineError::TooLong(self.max_line >> 10)),
            Line::Whole(line) => std::str::from_utf8(line).map_err(|_| LineError::Encoding),
        };
        let Decoded { samples, problem } = match line {
            Ok(text) => self.decoder.samples(text, number, |metric| mappings.has(metric)),
            Err(error) => Decoded { problem: Some((number, error)), ..Decoded::default() },
        };
        if let Some((_, LineError::TooManyPoints(most))) = problem {
            let file = self.name.to_string();
            return Err(MetricLogError::TooManyPoints { file, most }.into());
        }
        let mut problem = problem.map(|(line, error)| (line, error.to_string()));
        for sample in samples {
            let Some(mapped) =
                read_sample(&sample, self.label.as_deref(), mappings, &mut self.units)
            else {
                continue;
            };
            values.push(mapped.value);
            problem = problem.or_else(|| Some((number, shown(mapped.notice)?.to_string())));
        }
        if let Some((line, problem)) = problem {
            rejected.record(&self.name, line, &problem);
        }
        Ok(true)
    }

    /// Reads the next instant of series, which are in memory once all lines are read; false at the end.
    fn read_series(
        &mut self,
        mappings: &Mappings,
        rejected: &mut RejectedRows,
        values: &mut Vec<GpuValue>,
    ) -> bool {
        if let Some(line) = self.decoder.finish() {
            rejected.record(&self.name, line, &LineError::CutOff);
        }
        let instant = self.decoder.take_instant();
        for (line, sample) in &instant {
            let Some(mapped) =
                read_sample(sample, self.label.as_deref(), mappings, &mut self.units)
            else {
                continue;
            };
            values.push(mapped.value);
            if let Some(notice) = shown(mapped.notice) {
                rejected.record(&self.name, *line, &notice);
            }
        }
        !instant.is_empty()
    }
}

/// The value of a sample with a time, if it is one of a GPU. `label` qualifies the name of its GPU.
fn read_sample(
    sample: &Sample<'_>,
    label: Option<&str>,
    mappings: &Mappings,
    units: &mut UnitChecks,
) -> Option<Mapped> {
    let of = |name: &str| sample.label(name);
    let point = Point { metric: &sample.metric, label: &of, at: sample.at?, number: sample.number };
    let mut mapped = mappings.read(&point, units)?;
    if let Some(label) = label {
        mapped.value.gpu.id.within(label);
    }
    Some(mapped)
}

/// What rejects a line. The line that shows it is not wrong, but the first whose value is certainly not used.
fn shown(notice: Option<UnitNotice>) -> Option<UnitNotice> {
    notice.filter(|it| !matches!(it, UnitNotice::Lifted { .. }))
}

/// The values of each GPU at each instant, in time order.
fn split(mut values: Vec<(u64, GpuValue)>) -> Vec<(Timestamp, Vec<(u64, GpuValue)>)> {
    // Stable: utilization stays first.
    values.sort_by(|(_, a), (_, b)| a.gpu.id.cmp(&b.gpu.id));
    let mut instants: Vec<(Timestamp, Vec<(u64, GpuValue)>)> = Vec::new();
    for (line, value) in values {
        match instants.last_mut() {
            Some((at, known))
                if is_same_instant(*at, value.at)
                    && known.first().is_some_and(|(_, it)| it.gpu.id == value.gpu.id) =>
            {
                known.push((line, value));
            }
            _ => instants.push((value.at, vec![(line, value)])),
        }
    }
    instants.sort_by_key(|(at, _)| *at);
    instants
}

fn has_several_instants(values: &[(u64, GpuValue)]) -> bool {
    let Some((_, first)) = values.first() else { return false };
    values.iter().any(|(_, value)| !is_same_instant(first.at, value.at))
}

fn is_same_instant(first: Timestamp, at: Timestamp) -> bool {
    first.since(at).max(at.since(first)) <= SAME_INSTANT
}
