//! The GPUs of all logs: which GPU of one is which of another, and what each is called.
//!
//! A uuid is a GPU's own, whatever the log. Bus ids, indices and places mean something on one
//! machine only, and a log does not say which it is from. So they hold within a chain: logs that
//! continue one another. It must not know of rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use phasemeter_meter::reading::GpuIdentity;

use super::identity;
use super::limits::Limits;

/// The GPUs of all logs, in order of first appearance.
#[derive(Default)]
pub(super) struct Fleet {
    gpus: Vec<GpuIdentity>,
    /// The chain that each GPU was first seen in.
    gpu_chains: Vec<usize>,
    chains: Vec<Chain>,
}

/// Logs that continue one another.
struct Chain {
    /// What its GPUs are named after where names need that: its first log.
    label: Arc<str>,
    /// Its last log so far.
    last: Arc<str>,
}

impl Fleet {
    /// The GPUs.
    pub(super) fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// Begins a chain with a log.
    pub(super) fn begin_chain(&mut self, label: &Arc<str>, log: &Arc<str>) -> usize {
        self.chains.push(Chain { label: Arc::clone(label), last: Arc::clone(log) });
        self.chains.len() - 1
    }

    /// Adds a log to the end of a chain; gives the one that it follows.
    pub(super) fn append_log(&mut self, chain: usize, log: Arc<str>) -> Option<Arc<str>> {
        self.chains.get_mut(chain).map(|chain| std::mem::replace(&mut chain.last, log))
    }

    /// The only chain that consists of these GPUs, of none of which a uuid is known; `None` where
    /// there is no such chain, or more than one.
    pub(super) fn matching_chain(&self, gpus: &[&GpuIdentity]) -> Option<usize> {
        let mut candidates = (0..self.chains.len()).filter(|chain| self.matches(*chain, gpus));
        candidates.next().filter(|_| candidates.next().is_none())
    }

    /// Whether a chain has these GPUs by their ids, and none has become another model.
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

    /// The GPU with this identity, of a log of this chain; taken in if it is new.
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

    /// Adds what a log has learned of a GPU.
    pub(super) fn merge(&mut self, index: usize, gpu: &GpuIdentity) {
        if let Some(known) = self.gpus.get_mut(index)
            && identity::merge(known, gpu)
        {
            self.rename_all();
        }
    }

    /// Takes what came with a reading of it.
    #[inline]
    pub(super) fn apply_limits(&mut self, index: usize, limits: Limits) {
        if let Some(gpu) = self.gpus.get_mut(index) {
            limits.apply(gpu);
        }
    }

    /// Names every GPU: its uuid, bus id or index. Where GPUs without a uuid come from more than
    /// one chain, the log stands before it.
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
