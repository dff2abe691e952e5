//! The end of a live run, and what its report states beside the bill.

use std::sync::atomic::Ordering;
use std::time::Duration;

use phasemeter_engine::live::{MigCoverage, event as live_event};
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_engine::sampler::{Sampler, SamplerStats};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::CommandExit;
use phasemeter_report::Provenance;

use super::Live;
use crate::command::interruption_log::LiveInterruptions;
use crate::command::outputs::FinishedRun;
use crate::command::span_notes;

impl Live {
    /// How sampling has gone so far.
    pub(in crate::command) fn sampler_stats(&self) -> SamplerStats {
        self.sampler.stats()
    }

    /// Now. The accounts of an agent end at a whole second: it waits for the next one, so that it bills no time that
    /// has not passed.
    fn end(&self) -> Timestamp {
        let now = self.clock.now();
        if self.agent.is_none() {
            return now;
        }
        let end = now.ceil_second();
        while self.clock.now() < end {
            self.clock.wait(Duration::from_nanos(end.since(self.clock.now()).0));
        }
        end
    }

    /// Stops sampling and finalizes all GPUs, also those that are `missing`: the run ends now, an
    /// agent's at the next whole second, however long their last calls take. `exit`: how the command ended, if there is one; `interruptions`: the notices of
    /// the cloud, if it was watched; `may_wait`: whether the end may wait for the accounts of the agent of the node.
    pub(in crate::command) fn finish(
        mut self,
        exit: Option<CommandExit>,
        missing: Vec<GpuIdentity>,
        interruptions: Option<LiveInterruptions>,
        may_wait: impl Fn() -> bool,
    ) -> Result<FinishedRun, PipelineError> {
        self.work.settle();
        let end = self.end();
        self.pipeline.end_at(end);
        let hung = self.sampler.stop(Sampler::GRACE);
        self.loading.iter().for_each(|policies| policies.wait());
        self.drain()?;
        let mut sampling = vec![self.sampler.stats().summary()];
        let hung = hung.into_iter().filter_map(|gpu| Some(self.name(*self.places.get(gpu)?)));
        sampling
            .extend(hung.map(|name| format!("{name} hung at the end; its last readings are lost")));
        let is_known = |it: &GpuIdentity| self.gpus.iter().any(|gpu| gpu.key() == it.key());
        let (known, missing): (Vec<_>, Vec<_>) = missing.into_iter().partition(is_known);
        let lost = known.iter().map(|gpu| live_event::name(Some(gpu)));
        sampling.extend(lost.map(|name| format!("{name} did not respond after the restart")));
        for identity in missing {
            self.pipeline.add(&identity, self.start);
            self.gpus.push(identity);
            let name = self.name(self.gpus.len() - 1);
            sampling.push(format!("{name} did not respond; it is unobserved"));
        }
        if let Some(hand_over) = &mut self.hand_over {
            hand_over.settle(end, may_wait);
            sampling.extend(hand_over.finish(&mut self.pipeline, &self.gpus));
        }
        self.events.finish(&mut self.pipeline, &self.gpus, end)?;
        let late = self.late.load(Ordering::Relaxed);
        if late > 0 {
            sampling.push(format!("{late} readings arrived too late and were dropped"));
        }
        let MigCoverage { metered, without_counters } = self.mig.coverage();
        sampling.extend(metered.into_iter().map(|gpu| {
            format!(
                "{} was metered by its MIG instances while in MIG mode (gpm.sm)",
                self.name(gpu)
            )
        }));
        sampling.extend(without_counters.into_iter().map(|gpu| {
            format!(
                "{} is unobserved in MIG mode: the driver has no GPM counters of its instances; phasemeter gateway meters \
                 it by DCGM's",
                self.name(gpu)
            )
        }));
        sampling.extend(self.clock_notes.take());
        sampling.append(&mut self.notes);
        sampling.extend(self.restarts.take());
        sampling.extend(self.attempts.unfollowed());
        sampling.extend(self.work.note());
        let mut window_start = None;
        if let Some(exit) = exit {
            self.pipeline.end_command(exit);
        }
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.take_rest(&mut self.pipeline, &self.gpus, &mut self.work, end);
        }
        self.kinds.set(&mut self.pipeline, self.gpus.len());
        self.pipeline.finish_gpus(&self.gpus)?;
        self.agent.iter().for_each(|agent| agent.conclude(&self.pipeline, &self.gpus));
        let spans = match self.telemetry.take() {
            Some(telemetry) => telemetry.finish(&mut self.pipeline)?,
            None => None,
        };
        sampling.extend(spans.iter().flat_map(span_notes::sentences));
        let run = self.pipeline.finish(&self.gpus, |window| {
            window_start = window.as_ref().map(|window| window.start);
            self.scheduler.finish(window)
        })?;
        let begins = run.gpus.iter().filter_map(|gpu| gpu.meter.begins_at()).min();
        let begins = begins.map(|begins| run.wall.wall(begins));
        let mut assumptions = vec![self.zone.describe()];
        if begins < window_start && !run.results.each.is_empty() {
            assumptions.push("policies evaluated the last 24 hours only".to_owned());
        }
        let unsaved = self.work.unsaved(self.start, end);
        let provenance = Provenance {
            work_by_hour: self.work.by_hour(),
            interruptions: interruptions.map(|notices| notices.finish(unsaved)),
            assumptions,
            sampling,
            attribution: spans.as_ref().map(span_notes::attribution),
            timed: true,
            settled: self.settled,
            ..Provenance::default()
        };
        let accounts = self.hand_over.map(|hand_over| (hand_over.into_accounts(), end));
        Ok(FinishedRun { run, gpus: self.gpus, provenance, accounts })
    }
}
