//! Several logs of metrics as one source, merged in time order.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::holder::HolderChange;
use phasemeter_meter::reading::{Basis, GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::dmon::DmonTimes;
use super::error::{LineError, MetricLogError};
use super::format::{self, Format};
use super::log::MetricLog;
use crate::log::RejectedRows;
use crate::log::stream::CountingReader;
use crate::log::{GivenModel, OpenedInputs};
use crate::{Counts, Source, SourceError};
use phasemeter_sources::mapping::{HeldReading, Inserted, Mappings, ReadingBuffer};

/// By how much values of one instant may be apart in the logs.
const HOLD: Nanos = Nanos::from_secs(60);

/// Options of all logs.
#[derive(Clone, Debug, Default)]
pub struct MetricLogOptions {
    /// The model given by the user.
    pub gpu_model: Option<GivenModel>,
    /// The times of rows of `dcgmi dmon` without any.
    pub dmon_times: Option<DmonTimes>,
    /// The utilization source for billing; if `None` or lacking, the first that a GPU has.
    pub basis: Option<Basis>,
}

/// What open logs contain.
pub enum Recognized {
    /// Metrics.
    Metrics(MetricInputs),
    /// Something else.
    Other(OpenedInputs),
}

/// Open logs of metrics.
pub struct MetricInputs {
    format: Format,
    inputs: OpenedInputs,
}

/// Recognizes logs of metrics by their first line.
///
/// # Errors
/// Returns an error if a log is unreadable, or if only some have metrics.
pub fn recognize(mut inputs: OpenedInputs) -> Result<Recognized, SourceError> {
    let kind = |format: Option<Format>| format.map_or("a log of nvidia-smi", Format::kind);
    let mut first: Option<(String, Option<Format>)> = None;
    for (input, log) in inputs.iter_mut() {
        let unreadable = |source| SourceError::Unreadable { input: input.to_string(), source };
        let format = format::recognize(&log.peek().map_err(unreadable)?);
        match &first {
            None => first = Some((input.to_string(), format)),
            Some((_, known)) if *known == format => {}
            Some((first, _)) => {
                let (file, first) = (input.to_string(), first.clone());
                return Err(MetricLogError::Mixed { file, kind: kind(format), first }.into());
            }
        }
    }
    Ok(match first.and_then(|(_, format)| format) {
        Some(format) => Recognized::Metrics(MetricInputs { format, inputs }),
        None => Recognized::Other(inputs),
    })
}

/// The readings of logs of metrics, in time order.
pub struct MetricLogs {
    logs: Vec<MetricLog>,
    mappings: Mappings,
    buffer: ReadingBuffer,
    released: VecDeque<HeldReading>,
    is_finished: bool,
    /// The log of the last value.
    current: usize,
    /// The GPUs with readings, the utilization source of each, and their index by that in the buffer.
    gpus: Vec<GpuIdentity>,
    bases: Vec<Basis>,
    indices: HashMap<usize, usize>,
    /// Of the reading returned last.
    xid: Option<u64>,
    /// Those of the last reading.
    rates: LinkRates,
    holder_changes: Vec<(usize, HolderChange)>,
    /// The time of the newest reading.
    newest: Timestamp,
    given_model: Option<GivenModel>,
    rejected: RejectedRows,
    read: Arc<AtomicU64>,
    size: Option<u64>,
}

impl MetricLogs {
    /// Opens recognized logs, and reads the first values of each.
    ///
    /// # Errors
    /// Returns an error if a log is unreadable, or has no value of a GPU.
    pub fn open(
        recognized: MetricInputs,
        mappings: Mappings,
        options: MetricLogOptions,
    ) -> Result<Self, SourceError> {
        let MetricInputs { format, inputs } = recognized;
        let MetricLogOptions { gpu_model, dmon_times, basis } = options;
        let mut source = Self {
            logs: Vec::new(),
            mappings,
            buffer: ReadingBuffer::new(HOLD, basis, None),
            released: VecDeque::new(),
            is_finished: false,
            current: 0,
            gpus: Vec::new(),
            bases: Vec::new(),
            indices: HashMap::new(),
            xid: None,
            rates: LinkRates::NONE,
            holder_changes: Vec::new(),
            newest: Timestamp::EPOCH,
            given_model: gpu_model,
            rejected: RejectedRows::default(),
            read: Arc::default(),
            size: inputs.size(),
        };
        let several = inputs.count() > 1;
        for (input, mut log) in inputs.into_each() {
            let unreadable = |source| SourceError::Unreadable { input: input.to_string(), source };
            let head = log.peek().map_err(unreadable)?;
            let name: Arc<str> = input.to_string().into();
            let file = Path::new(&*name).file_name().and_then(|name| name.to_str());
            let label = several.then(|| file.unwrap_or(&name).to_owned());
            let bytes = Box::new(CountingReader::new(log.bytes, Arc::clone(&source.read)));
            let log = MetricLog::open(name, label, (&head, bytes), format, dmon_times, HOLD)?;
            source.add(log)?;
        }
        Ok(source)
    }

    fn add(&mut self, mut log: MetricLog) -> Result<(), SourceError> {
        let before = self.rejected.first.len();
        log.read(&self.mappings, &mut self.rejected)?;
        if log.next_at().is_some() {
            self.logs.push(log);
            return Ok(());
        }
        let file = log.name().to_string();
        Err(match self.rejected.first.get(before) {
            Some(row) => {
                let (line, reason) = (row.line, row.reason.clone());
                MetricLogError::Invalid { file, line, reason }.into()
            }
            None => MetricLogError::NoValue { file }.into(),
        })
    }

    /// The lines rejected so far.
    #[must_use]
    pub const fn rejected(&self) -> &RejectedRows {
        &self.rejected
    }

    /// The model of each GPU in the logs, if they have one, in the order of [`Source::gpus`].
    pub fn logged_models(&self) -> impl Iterator<Item = Option<&str>> {
        let mut order: Vec<_> = self.indices.iter().map(|(held, index)| (*index, *held)).collect();
        order.sort_unstable();
        let identities = self.buffer.identities();
        order.into_iter().map(|(_, held)| identities.get(held)?.model.as_deref())
    }

    /// What holds the values of all logs.
    #[must_use]
    pub const fn buffer(&self) -> &ReadingBuffer {
        &self.buffer
    }

    /// Bytes read so far and in total; the total is `None` if a log is piped.
    #[must_use]
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.read.load(Ordering::Relaxed), self.size)
    }

    /// Reads the next value of all logs, and releases the readings that it completes.
    fn advance(&mut self) -> Result<(), SourceError> {
        for log in &mut self.logs {
            log.read(&self.mappings, &mut self.rejected)?;
        }
        let times = self.logs.iter().enumerate();
        let times = times.filter_map(|(index, log)| Some((log.next_at()?, index)));
        let Some((at, index)) = times.min() else {
            self.is_finished = true;
            self.released.extend(self.buffer.release_all());
            return Ok(());
        };
        self.current = index;
        let Some((line, value)) = self.logs.get_mut(index).and_then(MetricLog::take) else {
            return Ok(());
        };
        let dropped = self.buffer.dropped();
        let over_limit = self.buffer.over_limit().values();
        // Each GPU has a time of its own, so that a wrong one costs no other.
        let Inserted { buffer_index, refusal, .. } =
            self.buffer.insert(value, Nanos(at.as_nanos()));
        self.released.extend(buffer_index.into_iter().flat_map(|gpu| self.buffer.release_of(gpu)));
        let Some(log) = self.logs.get(index) else { return Ok(()) };
        if self.buffer.dropped() > dropped {
            self.rejected.record(log.name(), line, &LineError::Late);
        }
        if self.buffer.over_limit().values() > over_limit {
            let error = LineError::TooManyGpus(ReadingBuffer::MAX_GPUS);
            self.rejected.record(log.name(), line, &error);
        }
        if let Some(refusal) = refusal {
            self.rejected.record(log.name(), line, &refusal);
        }
        Ok(())
    }

    /// Ends the holding of GPUs whose readings end long before the newest one of any.
    fn end_holding(&mut self) {
        let ends = self.indices.iter().flat_map(|(held, index)| {
            let changes = self.buffer.end_holding(*held, self.newest).into_iter();
            changes.map(|change| (*index, change))
        });
        self.holder_changes.extend(ends);
    }

    /// The index of the GPU of a reading, which is added if it is new.
    fn index(&mut self, held: &HeldReading) -> usize {
        let index = *self.indices.entry(held.buffer_index).or_insert(self.gpus.len());
        let Some(found) = self.buffer.identities().get(held.buffer_index) else { return index };
        if index == self.gpus.len() {
            self.gpus.push(self.identity(found));
            self.bases.push(held.basis);
        } else if let Some(known) = self.gpus.get_mut(index) {
            known.update(found);
        }
        index
    }

    fn identity(&self, found: &GpuIdentity) -> GpuIdentity {
        let (model, is_model_assumed) =
            GivenModel::of(self.given_model.as_ref(), found.model.as_ref());
        GpuIdentity { model, is_model_assumed, ..found.clone() }
    }
}

impl Source for MetricLogs {
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError> {
        loop {
            if let Some(mut held) = self.released.pop_front() {
                (self.xid, self.rates) = (held.xid, held.rates);
                self.newest = self.newest.max(held.reading.at);
                let index = self.index(&held);
                let changes = std::mem::take(&mut held.holder_changes).into_iter();
                self.holder_changes.extend(changes.map(|change| (index, change)));
                return Ok(Some((index, held.reading)));
            }
            if self.is_finished {
                self.end_holding();
                return Ok(None);
            }
            self.advance()?;
        }
    }

    fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    fn basis(&self, gpu: usize) -> Option<Basis> {
        self.bases.get(gpu).copied()
    }

    fn counts(&self) -> Counts {
        Counts { xid: self.xid.and_then(|code| u32::try_from(code).ok()), ..Counts::NONE }
    }

    fn rates(&self) -> LinkRates {
        self.rates
    }

    fn take_holder_changes(&mut self) -> Vec<(usize, HolderChange)> {
        std::mem::take(&mut self.holder_changes)
    }

    fn reject(&mut self, reason: &str) {
        if let Some(log) = self.logs.get(self.current) {
            self.rejected.record(log.name(), log.line(), reason);
        }
    }
}
