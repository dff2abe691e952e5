//! GPUs that the agents of nodes bill: what sidecars send about the same time of them is a duplicate.
//!
//! A sidecar beside an agent leaves costs to it. Two that do not see each other, and both read the driver, meet here.

use std::collections::HashMap;

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::EncodedRequest;
use phasemeter_receiver::{GpuPoint, drop_gpu_points};
use tracing::warn;

use phasemeter_environment::resource::Role;

/// Maximum number of GPUs of agents that are distinguished. Duplicates of further ones are passed on.
const MAX_GPUS: usize = 16_384;

/// Maximum number of agents of a GPU, one after another, that are distinguished. The oldest are forgotten.
const MAX_AGENTS: usize = 8;

/// Sums that share less than this are of different time: a sidecar takes over where an agent has ended, by its own
/// clock.
const TOLERANCE: Nanos = Nanos::SECOND;

/// The time of each GPU that agents have billed so far, and until when sums of sidecars were passed on.
#[derive(Debug, Default)]
pub(super) struct AgentGpus {
    billed: HashMap<String, Vec<Range>>,
    sidecars: HashMap<String, Range>,
}

/// A half-open range of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    from: Timestamp,
    to: Timestamp,
}

impl Range {
    /// The time that both have.
    fn shared(self, other: Self) -> Nanos {
        self.to.min(other.to).since(self.from.max(other.from))
    }

    fn touches(self, other: Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

impl AgentGpus {
    /// The request without points of sidecars about GPUs of agents; `None` if nothing is left.
    pub(super) fn without_duplicates(&mut self, request: EncodedRequest) -> Option<EncodedRequest> {
        drop_gpu_points(request, &mut |point| self.is_duplicate(point))
    }

    fn is_duplicate(&mut self, point: &GpuPoint<'_>) -> bool {
        let range = Range { from: point.start, to: point.at };
        if point.role == Role::Agent.name() {
            self.bill(point.gpu, range);
        }
        if point.role != Role::Sidecar.name() {
            return false;
        }
        // A sum that has time of both cannot be divided, now or later: it is left out from then on.
        let billed = self.billed.get(point.gpu).map_or(&[][..], Vec::as_slice);
        let is_duplicate = billed.iter().any(|billed| billed.shared(range) > TOLERANCE);
        if !is_duplicate
            && (self.sidecars.len() < MAX_GPUS || self.sidecars.contains_key(point.gpu))
        {
            self.sidecars.insert(point.gpu.to_owned(), range);
        }
        is_duplicate
    }

    fn bill(&mut self, gpu: &str, range: Range) {
        if self.billed.len() >= MAX_GPUS && !self.billed.contains_key(gpu) {
            return;
        }
        let billed = self.billed.entry(gpu.to_owned()).or_default();
        // Sums of holders begin later than those of the GPU.
        if let Some(known) = billed.iter_mut().find(|known| known.touches(range)) {
            known.from = known.from.min(range.from);
            known.to = known.to.max(range.to);
            return;
        }
        billed.push(range);
        if billed.len() > MAX_AGENTS {
            billed.remove(0);
        }
        let twice = self.sidecars.get(gpu).map(|passed| passed.shared(range));
        if let Some(twice) = twice.filter(|twice| *twice > TOLERANCE) {
            warn!(
                "{gpu}: {:.0} s were exported by a sidecar before the agent of its node; mount the agent's socket in \
                 its pod",
                twice.as_secs_f64()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(seconds)
    }

    #[test]
    fn sidecar_is_left_out_while_an_agent_bills_its_gpu() {
        let mut agents = AgentGpus::default();
        let mut is_duplicate = |role, gpu, from, to| {
            agents.is_duplicate(&GpuPoint { role, gpu, start: at(from), at: at(to) })
        };
        assert!(!is_duplicate("sidecar", "a", 10, 60));
        assert!(!is_duplicate("agent", "a", 60, 120));
        // Up to where the agent began it is the only one.
        assert!(!is_duplicate("sidecar", "a", 10, 60));
        assert!(is_duplicate("sidecar", "a", 10, 120));
        assert!(is_duplicate("sidecar", "a", 10, 180));
        assert!(!is_duplicate("sidecar", "b", 10, 120));
        assert!(!is_duplicate("gateway", "a", 10, 120));
        // Sums after the end of the agent.
        assert!(!is_duplicate("sidecar", "a", 120, 180));
        // Another agent begins, and what the sidecar has exported between both stays.
        assert!(!is_duplicate("agent", "a", 200, 240));
        assert!(!is_duplicate("sidecar", "a", 120, 200));
        assert!(is_duplicate("sidecar", "a", 120, 240));
        // Half a second by two clocks is not a duplicate.
        let half = Nanos::from_millis(500);
        let (start, at) = (at(120), at(200) + half);
        assert!(!agents.is_duplicate(&GpuPoint { role: "sidecar", gpu: "a", start, at }));
    }

    #[test]
    fn gpus_of_agents_are_limited() {
        let mut agents = AgentGpus::default();
        for gpu in 0..2 * MAX_GPUS {
            let gpu = format!("GPU-{gpu}");
            agents.is_duplicate(&GpuPoint { role: "agent", gpu: &gpu, start: at(0), at: at(60) });
        }
        assert_eq!(agents.billed.len(), MAX_GPUS);
    }
}
