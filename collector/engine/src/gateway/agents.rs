//! GPUs that the agents of nodes bill: what sidecars send about the same time of them is a duplicate.
//!
//! A sidecar beside an agent leaves costs to it. Two that do not see each other, and both read the driver, meet here.

use std::collections::HashMap;

use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::receiver::{GpuPoint, drop_gpu_points};

use crate::resource::Role;

/// Maximum number of GPUs of agents that are distinguished. Duplicates of further ones are passed on.
const MAX_GPUS: usize = 16_384;

/// The time of each GPU that an agent has billed so far.
#[derive(Debug, Default)]
pub(super) struct AgentGpus {
    billed: HashMap<String, (Timestamp, Timestamp)>,
}

impl AgentGpus {
    /// The request without points of sidecars about GPUs of agents; `None` if nothing is left.
    pub(super) fn without_duplicates(&mut self, request: EncodedRequest) -> Option<EncodedRequest> {
        drop_gpu_points(request, &mut |point| self.is_duplicate(point))
    }

    fn is_duplicate(&mut self, point: &GpuPoint<'_>) -> bool {
        if point.role == Role::Agent.name() {
            self.bill(point);
        }
        // A sum that has time of both cannot be divided, now or later: it is left out from then on.
        let overlaps = |(from, to): &(Timestamp, Timestamp)| point.start < *to && *from < point.at;
        point.role == Role::Sidecar.name() && self.billed.get(point.gpu).is_some_and(overlaps)
    }

    fn bill(&mut self, point: &GpuPoint<'_>) {
        if let Some((from, to)) = self.billed.get_mut(point.gpu) {
            *from = point.start.min(*from);
            *to = point.at.max(*to);
        } else if self.billed.len() < MAX_GPUS {
            self.billed.insert(point.gpu.to_owned(), (point.start, point.at));
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;

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
