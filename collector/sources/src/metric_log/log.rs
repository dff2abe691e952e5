//! One log of metrics: decodes its lines into values of GPUs, those of one instant together.
//!
//! Must not depend on other logs.

use std::collections::VecDeque;
use std::io::Read;
use std::sync::Arc;

use phasemeter_meter::units::Timestamp;

use super::dmon::{DmonDecoder, DmonTimes};
use super::error::LineError;
use super::format::Format;
use super::sample::Sample;
use super::{otlp_json, prometheus};
use crate::SourceError;
use crate::mapping::{GpuValue, Mappings, Point, Quantity};
use crate::nvidia_smi::lines::{Line, Lines, MAX_ROW};
use crate::nvidia_smi::rejected::RejectedRows;
use crate::nvidia_smi::stream;

/// Maximum length of a line with an OTLP request: the largest that a gRPC server accepts by default, as
/// JSON.
const MAX_REQUEST: usize = 16 << 20;

/// Values of one instant that are read at once.
const MAX_VALUES: usize = 65_536;

/// An open log.
pub(super) struct MetricLog {
    name: Arc<str>,
    /// Qualifies the names of its GPUs, if they have no UUID.
    label: Option<String>,
    lines: Lines,
    max_line: usize,
    decoder: Decoder,
    /// Values that are read, with their lines.
    ready: VecDeque<(u64, GpuValue)>,
    /// The first value of the next instant.
    next: Option<(u64, GpuValue)>,
}

enum Decoder {
    /// With the time of the page.
    Prometheus(Option<Timestamp>),
    Dmon(DmonDecoder),
    OtlpJson,
}

impl MetricLog {
    /// Opens a log of this format.
    pub(super) fn open(
        name: Arc<str>,
        label: Option<String>,
        bytes: Box<dyn Read + Send>,
        format: Format,
        times: Option<DmonTimes>,
    ) -> Result<Self, SourceError> {
        let unreadable = |source| SourceError::Unreadable { input: name.to_string(), source };
        let text = stream::decode(bytes).map_err(unreadable)?;
        let (decoder, max_line) = match format {
            Format::Prometheus => (Decoder::Prometheus(None), MAX_ROW),
            Format::Dmon => (Decoder::Dmon(DmonDecoder::new(times)), MAX_ROW),
            Format::OtlpJson => (Decoder::OtlpJson, MAX_REQUEST),
        };
        let lines = Lines::new(text, max_line);
        let (ready, next) = (VecDeque::new(), None);
        Ok(Self { name, label, lines, max_line, decoder, ready, next })
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
        mappings: &mut Mappings,
        rejected: &mut RejectedRows,
    ) -> Result<(), SourceError> {
        if !self.ready.is_empty() {
            return Ok(());
        }
        self.ready.extend(self.next.take());
        while self.next.is_none() && self.ready.len() < MAX_VALUES {
            let mut values = Vec::new();
            if !self.read_line(mappings, rejected, &mut values)? {
                break;
            }
            let line = self.lines.number();
            let first = self.ready.front().map(|(_, value)| value.at);
            let is_next = matches!(self.decoder, Decoder::Prometheus(_))
                && values.first().is_some_and(|value| first.is_some_and(|at| value.at != at));
            if is_next {
                self.next = values.pop().map(|value| (line, value));
            } else {
                self.ready.extend(values.into_iter().map(|value| (line, value)));
                // A row or a request has all values of its instants.
                if !self.ready.is_empty() && !matches!(self.decoder, Decoder::Prometheus(_)) {
                    break;
                }
            }
        }
        // Utilization first: it has the time of the reading, which the others join.
        let order =
            |(_, value): &(u64, GpuValue)| (value.at, value.quantity != Quantity::Utilization);
        self.ready.make_contiguous().sort_by_key(order);
        Ok(())
    }

    /// Reads the values of one line; false at the end.
    fn read_line(
        &mut self,
        mappings: &mut Mappings,
        rejected: &mut RejectedRows,
        values: &mut Vec<GpuValue>,
    ) -> Result<bool, SourceError> {
        let line = match self.lines.next() {
            Ok(None) => return Ok(false),
            Ok(Some(line)) => line,
            Err(error) if stream::is_corrupt(&error) => {
                let reason = format!("compressed data corrupt or truncated from here on: {error}");
                rejected.record(&self.name, self.lines.number() + 1, &reason);
                return Ok(false);
            }
            Err(source) => {
                return Err(SourceError::Unreadable { input: self.name.to_string(), source });
            }
        };
        let decoded = match line {
            Line::TooLong => Err(LineError::TooLong(self.max_line >> 10)),
            Line::Whole(line) => match std::str::from_utf8(line) {
                Ok(text) => self.decoder.samples(text),
                Err(_) => Err(LineError::Encoding),
            },
        };
        let mut problem = decoded.as_ref().err().map(ToString::to_string);
        for sample in decoded.into_iter().flatten() {
            let Some(at) = sample.at else { continue };
            let label = |name: &str| sample.label(name);
            let point = Point { metric: &sample.metric, label: &label, at, number: sample.number };
            match mappings.read(&point) {
                Ok(Some(mut value)) => {
                    if let Some(label) = &self.label {
                        value.gpu.uuid = format!("{label}:{}", value.gpu.uuid);
                    }
                    values.push(value);
                }
                Ok(None) => {}
                Err(refusal) => problem = problem.or_else(|| Some(refusal.to_string())),
            }
        }
        if let Some(problem) = problem {
            rejected.record(&self.name, self.lines.number(), &problem);
        }
        Ok(true)
    }
}

impl Decoder {
    /// The samples of a line, each with a time.
    fn samples<'a>(&mut self, line: &'a str) -> Result<Vec<Sample<'a>>, LineError> {
        match self {
            Self::Prometheus(page) => match prometheus::line(line)? {
                prometheus::Line::Nothing => Ok(Vec::new()),
                prometheus::Line::Page(at) => {
                    *page = Some(at);
                    Ok(Vec::new())
                }
                prometheus::Line::Sample(sample) => {
                    let at = sample.at.or(*page).ok_or(LineError::NoPageTime)?;
                    Ok(vec![Sample { at: Some(at), ..sample }])
                }
            },
            Self::Dmon(decoder) => decoder.line(line),
            Self::OtlpJson => otlp_json::line(line),
        }
    }
}
