//! A live run: meters the observations of the sampler.

mod arrivals;
mod finish;
mod interruption;
mod observation;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Receiver;

use phasemeter_doctor::seen::Seen;
use phasemeter_engine::gateway::{CommandTelemetry, CounterIntake, Metered, SpanCosts};
use phasemeter_engine::health::Health;
use phasemeter_engine::live::{
    ClockNotes, EventLog, HardwareExport, LongTrace, MigParts, event as live_event,
};
use phasemeter_engine::pipeline::{Pipeline, PipelineError};
use phasemeter_engine::policies::PolicyManager;
use phasemeter_engine::sampler::Sampler;
use phasemeter_engine::telemetry::Telemetry;
use phasemeter_engine::work::{Attempts, WorkIntake, WorkKinds};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_savings::trial::Settled;
use phasemeter_sources::clock::{Clock, ClockChange, ClockWatch};
use phasemeter_sources::live::Observation;
use phasemeter_work::mapping::WorkMappings;
use tracing::{info, warn};

use super::hand_over::HandOver;
use super::interim::{OpenRun, answer_status};
use super::local_zone::LocalZone;
use super::node_agent::NodeAgent;
use super::node_price::NodePrice;
use super::outputs::Outputs;
use super::reload::{Reload, Target};
use super::restarts::Restarts;
use super::window_scheduler::WindowScheduler;
use phasemeter_cli::MeteringArgs;

/// A live run.
pub(super) struct Live {
    sampler: Sampler,
    pipeline: Pipeline<'static>,
    gpus: Vec<GpuIdentity>,
    /// The place of each GPU of the sampler in `gpus`.
    places: Vec<usize>,
    clock: Clock,
    zone: LocalZone,
    watch: ClockWatch,
    clock_notes: ClockNotes,
    scheduler: WindowScheduler,
    work: WorkIntake,
    /// The jobs of launchers below the command.
    pub(super) attempts: Attempts,
    restarts: Restarts,
    /// What the command sends, if it is received.
    telemetry: Option<CommandTelemetry>,
    /// What tells kinds of work apart.
    pub(super) kinds: WorkKinds,
    /// Which GPUs are exported as hardware.
    pub(super) hardware: HardwareExport,
    /// Who holds the GPUs, if this is the agent of a node.
    agent: Option<NodeAgent>,
    /// What the labels of the node do to its price, if they are followed.
    pub(super) node_price: Option<NodePrice>,
    /// The trials that were settled.
    pub(super) settled: Vec<Settled>,
    /// Which GPUs the agent of the node exports, if this may be beside one.
    pub(super) hand_over: Option<HandOver>,
    /// The policies, until they are known to be loaded.
    loading: Option<Arc<PolicyManager>>,
    /// From when on GPUs are billed that are there at the start.
    pub(super) start: Timestamp,
    observations: Vec<Observation>,
    events: EventLog,
    /// Readings dropped because they arrived after the watermark.
    late: Arc<AtomicU64>,
    /// What becomes of calls, if that is of interest.
    pub(super) seen: Option<Seen>,
    /// The MIG instances of the GPUs.
    mig: MigParts,
    /// What notices that the trace becomes long.
    pub(super) long_trace: LongTrace,
    /// GPUs that were added and a trace that is long, each a sentence without its full stop.
    notes: Vec<String>,
}

impl Live {
    /// Meters the observations of GPUs that join.
    pub(super) fn new(
        sampler: Sampler,
        pipeline: Pipeline<'static>,
        clock: Clock,
        zone: LocalZone,
        scheduler: WindowScheduler,
        work: WorkIntake,
        loading: Option<Arc<PolicyManager>>,
    ) -> Self {
        let watch = clock.watch_from(|now| pipeline.wall().wall(now));
        Self {
            sampler,
            pipeline,
            gpus: Vec::new(),
            places: Vec::new(),
            clock,
            zone,
            watch,
            clock_notes: ClockNotes::default(),
            scheduler,
            work,
            attempts: Attempts::default(),
            restarts: Restarts::default(),
            telemetry: None,
            kinds: WorkKinds::default(),
            hardware: HardwareExport::default(),
            agent: None,
            node_price: None,
            settled: Vec::new(),
            hand_over: None,
            loading,
            start: clock.now(),
            observations: Vec::new(),
            events: EventLog::default(),
            late: Arc::default(),
            seen: None,
            mig: MigParts::default(),
            long_trace: LongTrace::default(),
            notes: Vec::new(),
        }
    }

    /// Follows who holds the GPUs of the node. Its accounts begin at a whole second, as they end: sidecars hand GPUs over
    /// at whole seconds.
    pub(super) fn follow(&mut self, agent: NodeAgent) {
        self.agent = Some(agent);
        self.start = self.start.ceil_second();
    }

    /// Meters what the command sends, too. `spans`: what prices its spans, if any are to be.
    pub(super) fn receive(
        &mut self,
        metered: Receiver<Metered>,
        spans: Option<SpanCosts>,
        work: WorkMappings,
    ) {
        let counters = CounterIntake::for_command(work, self.start);
        let pipeline = &mut self.pipeline;
        self.telemetry = Some(CommandTelemetry::start(metered, spans, counters, pipeline));
    }

    /// Adds the sampler to internal telemetry.
    pub(super) fn observe(&self, telemetry: &Telemetry) {
        telemetry.watch_sampler(self.sampler.stats_handle(), Arc::clone(&self.late));
    }

    /// Meters the observations since the last call. Call it a few times per second. While policies are
    /// being loaded, which may price them, they wait in the sampler.
    pub(super) fn drain(&mut self) -> Result<(), PipelineError> {
        self.work.take(&mut self.pipeline);
        for restart in self.attempts.step(&mut self.pipeline, &self.work, self.clock.now()) {
            info!("{}", self.restarts.add(&restart, &self.pipeline));
        }
        self.hardware.step(&self.gpus, self.clock.now(), &mut self.pipeline);
        // Also before there are prices: what is received waits in a short queue.
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.step(&mut self.pipeline, &self.gpus, &mut self.work, self.clock.now())?;
        }
        if let Some(policies) = self.loading.take() {
            if policies.is_loading() {
                self.loading = Some(policies);
                return Ok(());
            }
            self.pipeline.price_unpriced();
        }
        let change = self.watch.check();
        self.follow_clock(change)?;
        let mut observations = std::mem::take(&mut self.observations);
        self.sampler.drain(|observation| observations.push(observation));
        for observation in observations.drain(..) {
            self.process(observation)?;
        }
        self.observations = observations;
        let now = self.clock.now();
        if let Some(agent) = &mut self.agent {
            agent.step(&mut self.pipeline, &self.gpus, now);
        }
        if let Some(price) = &mut self.node_price {
            price.step(&mut self.pipeline, now);
        }
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.step(&mut self.pipeline, &self.gpus);
        }
        if let Some(notice) = self.long_trace.step(now) {
            warn!("{notice}");
            self.notes.push(notice.to_owned());
        }
        self.events.step(&mut self.pipeline, &self.gpus, now)?;
        self.pipeline.advance_experiments(now)
    }

    /// Follows a step of the wall clock; time while suspended has no readings.
    fn follow_clock(&mut self, change: ClockChange) -> Result<(), PipelineError> {
        if let Some(suspended) = change.suspended {
            let seconds = suspended.as_secs_f64();
            self.clock_notes
                .push(format!("machine suspended for {seconds:.1} s, which is unobserved"));
        }
        if let Some(step) = change.step {
            self.clock_notes
                .push(format!("{step}; new sessions began, and lengths did not change"));
            self.pipeline.step_wall_clock(&step)?;
        }
        Ok(())
    }

    /// Keeps what has changed the run, and sends what claims time.
    pub(super) fn claim(&mut self, outputs: &mut Outputs) -> Result<(), PipelineError> {
        outputs.keep(&mut self.pipeline, self.clock.now())?;
        outputs.step(&mut self.pipeline, self.gpus.len());
        Ok(())
    }

    /// Writes the reports that are due while the run goes on, and makes the one that a client waits for.
    pub(super) fn report(
        &mut self,
        outputs: &mut Outputs,
        health: &Health,
        args: &MeteringArgs,
        title: &str,
    ) {
        let now = self.clock.now();
        let Self { pipeline, gpus, zone, settled, hand_over, .. } = self;
        let accounts = hand_over.as_mut().map(HandOver::accounts);
        let mut run = OpenRun { pipeline, gpus, now, is_live: true, zone, settled, accounts };
        if let Some(interim) = &mut outputs.interim {
            interim.step(args, title, &mut run);
        }
        answer_status(health, outputs.interim.as_ref(), args, title, &mut run);
    }

    /// Evaluates policies if a window is due, and exports new results.
    pub(super) fn evaluate_policies(&mut self) -> Result<(), PipelineError> {
        let (pipeline, gpus, zone) = (&mut self.pipeline, &self.gpus, &self.zone);
        let kinds = &mut self.kinds;
        let results = self.scheduler.step(|| {
            // Daylight saving time may have begun or ended.
            pipeline.set_utc_offset(zone.offset());
            kinds.set(pipeline, gpus.len());
            pipeline.window(gpus, false)
        });
        let Some(results) = results else { return Ok(()) };
        self.pipeline.export_results(&results, gpus, self.clock.now())?;
        self.pipeline.keep_results(results);
        Ok(())
    }

    /// Applies a configuration file that has changed, or if that `is_requested`.
    pub(super) fn reload(&mut self, reload: &mut Reload, is_requested: bool) {
        let now = self.clock.now();
        let Self { pipeline, scheduler, node_price, .. } = self;
        let node_price = node_price.as_mut();
        reload.step(is_requested, Target { pipeline, scheduler, node_price, now });
    }

    /// The present, by the clock of the run.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn name(&self, gpu: usize) -> String {
        live_event::name(self.gpus.get(gpu))
    }
}
