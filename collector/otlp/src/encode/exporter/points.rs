//! Points of GPUs: added at boundaries, sent by rounds.

use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::units::Timestamp;

use super::super::claim::ClaimKind;
use super::super::gpu::GpuExport;
use super::super::settings::ExportSettings;
use super::Exporter;
use super::rounds::Round;
use crate::request::Request;

impl Exporter {
    /// Adds the points of a GPU to the round at this boundary, unless that has left.
    pub(super) fn add_points(&mut self, at: Timestamp, meter: &GpuMeter, gpu: &mut GpuExport) {
        match self.rounds.at_boundary(gpu.index, at, meter.stale_after()) {
            Some(round) => {
                let points = add(round, at, meter, gpu, &self.settings);
                self.rounds.count(points);
            }
            // The round has left. Totals at this boundary may be needed.
            None if gpu.is_handed_over() => {
                let batch = &mut self.rounds.no_points();
                gpu.add_points(at, meter, self.settings.aggregation, batch);
            }
            None => gpu.skip(meter),
        }
    }

    /// Adds the last points of a GPU, at the end of its span.
    pub(super) fn add_last_points(&mut self, at: Timestamp, meter: &GpuMeter, gpu: &mut GpuExport) {
        self.rounds.reach(gpu.index, at);
        let round = self.rounds.last();
        let points = add(round, at, meter, gpu, &self.settings);
        self.rounds.count(points);
    }

    /// Whether the next round leaves without GPUs that are silent. What is known of each is to be
    /// [added](Self::add_silent).
    pub fn leaves_silent(&mut self) -> bool {
        self.rounds.leaves_silent()
    }

    /// Whether the next round leaves without this GPU.
    #[must_use]
    pub fn leaves_out(&self, gpu: &GpuExport) -> bool {
        self.rounds.is_left_out(gpu.index)
    }

    /// Adds what is known of this GPU to the round that leaves without it: it may never reach another
    /// boundary.
    pub fn add_silent(&mut self, meter: &GpuMeter, gpu: &mut GpuExport) {
        if let Some(at) = meter.charged_until()
            && let Some(round) = self.rounds.oldest_without(gpu.index)
        {
            let points = add(round, at, meter, gpu, &self.settings);
            self.rounds.count(points);
        }
    }

    /// Sends the rounds that are complete, and points that fill a request.
    pub(super) fn send_rounds(&mut self) {
        while let Some((at, round)) = self.rounds.take_complete() {
            self.send_round(at, round);
        }
        if let Some((at, part)) = self.rounds.take_filled() {
            self.send_part(at, part);
        }
        if let Some((at, part)) = self.rounds.take_filled_last() {
            self.send_part(at, part);
        }
    }

    /// Sends all rounds but the last, which is returned with its time.
    pub(super) fn take_last_round(&mut self) -> (Timestamp, Round) {
        while let Some((at, round)) = self.rounds.take_oldest() {
            self.send_round(at, round);
        }
        let (at, last) = self.rounds.take_last();
        self.add_cost(&last);
        (at, last)
    }

    fn send_round(&mut self, at: Timestamp, mut round: Round) {
        self.add_cost(&round);
        self.work.add_points(at, self.cost, &mut round.batch);
        self.attribution.add_points(self.cost, &mut round.batch);
        self.active.add_points(&mut round.batch);
        self.send(at, round);
    }

    fn send_part(&mut self, at: Timestamp, part: Round) {
        self.add_cost(&part);
        self.send(at, part);
    }

    fn add_cost(&mut self, round: &Round) {
        self.work.add_served(&round.served);
        self.cost = self.cost.zip(round.cost).map(|(sum, cost)| sum + cost);
    }

    /// Sends points with this time, and before them the finished spans that their exemplars refer to.
    pub(super) fn send(&mut self, at: Timestamp, round: Round) {
        self.flush_spans();
        let Round { mut batch, claims, .. } = round;
        let temporality = self.settings.temporality;
        batch.set_time(at);
        batch.convert(temporality, &mut self.last_totals);
        batch.label(&self.wall);
        let claims = (!claims.is_empty()).then_some((ClaimKind::Sums, claims));
        if let Some(request) =
            batch.into_request(self.hosts.resources(), &self.workload, temporality)
        {
            self.push(Request::Metrics(request), claims);
        }
    }
}

/// Adds the points of a GPU as of `at`, and returns their number.
fn add(
    round: &mut Round,
    at: Timestamp,
    meter: &GpuMeter,
    gpu: &mut GpuExport,
    settings: &ExportSettings,
) -> usize {
    let before = round.batch.len();
    round.claims.extend(gpu.claim(at, settings.temporality.counters()));
    gpu.add_points(at, meter, settings.aggregation, &mut round.batch);
    let cost = gpu.cost_since_last_export(meter);
    round.cost = round.cost.zip(cost).map(|(sum, cost)| sum + cost);
    round.served += &std::mem::take(&mut gpu.served);
    round.batch.len() - before
}
