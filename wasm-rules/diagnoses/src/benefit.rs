//! What faster work is worth.

use phasemeter_policy::{RecommendationKind, Workload};

/// Returns whether doing the same work faster saves money: a job ends sooner, but faster replies of a service return
/// none of its GPUs, and a session lasts as long as its user works.
pub const fn kind_of_speedup(workload: Workload) -> RecommendationKind {
    match workload {
        Workload::Serving | Workload::Interactive => RecommendationKind::Capacity,
        Workload::Training | Workload::Batch | Workload::Unknown => RecommendationKind::Saving,
    }
}
