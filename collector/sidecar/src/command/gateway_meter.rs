//! A running gateway: meters what it receives, in the order of time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_engine::gateway::{
    CounterIntake, DropCounts, DroppedBy, FarFromClock, GatewayBilling, GatewayCounts,
    GatewayStatus, Intake, Metered, SpanPricing, WorkServing,
};
use phasemeter_engine::health::Health;
use phasemeter_engine::pipeline::Pipeline;
use phasemeter_engine::work;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_report::Provenance;
use phasemeter_savings::trial::Settled;
use phasemeter_sources::clock::{Clock, wall_time};
use phasemeter_sources::mapping::{HeldReading, ReadingBuffer};
use phasemeter_work::held::{HeldWork, WorkDone};
use phasemeter_work::ledger::WorkLedger;

use super::error::CommandError;
use super::gateway_notes::{self, Dropped};
use super::interim::{OpenRun, answer_status};
use super::local_zone::LocalZone;
use super::mappings;
use super::outputs::{FinishedRun, Outputs};
use super::reload::{Reload, Target};
use super::signals::{SignalEvent, SignalListener};
use super::span_notes;
use super::window_scheduler::WindowScheduler;
use phasemeter_cli::MeteringArgs;

/// How long the gateway waits for requests before it releases readings and looks for signals.
const STEP: Duration = Duration::from_millis(100);

/// The title of its reports.
const TITLE: &str = "gateway";

/// A running gateway.
pub(super) struct GatewayMeter {
    pub(super) intake: Intake,
    pub(super) counters: CounterIntake,
    pub(super) work: HeldWork,
    pub(super) ledger: WorkLedger,
    pub(super) serving: WorkServing,
    pub(super) buffer: ReadingBuffer,
    pub(super) billing: GatewayBilling,
    pub(super) pipeline: Pipeline<'static>,
    pub(super) spans: Option<SpanPricing>,
    pub(super) scheduler: WindowScheduler,
    /// The trials that were settled.
    pub(super) settled: Vec<Settled>,
    pub(super) clock: Clock,
    pub(super) zone: LocalZone,
    pub(super) started: Instant,
    pub(super) status: Arc<GatewayStatus>,
    pub(super) reload: Reload,
}

impl GatewayMeter {
    /// Meters until a signal or the end of the duration.
    pub(super) fn run(
        &mut self,
        received: &Receiver<Metered>,
        signals: &SignalListener,
        until: Option<Instant>,
        health: &Health,
        outputs: &mut Outputs,
        args: &MeteringArgs,
    ) -> Result<(), CommandError> {
        while until.is_none_or(|until| Instant::now() < until) {
            if self.spans.as_ref().is_some_and(SpanPricing::is_full) {
                // Then forwarding waits, too, and clients are asked to retry.
                thread::sleep(STEP);
            } else {
                match received.recv_timeout(STEP) {
                    Ok(received) => self.take(received),
                    Err(RecvTimeoutError::Timeout) => {}
                    // The forwarder has ended, and nothing passes any more.
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            let now = Nanos::from(self.started.elapsed());
            // Work counts with the cost of its time.
            let work = self.work.release(now);
            self.record(work);
            let released = self.buffer.release(now);
            self.meter(&released)?;
            if self.status.set(self.counts()) {
                let FarFromClock { ahead, old } = self.far_from_clock();
                let late = self.intake.late().clone();
                self.status.set_dropped_by(DroppedBy { late, ahead, old });
            }
            self.price_spans()?;
            health.step();
            outputs.step(&mut self.pipeline, self.billing.gpus().len());
            self.report(outputs, health, args);
            let (pipeline, gpus, zone) = (&mut self.pipeline, self.billing.gpus(), &self.zone);
            let results = self.scheduler.step(|| {
                // Daylight saving time may have begun or ended.
                pipeline.set_utc_offset(zone.offset());
                pipeline.window(gpus, false)
            });
            if let Some(results) = results {
                self.pipeline.export_results(&results, self.billing.gpus(), self.clock.now())?;
                self.pipeline.keep_results(results);
            }
            let happened = signals.next(Duration::ZERO);
            let (now, node_price) = (self.clock.now(), None);
            let Self { pipeline, scheduler, reload, .. } = self;
            let is_requested = happened == Some(SignalEvent::Reload);
            reload.step(is_requested, Target { pipeline, scheduler, node_price, now });
            if let Some(SignalEvent::Signal(_)) = happened {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Writes the reports that are due while the gateway goes on, and makes the one that a client waits for.
    fn report(&mut self, outputs: &mut Outputs, health: &Health, args: &MeteringArgs) {
        let now = self.clock.now();
        let Self { pipeline, billing, zone, settled, .. } = self;
        let gpus = billing.gpus();
        let (is_live, accounts) = (false, None);
        let mut run = OpenRun { pipeline, gpus, now, is_live, zone, settled, accounts };
        if let Some(interim) = &mut outputs.interim {
            interim.step(args, TITLE, &mut run);
        }
        answer_status(health, outputs.interim.as_ref(), args, TITLE, &mut run);
    }

    fn take(&mut self, metered: Metered) {
        match metered {
            Metered::Metrics(received) => {
                // It was decoded before it was accepted.
                let Ok(request) = received.decode() else { return };
                let (arrived, now) = (Nanos::from(self.started.elapsed()), wall_time());
                self.intake.take(&request, now, arrived, &mut self.buffer);
                let (holders, meters) = (self.intake.take_holders(), self.intake.take_meters());
                if let Some(pricing) = &mut self.spans {
                    let costs = pricing.costs();
                    meters.iter().for_each(|meter| costs.see_meter(meter));
                    costs.add_gpus(self.buffer.identities());
                    holders.iter().for_each(|seen| costs.see_holder(seen));
                }
                WorkServing::see(&mut self.counters, &self.buffer, &holders);
                for done in self.counters.take(&request, now) {
                    self.work.add(done, arrived);
                }
            }
            Metered::Spans(spans) => {
                if let Some(pricing) = &mut self.spans {
                    pricing.costs().add_gpus(self.buffer.identities());
                    pricing.take(spans, self.clock.now());
                }
            }
        }
    }

    fn record(&mut self, work: Vec<WorkDone>) {
        for WorkDone { at, unit, group, count } in work {
            self.pipeline.record_work(at, unit.name(), &group, count);
            self.ledger.add(at, unit, count);
        }
    }

    /// What is metered so far, and what is not.
    fn counts(&self) -> GatewayCounts {
        let far = [self.intake.far_from_clock(), self.counters.far_from_clock()];
        let over_limit = self.buffer.over_limit();
        let dropped = DropCounts {
            late: self.billing.summary().late + self.buffer.dropped() + self.counters.dropped(),
            ahead: far.iter().map(|it| it.ahead.total()).sum(),
            old: far.iter().map(|it| it.old.total()).sum(),
            over_limit: over_limit.values(),
        };
        let gpus = self.billing.gpus().len();
        GatewayCounts { gpus, gpus_over_limit: over_limit.count(), dropped }
    }

    /// Values whose time was far from the clock.
    fn far_from_clock(&self) -> FarFromClock {
        self.intake.far_from_clock().clone().with(self.counters.far_from_clock())
    }

    /// Divides what GPUs cost among the spans that wait.
    fn price_spans(&mut self) -> Result<(), CommandError> {
        let Some(pricing) = self.spans.as_mut().filter(|it| it.is_due()) else { return Ok(()) };
        let now = self.clock.now();
        let costs = pricing.costs();
        costs.add_gpus(self.buffer.identities());
        for (gpu, until) in self.buffer.final_until(Nanos::from(self.started.elapsed()), now) {
            costs.finalize(gpu, until);
        }
        pricing.advance(&mut self.pipeline, &self.billing, now)?;
        Ok(())
    }

    fn meter(&mut self, released: &[HeldReading]) -> Result<(), CommandError> {
        let newest = released.iter().map(|held| held.reading.at).max();
        self.serving.find(&mut self.counters, newest);
        for held in released {
            if let Some(identity) = self.buffer.identities().get(held.buffer_index) {
                self.serving.pass(held.buffer_index, &self.billing, &mut self.pipeline);
                self.billing.meter(&mut self.pipeline, held, identity)?;
            }
        }
        Ok(self.billing.advance(&mut self.pipeline, &mut self.buffer)?)
    }

    /// Meters what is held, once the receiver has stopped.
    pub(super) fn finish(
        mut self,
        received: &Receiver<Metered>,
        max_age: Nanos,
    ) -> Result<FinishedRun, CommandError> {
        received.iter().for_each(|received| self.take(received));
        let work = self.work.release_all();
        self.record(work);
        let released = self.buffer.release_all();
        self.serving.find(&mut self.counters, Some(Timestamp::LAST));
        self.meter(&released)?;
        self.serving.pass_all(&self.billing, &mut self.pipeline);
        let (far_from_clock, counts) = (self.far_from_clock(), self.counts());
        let Self {
            mut pipeline,
            spans,
            scheduler,
            billing,
            mut buffer,
            ledger,
            intake,
            counters,
            zone,
            settled,
            ..
        } = self;
        billing.end_holding(&mut pipeline, &mut buffer, billing.newest());
        billing.hand_over(&mut pipeline, &buffer);
        pipeline.finish_gpus(billing.gpus())?;
        let finish = |mut pricing: SpanPricing| {
            pricing.costs().add_gpus(buffer.identities());
            pricing.finish(&mut pipeline, &billing)
        };
        let spans = spans.map(finish).transpose()?;
        let run = pipeline.finish(billing.gpus(), |window| scheduler.finish(window))?;
        let late = intake.late().clone();
        let excess = buffer.dropped().saturating_sub(late.total()) + counters.dropped();
        let (over_limit_by, is_full) = (intake.over_limit_by().clone(), buffer.is_full());
        let dropped = Dropped { late, far_from_clock, excess, counts, over_limit_by, is_full };
        let mut assumptions = vec![zone.describe()];
        assumptions.extend(mappings::notes(&buffer));
        assumptions.extend(gateway_notes::covered_by(intake.covered_by()));
        assumptions.extend(billing.is_routed().then(gateway_notes::routed));
        let mut sampling = gateway_notes::sentences(&billing.summary(), &dropped, max_age);
        sampling.extend(spans.iter().flat_map(span_notes::sentences));
        let provenance = Provenance {
            title: TITLE.to_owned(),
            work_by_hour: work::by_hour(&ledger),
            assumptions,
            sampling,
            attribution: spans.as_ref().map(span_notes::attribution),
            timed: true,
            settled,
            ..Provenance::default()
        };
        let gpus = billing.gpus().to_vec();
        Ok(FinishedRun { run, gpus, provenance, accounts: None })
    }
}
