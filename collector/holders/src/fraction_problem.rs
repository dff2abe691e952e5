//! What is in doubt about a GPU that a scheduler divides.

use thiserror::Error;

/// What is in doubt about a GPU that a scheduler divides.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum FractionProblem {
    /// The annotation of a reservation pod and the kubelet name different GPUs.
    #[error("{pod} names {named}, and the kubelet gave it {gpu}: the kubelet counts")]
    OtherGpu {
        /// The reservation pod.
        pod: String,
        /// The GPU by its annotation.
        named: String,
        /// The GPU by the kubelet.
        gpu: String,
    },
    /// No pod reserves a GPU for a group.
    #[error("{pod} has a part of a GPU of group {group}, which no pod reserves: it holds none")]
    NotReserved {
        /// The pod of the group.
        pod: String,
        /// The group.
        group: String,
    },
    /// The annotations of a pod do not state its part of a GPU.
    #[error(
        "{pod} has an unknown part of {gpu}: neither gpu-fraction nor gpu-memory states a part of it"
    )]
    UnknownPart {
        /// The pod.
        pod: String,
        /// The GPU.
        gpu: String,
    },
    /// The parts of a GPU are more than the GPU.
    #[error("pods of group {group} have more than all of {gpu}: their parts are taken for unknown")]
    TooMuch {
        /// The group.
        group: String,
        /// The GPU.
        gpu: String,
    },
}
