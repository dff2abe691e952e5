//! Polls all evidence of a node.

use std::collections::BTreeMap;
use std::io;

use phasemeter_meter::units::Timestamp;
use thiserror::Error;

use crate::assignments::{Assignment, Assignments};
use crate::gpus::NodeGpu;
use crate::options::Options;

/// The holders of the GPUs of a node, from poll to poll.
#[derive(Debug)]
pub struct NodeHolders {
    _options: Options,
}

/// Polling cannot be set up.
#[derive(Debug, Error)]
#[error("cannot follow the holders of GPUs: {0}; raise the limit on open files")]
pub struct StartError(#[from] io::Error);

impl NodeHolders {
    /// Prepares to poll; connects to nothing yet.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a file descriptor.
    pub const fn new(options: Options) -> Result<Self, StartError> {
        Ok(Self { _options: options })
    }

    /// Collects all evidence and decides who holds `gpus`. Blocks, but no longer than some seconds. Missing evidence is
    /// among the [problems](Assignments::problems), never an error: others may tell.
    ///
    /// Call it about once a second, with times that do not fall. While the kubelet does not answer, its last list
    /// counts for some minutes.
    pub fn poll(&mut self, now: Timestamp, gpus: &[NodeGpu]) -> Assignments {
        let empty =
            || Assignment { since: now, held: vec![], touched: vec![], disagreements: vec![] };
        let instances = gpus.iter().flat_map(|gpu| &gpu.instances);
        Assignments {
            at: now,
            gpus: gpus.iter().map(|gpu| (gpu.uuid.clone(), empty())).collect(),
            instances: instances.map(|it| (it.uuid.clone(), empty())).collect(),
            processes: BTreeMap::new(),
            problems: Vec::new(),
        }
    }
}
