//! The pipeline: passes readings to meters and their results to the exporter.
//!
//! Owns the state of a run: one meter per GPU, created at its first reading.

#[cfg(feature = "full")]
mod change;
mod charge_log;
#[cfg(feature = "full")]
mod charges;
mod experiment_log;
#[cfg(feature = "full")]
mod experiments;
#[cfg(feature = "full")]
mod experiments_of_run;
mod export;
mod finish;
mod found_gpus;
mod gpu;
mod gpu_prices;
#[cfg(feature = "full")]
mod hand_over;
mod holders;
mod loads;
#[cfg(feature = "full")]
mod notices;
mod opening;
mod presence;
mod resumption;
#[cfg(feature = "full")]
mod run_part;
mod serving;
#[cfg(feature = "full")]
mod so_far;
mod wall_clock;
mod work;

use std::collections::BTreeMap;
use std::io;

#[cfg(feature = "full")]
pub use change::{Change, OtherChange};
#[cfg(feature = "full")]
pub use charges::GpuCharge;
pub use experiment_log::{EndedExperiment, ExperimentLog};
#[cfg(feature = "full")]
pub use experiments_of_run::priced_time;
pub use export::RequestSink;
pub use finish::Finished;
pub use gpu::{Absence, MeteredGpu, in_order};
#[cfg(feature = "full")]
pub use hand_over::{AccountedTime, BilledTime};
use opening::ExperimentState;
use phasemeter_logs::{Counts, Source, SourceError};
use phasemeter_meter::device_totals::LinkRates;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::{Basis, GpuIdentity, Interval, Reading};
use phasemeter_meter::reorder::{CAPACITY, LateReading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::{WallOffset, WallTime};
use phasemeter_otlp::encode::{ExportSettings, Exporter};
use phasemeter_otlp::experiment::{Attributes, Experiment, ExperimentRequest};
pub use resumption::{BilledUntil, EarlierRuns, RunGap};
pub use serving::Serving;
pub use work::WorkByGroup;

use crate::alert_rules::AlertRules;
use crate::policies::PolicyResults;
use crate::pricing::Pricing;

/// Maximum number of readings that wait for older ones, of all GPUs together: 6 MiB.
const MAX_BUFFERED: usize = CAPACITY;

/// If there are more, a GPU with more than this releases its oldest early: 2 s at 32 Hz.
const BUFFERED_PER_GPU: usize = 64;

/// A last poll this late still counts as the end of the run. A later one came from a slow call.
const LAST_POLL: Nanos = Nanos::from_millis(100);

/// Settings of a run.
pub struct Settings<'a> {
    /// The configuration of meters.
    pub meter: MeterConfig,
    /// Prices of GPUs.
    pub pricing: Pricing,
    /// Rules for alerts.
    pub alerts: AlertRules,
    /// Work done, by unit.
    pub work: BTreeMap<String, u64>,
    /// The export settings and the sink; `None` if nothing is exported.
    pub export: Option<(ExportSettings, RequestSink<'a>)>,
}

/// Why a run was aborted.
#[derive(Debug, thiserror::Error)]
pub enum PipelineError {
    /// The source failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A request could not be written.
    #[error("cannot write OTLP")]
    Export(#[source] io::Error),
}

/// A run in progress.
pub struct Pipeline<'a> {
    meter: MeterConfig,
    pricing: Pricing,
    alerts: AlertRules,
    work: BTreeMap<String, u64>,
    work_by_group: WorkByGroup,
    experiment: ExperimentState,
    export: Option<(ExportSettings, RequestSink<'a>)>,
    exporter: Option<Exporter>,
    gpus: Vec<MeteredGpu>,
    /// The load of groups of them.
    loads: loads::Loads,
    /// What was found out about holders of GPUs before their first readings.
    waiting_holders: holders::WaitingHolders,
    /// The source of the polled utilization of each GPU of the source, if it names any.
    polled_bases: Vec<Option<Basis>>,
    /// The number of GPUs of each model.
    models: BTreeMap<String, u32>,
    /// Number of readings that wait for older ones, of all GPUs together.
    buffered: usize,
    /// What earlier runs have billed, and the time since then that no run bills.
    earlier: EarlierRuns,
    gaps: Vec<RunGap>,
    /// The newest results of policies, for reports of the run so far.
    results: PolicyResults,
    /// The GPUs that were added and not taken.
    joined: BilledUntil,
    /// The end of the run, if its last reading is not.
    end: Option<Timestamp>,
    /// Whether the meters have finished.
    is_finished: bool,
    /// Whether the bill is that of all GPUs that do the work.
    has_unit_costs: bool,
    /// The wall time of the run.
    wall: WallTime,
    /// The attributes of the machine of GPUs that do not name theirs.
    host: Attributes,
    /// The experiments that began during the run, from the first one on.
    #[cfg(feature = "full")]
    experiments: Option<experiments::Experiments>,
    /// What the time of GPUs cost, if a listener is attached.
    #[cfg(feature = "full")]
    charges: Option<Vec<GpuCharge>>,
    /// Those that have ended.
    ended: Option<ExperimentLog>,
    /// The changes of the run, if they are kept.
    #[cfg(feature = "full")]
    changes: Option<change::Changes>,
    /// The number of requests, or groups of them, that have left.
    sent: u64,
    /// The part of the run in progress, if it is reported in parts.
    #[cfg(feature = "full")]
    part: Option<run_part::RunPart>,
}

impl<'a> Pipeline<'a> {
    /// Starts the run of a log, whose experiment is opened after its first readings.
    #[must_use]
    pub fn log(settings: Settings<'a>, request: ExperimentRequest) -> Self {
        Self::new(
            settings,
            ExperimentState::Pending { request, first: Timestamp::LAST, readings: 0 },
        )
    }

    /// Starts a live run with an open experiment. `hardware` is the resource of `hw.*`.
    #[must_use]
    pub fn live(settings: Settings<'a>, experiment: Experiment, hardware: &Attributes) -> Self {
        let mut pipeline = Self::new(settings, ExperimentState::Open(experiment.clone()));
        pipeline.begin_export(experiment, hardware);
        pipeline
    }

    fn new(settings: Settings<'a>, experiment: ExperimentState) -> Self {
        let every = settings.export.as_ref().map(|(export, _)| export.every);
        Self {
            meter: MeterConfig { boundary_every: every.unwrap_or_default(), ..settings.meter },
            pricing: settings.pricing,
            alerts: settings.alerts,
            work: settings.work,
            work_by_group: WorkByGroup::new(),
            experiment,
            export: settings.export,
            exporter: None,
            gpus: Vec::new(),
            loads: loads::Loads::new(&settings.meter),
            waiting_holders: holders::WaitingHolders::default(),
            polled_bases: Vec::new(),
            models: BTreeMap::new(),
            buffered: 0,
            earlier: EarlierRuns::None,
            gaps: Vec::new(),
            results: PolicyResults::default(),
            joined: BilledUntil::new(),
            end: None,
            is_finished: false,
            has_unit_costs: true,
            wall: WallTime::default(),
            host: Attributes::new(),
            #[cfg(feature = "full")]
            experiments: None,
            #[cfg(feature = "full")]
            charges: None,
            ended: None,
            #[cfg(feature = "full")]
            changes: None,
            sent: 0,
            #[cfg(feature = "full")]
            part: None,
        }
    }

    /// Meters all readings of a source. `step` is called after each reading.
    ///
    /// # Errors
    /// Returns an error if the source fails or a request cannot be written.
    pub fn run<S: Source>(
        &mut self,
        source: &mut S,
        mut step: impl FnMut(&S),
    ) -> Result<(), PipelineError> {
        while let Some((gpu, reading)) = source.next()? {
            let new = self.polled_bases.len()..source.gpus().len();
            self.polled_bases.extend(new.map(|gpu| source.basis(gpu)));
            for (gpu, change) in source.take_holder_changes() {
                self.change_holders(gpu, change);
            }
            if let Err(late) = self.ingest(gpu, &reading, source.gpus())? {
                source.reject(&late.to_string());
            }
            self.count(gpu, reading.at, source.counts())?;
            self.record_rates(gpu, reading.at, &source.rates());
            step(source);
        }
        for (gpu, change) in source.take_holder_changes() {
            self.change_holders(gpu, change);
        }
        Ok(())
    }

    /// Counts traffic and errors of a GPU.
    fn count(&mut self, gpu: usize, at: Timestamp, counts: Counts) -> Result<(), PipelineError> {
        if counts == Counts::NONE {
            return Ok(());
        }
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            counts.traffic(at).for_each(|traffic| gpu.meter.measure(&traffic));
        }
        match counts.xid {
            Some(code) => self.emit_xid(gpu, at, code.into()),
            None => Ok(()),
        }
    }

    /// Records rates of the links of a GPU.
    pub fn record_rates(&mut self, gpu: usize, at: Timestamp, rates: &LinkRates) {
        if *rates != LinkRates::NONE {
            let of = self.gpus.iter_mut().skip(gpu).take(1);
            of.for_each(|gpu| gpu.meter.device_mut().totals.record_rates(at, rates));
        }
    }

    /// Meters one reading of the GPU at this index of `identities`. The inner error is returned if the
    /// reading is behind the watermark.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn ingest(
        &mut self,
        gpu: usize,
        reading: &Reading,
        identities: &[GpuIdentity],
    ) -> Result<Result<(), LateReading>, PipelineError> {
        #[cfg(feature = "full")]
        self.record(|_| Change::Reading(gpu, *reading));
        let Some(reading) = self.within_run(reading) else { return Ok(Ok(())) };
        self.open_if_due(reading.at, identities);
        self.add_found(reading.at, identities);
        if let (Some(metered), Some(identity)) = (self.gpus.get_mut(gpu), identities.get(gpu))
            && metered.learns_model(identity)
        {
            self.price_model(gpu, identity, reading.at);
        }
        if self.gpus.get(gpu).is_some_and(|gpu| gpu.price_until <= reading.at) {
            self.reprice(gpu, reading.at);
        }
        let taken = self.push(gpu, &reading, identities);
        if self.loads.are_due(reading.at) {
            let local = self.local_seconds();
            self.loads.add_up(&mut self.gpus, identities, reading.at, local, false);
        }
        self.send()?;
        Ok(taken)
    }

    /// Meters an interval of utilization that was not polled. Returns false if it is behind the
    /// watermark or precedes the first reading of any GPU.
    pub fn ingest_interval(&mut self, gpu: usize, interval: Interval) -> bool {
        #[cfg(feature = "full")]
        self.record(|_| Change::Interval(gpu, interval));
        self.gpus.get_mut(gpu).is_some_and(|gpu| gpu.meter.push_interval(interval))
    }

    /// Meters an interval of what the parts of a GPU sum to, like [`Self::ingest_interval`].
    pub fn ingest_interval_of_parts(&mut self, gpu: usize, interval: Interval) -> bool {
        #[cfg(feature = "full")]
        self.record(|_| Change::IntervalOfParts(gpu, interval));
        self.gpus.get_mut(gpu).is_some_and(|gpu| gpu.meter.push_interval_of_parts(interval))
    }

    /// Whether holders of a GPU have parts of it of their own, such as MIG instances.
    pub fn divide_into_parts(&mut self, gpu: usize, are_apart: bool) {
        #[cfg(feature = "full")]
        self.record(|_| Change::Parts(gpu, are_apart));
        self.gpus
            .iter_mut()
            .skip(gpu)
            .take(1)
            .for_each(|gpu| gpu.meter.divide_into_parts(are_apart));
    }

    /// The wall time now.
    #[must_use]
    pub fn wall(&self) -> WallOffset {
        self.wall.offset()
    }

    /// The reading, at the end of the run at the latest; `None` if it was taken long after.
    fn within_run(&self, reading: &Reading) -> Option<Reading> {
        let end = self.end.unwrap_or(Timestamp::LAST);
        (reading.at <= end + LAST_POLL).then(|| Reading { at: reading.at.min(end), ..*reading })
    }

    /// Passes a reading to the meter of its GPU.
    fn push(
        &mut self,
        gpu: usize,
        reading: &Reading,
        identities: &[GpuIdentity],
    ) -> Result<(), LateReading> {
        let (Some(metered), Some(identity)) = (self.gpus.get_mut(gpu), identities.get(gpu)) else {
            return Ok(());
        };
        self.buffered -= metered.meter.buffered();
        let taken = metered.push(reading, identity, self.exporter.as_mut());
        if self.buffered + metered.meter.buffered() > MAX_BUFFERED {
            metered.release(BUFFERED_PER_GPU, self.exporter.as_mut());
        }
        self.buffered += metered.meter.buffered();
        taken
    }
}
