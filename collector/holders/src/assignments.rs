//! The result of a poll: who holds each GPU, how that is known, and what is in doubt.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use phasemeter_meter::holder::{Grant, Holder};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::units::Timestamp;
use thiserror::Error;

use crate::access::Access;
use crate::claims::Unresolved;
use crate::fraction_problem::FractionProblem;

/// Who holds the GPUs of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignments {
    /// The time of the poll.
    pub at: Timestamp,
    /// Every GPU of the node, by UUID. A GPU that nobody is known to hold has no grants. Holders of MIG instances have
    /// their part of the whole GPU here.
    pub gpus: BTreeMap<String, Assignment>,
    /// Every MIG instance of the node, by UUID; grants are parts of the instance.
    pub instances: BTreeMap<String, Assignment>,
    /// The holders of processes on the GPUs, by process ID. Processes of no known holder are missing: what they use is
    /// nobody's.
    pub processes: BTreeMap<u32, Holder>,
    /// What is known of the holders of GPUs besides: of pods by the API server, of jobs by Slurm.
    pub details: BTreeMap<Holder, Arc<HolderDetails>>,
    /// Evidence that is missing or in doubt, for logs.
    pub problems: Vec<Problem>,
}

/// Who holds a GPU or a MIG instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// From when on exactly these hold it; at most the time of the poll. It is earlier if a change was in doubt at first:
    /// apply the grants from then on.
    pub since: Timestamp,
    /// Who holds it, in the order of holders; each holder once.
    pub held: Vec<Held>,
    /// The holders that have a compute process on it now.
    pub touched: Vec<Holder>,
    /// What weaker evidence says otherwise.
    pub disagreements: Vec<Disagreement>,
}

impl Assignment {
    /// The grants, for the meter.
    #[must_use]
    pub fn grants(&self) -> Vec<Grant> {
        self.held.iter().map(|held| held.grant.clone()).collect()
    }
}

/// A grant and how it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The holder and its part. The part is unknown if several hold the GPU, and no source states the parts.
    pub grant: Grant,
    /// The evidence that counts.
    pub source: Source,
}

/// Evidence of who holds a GPU, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Devices of a device plugin that the kubelet lists.
    DevicePlugin,
    /// Claims of dynamic resource allocation that the kubelet lists.
    Claim,
    /// Pods among which KAI or Run:ai divide a GPU that the kubelet gave to a reservation pod.
    Fraction,
    /// Control groups of the processes on the GPU.
    ControlGroup,
    /// Files that Slurm's prolog writes.
    Prolog,
    /// Job-mapping files, as for dcgm-exporter.
    JobMapping,
    /// Environments of processes on the GPU that torchrun or Ray has started.
    Environment,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DevicePlugin => "kubelet (device plugin)",
            Self::Claim => "kubelet (claim)",
            Self::Fraction => "kubelet (reservation pod)",
            Self::ControlGroup => "control group",
            Self::Prolog => "prolog file",
            Self::JobMapping => "job-mapping file",
            Self::Environment => "environment",
        })
    }
}

/// Two sources disagree about a GPU. The text is one sentence, which says which counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// Weaker evidence names another holder.
    #[error("{gpu}: {other}, by {other_by}, does not count: {counts} holds it, by {by}")]
    Holder {
        /// The UUID of the GPU or MIG instance.
        gpu: String,
        /// A holder that counts.
        counts: String,
        /// The evidence of it.
        by: Source,
        /// The other holder.
        other: String,
        /// The evidence of that.
        other_by: Source,
    },
    /// A process belongs to a pod or job that holds no part of the GPU.
    #[error(
        "{gpu}: {other}, by control group, holds no part of it: what its processes use is nobody's"
    )]
    Process {
        /// The UUID of the GPU or MIG instance.
        gpu: String,
        /// The pod or job of the process.
        other: String,
    },
}

/// Evidence that is missing or in doubt. The text is one line for logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The kubelet does not answer. Its last list counts for some minutes.
    #[error("kubelet at {socket}: {reason}")]
    Kubelet {
        /// The path of its socket.
        socket: String,
        /// Why, and what to do.
        reason: String,
    },
    /// The kubelet lists no pods. The last list counts until that has lasted some seconds.
    #[error("kubelet lists no pods: its last list counts, since it may have restarted")]
    EmptyList,
    /// The kubelet does not say how many replicas GPUs have: parts of replicated GPUs are unknown.
    #[error("number of replicas of GPUs is unknown: {reason}")]
    Replicas {
        /// Why.
        reason: String,
    },
    /// The API server does not answer.
    #[error("API server: cannot {access}: {reason}; until then {}", .access.missing())]
    Api {
        /// What was requested.
        access: Access,
        /// Why, and what to do.
        reason: String,
    },
    /// The GPU of a claim's device is unknown: it may be held without a holder.
    #[error("GPU of device {device} is unknown: {reason}")]
    Unresolved {
        /// Driver, pool and device.
        device: String,
        /// Why.
        reason: Unresolved,
    },
    /// A GPU that a scheduler divides is held otherwise than it says.
    #[error(transparent)]
    Fraction(FractionProblem),
    /// A source names a GPU that the driver does not list.
    #[error("{device} is not on this node")]
    UnknownDevice {
        /// The GPU as the source names it.
        device: String,
    },
    /// A claim has all GPUs, and others have some of them: it is taken for one with administrative access.
    #[error(
        "claim {claim} of {pod} has all GPUs beside other claims: taken for administrative access, so it holds none; allow get of resourceclaims to be sure"
    )]
    Administration {
        /// Namespace and name of the claim.
        claim: String,
        /// Namespace and name of the pod.
        pod: String,
    },
    /// A directory of evidence cannot be read.
    #[error("{path}: {reason}")]
    Directory {
        /// Its path.
        path: String,
        /// Why.
        reason: String,
    },
    /// A prolog file is not in its format.
    #[error(
        "{path}: invalid prolog file: expected SLURM_JOB_ID=NUMBER, and SLURM_JOB_GPUS with at most 64 numbers, ranges or UUIDs"
    )]
    JobFile {
        /// Its path.
        path: String,
    },
    /// Control groups of processes cannot be read: none of them is known to be of a holder.
    #[error(
        "control groups of processes on GPUs cannot be read; use the PID namespace of the host"
    )]
    Processes,
    /// More than is read.
    #[error("{count} {what} are left out, since there are too many")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many.
        count: usize,
    },
}
