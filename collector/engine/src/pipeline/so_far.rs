//! What a run has metered so far, as if it ended now, and the parts of a run that goes on.

use std::mem;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;

use super::Pipeline;
use super::finish::Finished;
use super::gpu::SpanEnd;
use super::opening::ExperimentState;
use super::run_part::RunPart;

impl Finished {
    /// At the end of a run in parts: the next part that was not taken, in place of the run. Returns whether there is
    /// one; the last one may be empty.
    pub fn next_part(&mut self) -> bool {
        let Some(part) = &mut self.part else { return false };
        self.part_work = Some(part.work(&self.work));
        let is_ended = self.gpus.iter().any(|gpu| gpu.meter.has_ended_part());
        for gpu in &mut self.gpus {
            let is_of_part = !is_ended || gpu.meter.has_ended_part();
            gpu.part = is_of_part.then(|| gpu.meter.take_part()).flatten();
        }
        match part.until.take().filter(|_| is_ended) {
            Some(until) => part.before = until,
            None if is_ended => part.before = self.work.clone(),
            None => self.part = None,
        }
        true
    }
}

impl Pipeline<'_> {
    /// Reads the run as if it ended at `at`, or where its GPUs were last seen: of each GPU all that is known by then, or
    /// of the part of the run in progress. The run itself goes on. `None` if its experiment has not begun.
    pub fn so_far<T>(
        &mut self,
        at: Option<Timestamp>,
        identities: &[GpuIdentity],
        read: impl FnOnce(&Finished) -> T,
    ) -> Option<T> {
        let presence: Vec<_> =
            self.gpus.iter().map(|gpu| (gpu.absence, gpu.vanished, gpu.unlisted)).collect();
        let end = mem::replace(&mut self.end, at);
        let ends = self.end_spans(identities);
        self.end = end;
        let is_in_parts = self.part.is_some();
        let mut meters = Vec::with_capacity(self.gpus.len());
        for (gpu, end) in self.gpus.iter_mut().zip(ends) {
            meters.push(gpu.meter.clone());
            match end {
                SpanEnd::Run(end) => gpu.meter.finish_at(end, &mut ()),
                SpanEnd::Log(end) => gpu.meter.finish_unlisted_at(end, &mut ()),
            }
            gpu.part = is_in_parts.then(|| gpu.meter.part_so_far()).flatten();
        }
        let result = self.read(read);
        for (gpu, (meter, presence)) in self.gpus.iter_mut().zip(meters.into_iter().zip(presence)) {
            (gpu.meter, gpu.part) = (meter, None);
            (gpu.absence, gpu.vanished, gpu.unlisted) = presence;
        }
        result
    }

    /// The part of the run in progress ends at `at`, a whole second that no GPU has reached.
    pub fn end_part_at(&mut self, at: Timestamp) {
        self.stop_changes(super::OtherChange::Part);
        let before = self.part.take().map(|part| part.until.unwrap_or_else(|| self.work.clone()));
        self.part = Some(RunPart { end: at, before: before.unwrap_or_default(), until: None });
        self.gpus.iter_mut().for_each(|gpu| gpu.meter.end_part_at(at));
    }

    /// Work that is recorded from now on is that of the next part.
    pub fn end_work_of_part(&mut self) {
        if let Some(part) = &mut self.part {
            part.until.get_or_insert_with(|| self.work.clone());
        }
    }

    /// Whether the part in progress has ended for all GPUs.
    #[must_use]
    pub fn has_ended_part(&self) -> bool {
        self.gpus.iter().all(|gpu| gpu.meter.has_ended_part())
    }

    /// The latest instant up to which time of a GPU is charged.
    #[must_use]
    pub fn charged_until(&self) -> Option<Timestamp> {
        self.gpus.iter().filter_map(|gpu| gpu.meter.charged_until()).max()
    }

    /// Ends the part in progress, for GPUs that have not reached its end with what is posted, and reads it. Another one
    /// begins with [`Self::end_part_at`]. `None` if no experiment has begun.
    pub fn take_part<T>(&mut self, read: impl FnOnce(&Finished) -> T) -> Option<T> {
        self.end_work_of_part();
        for gpu in &mut self.gpus {
            gpu.part = gpu.meter.take_part();
        }
        let result = self.read(read);
        self.gpus.iter_mut().for_each(|gpu| gpu.part = None);
        result
    }

    /// Reads the run as it is.
    fn read<T>(&mut self, read: impl FnOnce(&Finished) -> T) -> Option<T> {
        let ExperimentState::Open(experiment) = &self.experiment else { return None };
        let run = Finished {
            experiment: experiment.clone(),
            gpus: mem::take(&mut self.gpus),
            pricing: self.pricing.take(),
            alerts: self.alerts.clone(),
            results: mem::take(&mut self.results),
            wall: self.wall.offset(),
            work: self.work.clone(),
            work_by_group: self.work_by_group.clone(),
            part_work: self.part.as_ref().map(|part| part.work(&self.work)),
            part: None,
            has_unit_costs: self.has_unit_costs,
            gaps: self.gaps.clone(),
            experiments: self.ended.clone(),
        };
        let result = read(&run);
        let Finished { gpus, pricing, results, .. } = run;
        (self.gpus, self.pricing, self.results) = (gpus, pricing, results);
        Some(result)
    }
}
