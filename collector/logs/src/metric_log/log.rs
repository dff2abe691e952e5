//! One log of metrics: decodes its lines into values of GPUs, those of one instant together.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::decoder::{Decoded, Decoder};
use super::dmon::DmonTimes;
use super::error::{LineError, MetricLogError};
use super::format::Format;
use super::gpu_instants::{GpuInstants, is_same_instant};
use super::sample::Sample;
use crate::SourceError;
use crate::log::RejectedRows;
use crate::log::clock_jump::ClockJump;
use crate::log::lines::{Line, Lines};
use crate::log::stream;
use phasemeter_sources::mapping::{GpuValue, Mapped, Mappings, Point, UnitChecks, UnitNotice};

/// Values of one instant that are read at once.
const MAX_VALUES: usize = 65_536;

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
    /// Evidence about the units of its senders.
    units: UnitChecks,
    instants: GpuInstants,
    /// Values of the current instant, with their lines.
    ready: VecDeque<(u64, GpuValue)>,
    is_finished: bool,
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
            units: UnitChecks::default(),
            instants: GpuInstants::new(allowed_lateness),
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
            if let Some(values) = self.instants.next() {
                self.ready.extend(values);
                continue;
            }
            if self.is_finished {
                break;
            }
            let values = self.read_values(mappings, rejected)?;
            self.is_finished = values.is_empty();
            // A line may have values of several GPUs.
            let mut last = None;
            let reject = |line, jump: ClockJump| {
                if last.replace(line) != Some(line) {
                    rejected.record(&self.name, line, &jump);
                }
            };
            if self.is_finished {
                self.instants.finish(reject);
            } else {
                self.instants.add(values, reject);
            }
        }
        Ok(())
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
        let problem = problem.map(|(line, error)| (line, error.to_string()));
        let samples = samples.iter().map(|sample| (number, sample));
        let notices =
            read_samples(samples, self.label.as_deref(), mappings, &mut self.units, values);
        for (line, problem) in problem.into_iter().chain(notices) {
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
        let samples = instant.iter().map(|(line, sample)| (*line, sample));
        let notices =
            read_samples(samples, self.label.as_deref(), mappings, &mut self.units, values);
        for (line, notice) in notices {
            rejected.record(&self.name, line, &notice);
        }
        !instant.is_empty()
    }
}

/// Appends the values of samples of GPUs; returns the notices that reject a line: the first line whose value is
/// certainly not used.
fn read_samples<'a>(
    samples: impl Iterator<Item = (u64, &'a Sample<'a>)>,
    label: Option<&str>,
    mappings: &Mappings,
    units: &mut UnitChecks,
    values: &mut Vec<GpuValue>,
) -> Vec<(u64, String)> {
    let mut notices = Vec::new();
    for (line, sample) in samples {
        let Some(mapped) = read_sample(sample, label, mappings, units) else { continue };
        values.push(mapped.value);
        if let Some(notice) = mapped.notice
            && !matches!(notice, UnitNotice::Lifted { .. })
        {
            notices.push((line, notice.to_string()));
        }
    }
    notices
}

/// The value of a sample with a time, if it is one of a GPU. `label` qualifies the name of its GPU.
fn read_sample(
    sample: &Sample<'_>,
    label: Option<&str>,
    mappings: &Mappings,
    units: &mut UnitChecks,
) -> Option<Mapped> {
    let of = |name: &str| sample.label(name);
    let Sample { metric, instrument, start, at, number, .. } = sample;
    let (instrument, start, at, number) = (*instrument, *start, (*at)?, *number);
    let point = Point { metric, label: &of, instrument, start, at, number };
    let mut mapped = mappings.read(&point, units)?;
    if let Some(label) = label {
        mapped.value.gpu.id.within(label);
    }
    Some(mapped)
}

fn has_several_instants(values: &[(u64, GpuValue)]) -> bool {
    let Some((_, first)) = values.first() else { return false };
    values.iter().any(|(_, value)| !is_same_instant(first.at, value.at))
}
