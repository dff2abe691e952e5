//! The GPUs of all logs: merges the GPUs of single logs and names them.
//!
//! A UUID identifies a GPU across logs. PCI bus IDs, indices and positions are valid within one
//! machine only, which logs do not identify. They are therefore compared only within a chain: logs
//! that continue one another. Must not depend on rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use phasemeter_meter::reading::GpuIdentity;

use super::identity;
use super::limits::Limits;

/// The GPUs of all logs, in order of first appearance.
#[derive(Default)]
pub(super) struct Fleet {
    gpus: Vec<GpuIdentity>,
    /// The chain in which each GPU was first found.
    gpu_chains: Vec<usize>,
    chains: Vec<Chain>,
}

/// Logs that continue one another.
struct Chain {
    /// The first log, which qualifies the names of its GPUs if they are ambiguous.
    label: Arc<str>,
    /// The last log so far.
    last: Arc<str>,
}

impl Fleet {
    /// All GPUs found so far.
    pub(super) fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// Starts a chain with a log; returns the chain's index.
    pub(super) fn begin_chain(&mut self, label: &Arc<str>, log: &Arc<str>) -> usize {
        self.chains.push(Chain { label: Arc::clone(label), last: Arc::clone(log) });
        self.chains.len() - 1
    }

    /// Appends a log to a chain; returns the log it continues.
    pub(super) fn append_log(&mut self, chain: usize, log: Arc<str>) -> Option<Arc<str>> {
        self.chains.get_mut(chain).map(|chain| std::mem::replace(&mut chain.last, log))
    }

    /// The only chain with exactly these GPUs, all without a UUID; `None` if there is none or more
    /// than one.
    pub(super) fn matching_chain(&self, gpus: &[&GpuIdentity]) -> Option<usize> {
        let mut candidates = (0..self.chains.len()).filter(|chain| self.matches(*chain, gpus));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    /// Whether a chain has exactly these GPUs by ID, with unchanged models.
    fn matches(&self, chain: usize, gpus: &[&GpuIdentity]) -> bool {
        let in_chain =
            self.gpus.iter().zip(&self.gpu_chains).filter(|(_, gpu_chain)| **gpu_chain == chain);
        let members: Vec<_> = in_chain.map(|(gpu, _)| gpu).collect();
        let same = |known: &GpuIdentity, gpu| {
            known.uuid.is_none()
                && identity::same_gpu(known, gpu)
                && identity::same_model(known, gpu)
        };
        gpus.len() == members.len()
            && gpus.iter().all(|gpu| members.iter().any(|known| same(known, gpu)))
    }

    /// The index of the GPU with this identity in a log of this chain; added if it is new.
    pub(super) fn find_or_insert(&mut self, chain: usize, gpu: &GpuIdentity) -> usize {
        let known = self.gpus.iter().zip(&self.gpu_chains).position(|(known, gpu_chain)| {
            (known.uuid.is_some() && known.uuid == gpu.uuid)
                || (*gpu_chain == chain && identity::same_gpu(known, gpu))
        });
        let index = known.unwrap_or(self.gpus.len());
        if known.is_none() {
            self.gpus.push(GpuIdentity::default());
            self.gpu_chains.push(chain);
        }
        self.merge(index, gpu);
        index
    }

    /// Merges what a log has found out about a GPU.
    pub(super) fn merge(&mut self, index: usize, gpu: &GpuIdentity) {
        if let Some(known) = self.gpus.get_mut(index)
            && identity::merge(known, gpu)
        {
            self.rename_all();
        }
    }

    /// Applies the limits that came with a reading.
    #[inline]
    pub(super) fn apply_limits(&mut self, index: usize, limits: Limits) {
        if let Some(gpu) = self.gpus.get_mut(index) {
            limits.apply(gpu);
        }
    }

    /// Names every GPU by UUID, PCI bus ID or index. If GPUs without a UUID belong to more than one
    /// chain, their names are prefixed with the log.
    fn rename_all(&mut self) {
        let without_uuid =
            self.gpus.iter().zip(&self.gpu_chains).filter(|(gpu, _)| gpu.uuid.is_none());
        let ambiguous =
            without_uuid.map(|(_, gpu_chain)| gpu_chain).collect::<BTreeSet<_>>().len() > 1;
        for (gpu, gpu_chain) in self.gpus.iter_mut().zip(&self.gpu_chains) {
            let index = || gpu.index.map(|index| index.to_string());
            let local_id = gpu.bus_id.clone().or_else(index).unwrap_or_default();
            gpu.name = match (&gpu.uuid, self.chains.get(*gpu_chain)) {
                (Some(uuid), _) => uuid.clone(),
                (None, Some(chain)) if ambiguous => format!("{}:{local_id}", chain.label),
                (None, _) => local_id,
            };
        }
    }
}
