//! Passes on which GPUs do the work of which groups, before their time is metered.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_sources::mapping::ReadingBuffer;

use super::{CounterIntake, GatewayBilling, GpuIndices, SeenHolder, ServedTime};
use crate::pipeline::Pipeline;

/// What has been found and not passed on, by GPU of the buffer.
#[derive(Debug, Default)]
pub struct WorkServing(BTreeMap<usize, Vec<ServedTime>>);

impl WorkServing {
    /// Notes the GPUs of the buffer, and the holders that they have had.
    pub fn see(counters: &mut CounterIntake, buffer: &ReadingBuffer, holders: &[SeenHolder]) {
        let Some(servers) = counters.servers() else { return };
        servers.add_gpus(buffer.identities());
        holders.iter().for_each(|seen| servers.see_holder(seen));
    }

    /// Finds the GPUs of work that was done before this instant, up to which they are about to be metered.
    pub fn find(&mut self, counters: &mut CounterIntake, before: Option<Timestamp>) {
        let (Some(servers), Some(before)) = (counters.servers(), before) else { return };
        for served in servers.take(before) {
            self.0.entry(served.gpu).or_default().push(served);
        }
    }

    /// Passes on what is known of a GPU, if it is metered. Before its first reading it costs nothing.
    pub fn pass(&mut self, gpu: usize, billing: &GatewayBilling, pipeline: &mut Pipeline<'_>) {
        let Some(metered) = billing.pipeline_index(gpu) else { return };
        for ServedTime { group, from, until, .. } in self.0.remove(&gpu).into_iter().flatten() {
            pipeline.serve(metered, group, from, until);
        }
    }

    /// Passes on what is known of all GPUs.
    pub fn pass_all(&mut self, billing: &GatewayBilling, pipeline: &mut Pipeline<'_>) {
        let gpus: Vec<usize> = self.0.keys().copied().collect();
        gpus.into_iter().for_each(|gpu| self.pass(gpu, billing, pipeline));
    }
}
