//! The GPUs of all logs: merges the GPUs of single logs and names them.
//!
//! A UUID identifies a GPU across logs. PCI bus IDs, indices and positions are valid within one
//! machine only, which logs do not identify. They are therefore compared only within a chain: logs
//! that continue one another.

use std::collections::HashMap;
use std::sync::Arc;

use phasemeter_meter::reading::{GpuIdentity, LOG_FILE};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::identity::{self, IdMap};
use super::limits::Limits;
use super::separation::Separation;
use crate::log::GivenModel;

/// Maximum time between a chain and a log that continues it.
const MAX_GAP: Nanos = Nanos::from_secs(24 * 3_600);

/// The GPUs of all logs, in order of first appearance.
#[derive(Default)]
pub(super) struct Fleet {
    gpus: Vec<GpuIdentity>,
    /// The model of each GPU in the logs.
    logged_models: Vec<Option<String>>,
    given_model: Option<GivenModel>,
    /// The chain in which each GPU was first found.
    gpu_chains: Vec<usize>,
    by_uuid: HashMap<String, usize>,
    chains: Vec<Chain>,
    /// Number of chains that have GPUs without a UUID.
    unidentified_chains: usize,
}

/// Logs that continue one another.
struct Chain {
    /// The first log, which qualifies the names of its GPUs if they are ambiguous.
    label: Arc<str>,
    /// The last log so far.
    last: Arc<str>,
    /// The end of the last log; `None` while it is in progress.
    end: Option<Timestamp>,
    /// The GPUs that were first found in it, and how many of them have no UUID.
    ids: IdMap,
    gpus: usize,
    unidentified: usize,
}

impl Fleet {
    /// A fleet without GPUs.
    pub(super) fn new(given_model: Option<GivenModel>) -> Self {
        Self { given_model, ..Self::default() }
    }

    /// The model of each GPU in the logs, if they have one.
    pub(super) fn logged_models(&self) -> impl Iterator<Item = Option<&str>> {
        self.logged_models.iter().map(Option::as_deref)
    }

    /// All GPUs found so far.
    pub(super) fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// Starts a chain with a log; returns the chain's index.
    pub(super) fn begin_chain(&mut self, label: &Arc<str>, log: &Arc<str>) -> usize {
        self.chains.push(Chain {
            label: Arc::clone(label),
            last: Arc::clone(log),
            end: None,
            ids: IdMap::default(),
            gpus: 0,
            unidentified: 0,
        });
        self.chains.len() - 1
    }

    /// Appends a log to a chain; returns the log it continues.
    pub(super) fn append_log(&mut self, chain: usize, log: &Arc<str>) -> Option<Arc<str>> {
        let chain = self.chains.get_mut(chain)?;
        chain.end = None;
        Some(std::mem::replace(&mut chain.last, Arc::clone(log)))
    }

    /// Ends the log in progress of a chain.
    pub(super) fn end_log(&mut self, chain: usize, at: Timestamp) {
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.end = Some(at);
        }
    }

    /// The chain that a log with these GPUs continues from `start` on: the only one that has ended at
    /// most a day before, of which the log has all GPUs or only GPUs of it, with the same models. If
    /// there is none although chains have GPUs with the same IDs, returns why; else `None`.
    pub(super) fn continued_chain(
        &self,
        gpus: &[&GpuIdentity],
        start: Timestamp,
    ) -> Result<usize, Option<Separation>> {
        let mut continued = Err(None);
        for (index, chain) in self.chains.iter().enumerate() {
            continued = match (continued, self.compare(chain, gpus, start)) {
                (Ok(_), Ok(())) => return Err(Some(Separation::Ambiguous)),
                (Ok(other), Err(_)) => Ok(other),
                (Err(_), Ok(())) => Ok(index),
                (Err(reason), Err(other)) => Err(reason.max(other)),
            };
        }
        continued
    }

    /// Whether a log with these GPUs may continue a chain from `start` on. If not, the reason; `None`
    /// if they share no ID.
    fn compare(
        &self,
        chain: &Chain,
        gpus: &[&GpuIdentity],
        start: Timestamp,
    ) -> Result<(), Option<Separation>> {
        let known = |position: usize| self.gpus.get(position);
        let shared = || {
            let find = |gpu: &'_ GpuIdentity| {
                let position = chain.ids.find(gpu, known)?;
                let logged = self.logged_models.get(position)?.as_ref();
                let agree = logged.zip(gpu.model.as_ref()).is_none_or(|(a, b)| a == b);
                Some((known(position)?, agree))
            };
            gpus.iter().copied().filter_map(find)
        };
        let reason = match chain.end {
            _ if shared().next().is_none() => return Err(None),
            None => Separation::Overlap,
            _ if shared().any(|(known, _)| known.uuid.is_some()) => Separation::Uuids,
            _ if !shared().all(|(_, same_model)| same_model) => Separation::Models,
            _ if ![gpus.len(), chain.gpus].contains(&shared().count()) => Separation::Ids,
            Some(end) if start.since(end) > MAX_GAP => Separation::Gap,
            Some(_) => return Ok(()),
        };
        Err(Some(reason))
    }

    /// The index of the GPU with this identity in a log of this chain; added if it is new.
    pub(super) fn find_or_insert(&mut self, chain: usize, gpu: &GpuIdentity) -> usize {
        let by_uuid = gpu.uuid.as_ref().and_then(|uuid| self.by_uuid.get(uuid)).copied();
        let in_chain = || self.chains.get(chain)?.ids.find(gpu, |position| self.gpus.get(position));
        let known = by_uuid.or_else(in_chain);
        let index = known.unwrap_or(self.gpus.len());
        if known.is_none() {
            let (model, is_model_assumed) = GivenModel::of(self.given_model.as_ref(), None);
            let identity = GpuIdentity { model, is_model_assumed, ..GpuIdentity::default() };
            self.gpus.push(identity);
            self.logged_models.push(None);
            self.gpu_chains.push(chain);
            if let Some(chain) = self.chains.get_mut(chain) {
                chain.gpus += 1;
            }
            self.count_unidentified(chain, 1);
            self.name_logs();
        }
        self.merge(index, gpu);
        index
    }

    /// Names the log of each GPU, if there are several machines.
    fn name_logs(&mut self) {
        if self.gpu_chains.windows(2).all(|chains| chains.first() == chains.last()) {
            return;
        }
        for (gpu, chain) in self.gpus.iter_mut().zip(&self.gpu_chains) {
            if let Some(chain) = self.chains.get(*chain) {
                let log = gpu.attributes.entry(LOG_FILE.to_owned());
                log.or_insert_with(|| chain.label.to_string());
            }
        }
    }

    /// Merges what a log has found out about a GPU.
    pub(super) fn merge(&mut self, index: usize, gpu: &GpuIdentity) {
        let (Some(known), Some(chain)) = (self.gpus.get_mut(index), self.gpu_chains.get(index))
        else {
            return;
        };
        let (chain, had_uuid) = (*chain, known.uuid.is_some());
        if let (Some(logged @ None), Some(model)) = (self.logged_models.get_mut(index), &gpu.model)
        {
            *logged = Some(model.clone());
            if std::mem::take(&mut known.is_model_assumed) {
                known.model = None;
            }
        }
        if !identity::merge(known, gpu) {
            return;
        }
        if let Some(chain) = self.chains.get_mut(chain) {
            chain.ids.insert(index, known);
        }
        if let Some(uuid) = known.uuid.as_ref().filter(|_| !had_uuid) {
            self.by_uuid.entry(uuid.clone()).or_insert(index);
            self.count_unidentified(chain, -1);
        }
        self.rename(index);
    }

    /// Applies the limits that came with a reading.
    #[inline]
    pub(super) fn apply_limits(&mut self, index: usize, limits: Limits) {
        if let Some(gpu) = self.gpus.get_mut(index) {
            limits.apply(gpu);
        }
    }

    /// Counts GPUs without a UUID. Renames all GPUs if their names become ambiguous or unambiguous.
    fn count_unidentified(&mut self, chain: usize, change: isize) {
        let Some(chain) = self.chains.get_mut(chain) else { return };
        let (was_ambiguous, had_any) = (self.unidentified_chains > 1, chain.unidentified > 0);
        chain.unidentified = chain.unidentified.saturating_add_signed(change);
        self.unidentified_chains += usize::from(chain.unidentified > 0);
        self.unidentified_chains -= usize::from(had_any);
        if (self.unidentified_chains > 1) != was_ambiguous {
            (0..self.gpus.len()).for_each(|index| self.rename(index));
        }
    }

    /// Names a GPU by UUID, PCI bus ID or index. If GPUs without a UUID belong to more than one
    /// chain, their names are prefixed with the log.
    fn rename(&mut self, index: usize) {
        let (Some(gpu), Some(chain)) = (self.gpus.get_mut(index), self.gpu_chains.get(index))
        else {
            return;
        };
        let index = || gpu.index.map(|index| index.to_string());
        let host = gpu.host().map(|host| format!("{host}:")).unwrap_or_default();
        let local_id = || host + &gpu.bus_id.clone().or_else(index).unwrap_or_default();
        gpu.name = match (&gpu.uuid, self.chains.get(*chain)) {
            (Some(uuid), _) => uuid.clone(),
            (None, Some(chain)) if self.unidentified_chains > 1 => {
                format!("{}:{}", chain.label, local_id())
            }
            (None, _) => local_id(),
        };
    }
}
