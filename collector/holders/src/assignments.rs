//! The result of a poll: who holds each GPU, how that is known, and what is in doubt.

use std::collections::BTreeMap;

use phasemeter_meter::holder::{Grant, Holder};
use phasemeter_meter::units::Timestamp;
use thiserror::Error;

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
    /// Control groups of the processes on the GPU.
    ControlGroup,
    /// Files that Slurm's prolog writes.
    Prolog,
    /// Job-mapping files, as for dcgm-exporter.
    JobMapping,
}

/// For people: "the kubelet's devices say …".
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DevicePlugin => "kubelet (device plugin)",
            Self::Claim => "kubelet (claim)",
            Self::ControlGroup => "control group",
            Self::Prolog => "prolog file",
            Self::JobMapping => "job-mapping file",
        })
    }
}

/// Two sources disagree about a GPU. The text is one sentence, which says which counts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Disagreement {
    /// Weaker evidence names another holder.
    #[error("{gpu}: held by {counts} ({source_of_it}), not by {other} ({source_of_other})", source_of_it = .by, source_of_other = .other_by)]
    Holder {
        /// The UUID of the GPU or MIG instance.
        gpu: String,
        /// The holders that count.
        counts: String,
        /// The evidence that counts.
        by: Source,
        /// The other holder.
        other: String,
        /// The evidence of it.
        other_by: Source,
    },
}

/// Evidence that is missing or in doubt. The text is one line for logs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The kubelet does not answer.
    #[error("{socket}: {reason}")]
    Kubelet {
        /// The path of its socket.
        socket: String,
        /// Why, and what to do.
        reason: String,
    },
}
