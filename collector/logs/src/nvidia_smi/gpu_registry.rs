//! The GPUs of one log: assigns rows to GPUs and collects their identities.

use std::collections::HashMap;

use phasemeter_meter::reading::{GpuIdentity, HOST, MIG_MODE, MIG_PROFILES, NVLINK_PEERS};

use super::cell::text_value;
use super::identity::{self, IdMap};
use super::limits::Limits;
use super::reject_reason::RejectReason;
use super::row::{Ids, Row};

/// Maximum number of GPUs per log: enough for a rack, and a memory bound if an ID column has other
/// content.
const MAX_GPUS: usize = 1_024;

/// Maximum number of models in a log that does not identify its GPUs.
const MAX_MODELS: usize = 64;

/// Number of rows under each header that are searched for a GPU's model.
const MODEL_ROWS: u32 = 1_000;

/// The GPUs of one log, in order of first appearance.
#[derive(Default)]
pub(super) struct GpuRegistry {
    gpus: Vec<RegisteredGpu>,
    ids: IdMap,
    /// By the raw cell that identifies them.
    by_key: HashMap<Box<[u8]>, usize>,
    /// The expected GPU of the next row: rows come in ticks.
    next: usize,
    /// The first models in rows whose GPUs were not yet known.
    models: Vec<Box<[u8]>>,
    changed: bool,
}

struct RegisteredGpu {
    /// The last cell that identified it.
    key: Option<Box<[u8]>>,
    identity: GpuIdentity,
    rows: u32,
}

impl GpuRegistry {
    /// The GPUs, without names.
    pub(super) fn gpus(&self) -> impl ExactSizeIterator<Item = &GpuIdentity> {
        self.gpus.iter().map(|gpu| &gpu.identity)
    }

    /// Whether an identity has changed since the last call.
    #[inline]
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// The GPU identified by the IDs of a row.
    #[inline]
    pub(super) fn by_ids(&mut self, ids: &Ids<'_>) -> Result<usize, RejectReason> {
        let key = &*ids.key();
        let gpu = match self.gpus.get(self.next) {
            Some(gpu) if gpu.key.as_deref() == Some(key) => self.next,
            _ => match self.by_key.get(key) {
                Some(gpu) => *gpu,
                None => self.find_or_insert(ids)?,
            },
        };
        self.next = if gpu + 1 < self.gpus.len() { gpu + 1 } else { 0 };
        Ok(gpu)
    }

    /// The cell that identifies the GPU whose row is expected next, if nothing more is to be found out
    /// about it. `with_model`: whether rows have a model.
    #[inline]
    pub(super) fn expected_key(&self, with_model: bool) -> Option<&[u8]> {
        let gpu = self.gpus.get(self.next)?;
        let is_known = !with_model || gpu.rows >= MODEL_ROWS || gpu.identity.model.is_some();
        gpu.key.as_deref().filter(|_| is_known)
    }

    /// Collects the limits in the row that was expected next; returns its GPU.
    #[inline]
    pub(super) fn record_expected(&mut self, limits: Limits) -> usize {
        let gpu = self.next;
        self.next = if gpu + 1 < self.gpus.len() { gpu + 1 } else { 0 };
        if let Some(registered) = self.gpus.get_mut(gpu) {
            limits.fill_missing(&mut registered.identity);
        }
        gpu
    }

    /// The only GPU of a log that does not identify it, if nothing more is to be found out about it
    /// from a row with this model.
    #[inline]
    pub(super) fn only(&mut self, limits: Limits, model: Option<u8>) -> Option<usize> {
        let [gpu] = self.gpus.as_mut_slice() else { return None };
        if gpu.identity.model.is_none() && model.is_some() {
            return None;
        }
        limits.fill_missing(&mut gpu.identity);
        Some(0)
    }

    /// Adds GPUs that only the order of rows identifies.
    pub(super) fn insert_positions(&mut self, gpus: usize) {
        for index in 0..gpus {
            let index = u32::try_from(index).ok();
            self.insert(GpuIdentity { index, ..GpuIdentity::default() });
        }
    }

    /// Keeps the model in a row whose GPU is not yet known.
    #[inline]
    pub(super) fn intern_model(&mut self, name: &[u8]) -> Option<u8> {
        let known = self.models.iter().position(|model| **model == *name);
        let model = known.or_else(|| {
            let is_model = self.models.len() < MAX_MODELS && text_value(name).is_some();
            is_model.then(|| self.models.push(name.into())).map(|()| self.models.len() - 1)
        });
        u8::try_from(model?).ok()
    }

    /// Collects the limits and the model of a row that [`Self::intern_model`] kept.
    #[inline]
    pub(super) fn record_assigned(&mut self, gpu: usize, limits: Limits, model: Option<u8>) {
        let Some(registered) = self.gpus.get_mut(gpu) else { return };
        limits.fill_missing(&mut registered.identity);
        if registered.identity.model.is_none()
            && let Some(name) = model.and_then(|model| self.models.get(usize::from(model)))
        {
            registered.identity.model = text_value(name).map(str::to_owned);
            self.changed = true;
        }
    }

    /// Collects the limits and the model of a row's GPU.
    #[inline]
    pub(super) fn record_row(&mut self, gpu: usize, row: &Row<'_>) {
        let Some(registered) = self.gpus.get_mut(gpu) else { return };
        row.limits.fill_missing(&mut registered.identity);
        if registered.identity.model.is_none() && registered.rows < MODEL_ROWS {
            registered.rows += 1;
            registered.identity.model = text_value(row.name).map(str::to_owned);
            self.changed |= registered.identity.model.is_some();
        }
        let parts = [
            (MIG_MODE, mig_mode(row.parts.mig_mode)),
            (MIG_PROFILES, row.parts.mig_profiles),
            (NVLINK_PEERS, row.parts.nvlink_peers),
        ];
        for (attribute, cell) in parts.into_iter().filter(|(_, cell)| !cell.is_empty()) {
            let attributes = &mut registered.identity.attributes;
            if let Some(text) = text_value(cell)
                && !attributes.contains_key(attribute)
            {
                attributes.insert(attribute.to_owned(), text.to_owned());
                self.changed = true;
            }
        }
    }

    /// Begins the rows of a new header: keys may come from another column, and models may follow.
    pub(super) fn begin_header(&mut self) {
        self.by_key.clear();
        for gpu in &mut self.gpus {
            (gpu.key, gpu.rows) = (None, 0);
        }
    }

    /// Finds or adds the GPU of a row with a new key cell.
    #[cold]
    fn find_or_insert(&mut self, ids: &Ids<'_>) -> Result<usize, RejectReason> {
        let seen = GpuIdentity {
            uuid: text_value(ids.uuid).map(str::to_owned),
            bus_id: text_value(ids.bus_id).map(str::to_owned),
            index: text_value(ids.index).and_then(|index| index.parse().ok()),
            ..GpuIdentity::default()
        };
        if seen == GpuIdentity::default() {
            return Err(RejectReason::NoGpuId);
        }
        let host = text_value(ids.host).map(|host| (HOST.to_owned(), host.to_owned()));
        let seen = GpuIdentity { attributes: host.into_iter().collect(), ..seen };
        let gpu = match self.ids.find(&seen, |gpu| self.gpus.get(gpu).map(|gpu| &gpu.identity)) {
            Some(gpu) => gpu,
            None if self.gpus.len() < MAX_GPUS => self.insert(GpuIdentity::default()),
            None => return Err(RejectReason::TooManyGpus(MAX_GPUS)),
        };
        if let Some(found) = self.gpus.get_mut(gpu) {
            if identity::merge(&mut found.identity, &seen) {
                self.ids.insert(gpu, &found.identity);
                self.changed = true;
            }
            if text_value(ids.id()).is_some() {
                let key: Box<[u8]> = ids.key().into();
                found.key = Some(key.clone());
                self.by_key.insert(key, gpu);
            }
        }
        Ok(gpu)
    }

    fn insert(&mut self, identity: GpuIdentity) -> usize {
        let gpu = self.gpus.len();
        self.gpus.push(RegisteredGpu { key: None, identity, rows: 0 });
        self.changed = true;
        gpu
    }
}

/// The MIG mode as the attribute has it; empty if there is none.
fn mig_mode(cell: &[u8]) -> &'static [u8] {
    match cell {
        b"Enabled" => b"enabled",
        b"Disabled" => b"disabled",
        _ => b"",
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::reading::Reading;
    use phasemeter_meter::units::Timestamp;

    use super::super::row::Parts;
    use super::*;

    fn ids<'a>(uuid: &'a str, bus_id: &'a str, index: &'a str) -> Ids<'a> {
        let (uuid, bus_id, index) = (uuid.as_bytes(), bus_id.as_bytes(), index.as_bytes());
        Ids { uuid, bus_id, index, host: b"" }
    }

    #[test]
    fn gpu_is_identified_by_most_reliable_id() {
        let mut registry = GpuRegistry::default();
        assert_eq!(registry.by_ids(&ids("GPU-a", "", "0")).unwrap(), 0);
        assert_eq!(registry.by_ids(&ids("GPU-b", "", "1")).unwrap(), 1);
        assert_eq!(registry.by_ids(&ids("GPU-a", "", "0")).unwrap(), 0);
        // A reboot may swap indices.
        assert_eq!(registry.by_ids(&ids("GPU-b", "", "0")).unwrap(), 1);
    }

    #[test]
    fn unreadable_id_falls_back_to_next_one() {
        let mut registry = GpuRegistry::default();
        assert_eq!(registry.by_ids(&ids("GPU-a", "0:65", "0")).unwrap(), 0);
        assert_eq!(registry.by_ids(&ids("GPU-b", "0:66", "1")).unwrap(), 1);
        assert_eq!(registry.by_ids(&ids("[Unknown Error]", "[N/A]", "1")).unwrap(), 1);
        assert_eq!(registry.by_ids(&ids("[Unknown Error]", "0:65", "1")).unwrap(), 0);
        assert!(matches!(registry.by_ids(&ids("[N/A]", "", "")), Err(RejectReason::NoGpuId)));
        assert!(matches!(registry.by_ids(&ids("", "", "x")), Err(RejectReason::NoGpuId)));
        registry.begin_header();
        assert!(matches!(registry.by_ids(&ids("", "", "")), Err(RejectReason::NoGpuId)));
    }

    #[test]
    fn host_is_part_of_the_id() {
        let mut registry = GpuRegistry::default();
        let on = |host: &'static str, uuid: &'static str, index: &'static str| Ids {
            host: host.as_bytes(),
            ..ids(uuid, "", index)
        };
        assert_eq!(registry.by_ids(&on("a", "", "0")).unwrap(), 0);
        assert_eq!(registry.by_ids(&on("b", "", "0")).unwrap(), 1);
        assert_eq!(registry.by_ids(&on("a", "", "1")).unwrap(), 2);
        assert_eq!(registry.by_ids(&on("b", "", "0")).unwrap(), 1);
        assert_eq!(registry.by_ids(&on("a", "", "0")).unwrap(), 0);
        // A UUID needs no host.
        assert_eq!(registry.by_ids(&on("a", "GPU-a", "2")).unwrap(), 3);
        assert_eq!(registry.by_ids(&on("b", "GPU-a", "2")).unwrap(), 3);
    }

    #[test]
    fn later_header_adds_ids() {
        let mut registry = GpuRegistry::default();
        assert_eq!(registry.by_ids(&ids("", "", "0")).unwrap(), 0);
        assert!(registry.take_changed());
        registry.begin_header();
        assert_eq!(registry.by_ids(&ids("GPU-a", "", "0")).unwrap(), 0);
        assert!(registry.take_changed());
        assert_eq!(registry.gpus().next().unwrap().uuid.as_deref(), Some("GPU-a"));
    }

    #[test]
    fn registry_limits_number_of_gpus() {
        let mut registry = GpuRegistry::default();
        for index in 0..MAX_GPUS {
            assert_eq!(registry.by_ids(&ids("", "", &index.to_string())).unwrap(), index);
        }
        let one_more = registry.by_ids(&ids("", "", "999999"));
        assert!(matches!(one_more, Err(RejectReason::TooManyGpus(MAX_GPUS))));
    }

    /// Scenario: no model in the rows that are searched, then another header.
    #[test]
    fn model_is_searched_again_under_new_header() {
        let mut registry = GpuRegistry::default();
        let ids = ids("", "", "0");
        let row = |name: &'static str| Row {
            reading: Reading::at(Timestamp::EPOCH),
            counts: crate::Counts::NONE,
            limits: Limits::NONE,
            ids,
            name: name.as_bytes(),
            parts: Parts::default(),
        };
        let gpu = registry.by_ids(&ids).unwrap();
        (0..MODEL_ROWS).for_each(|_| registry.record_row(gpu, &row("[N/A]")));
        registry.record_row(gpu, &row("H100"));
        assert_eq!(registry.gpus().next().unwrap().model, None, "searched enough");
        registry.begin_header();
        assert!(registry.expected_key(true).is_none(), "decoded with its model");
        registry.record_row(gpu, &row("H100"));
        assert_eq!(registry.gpus().next().unwrap().model.as_deref(), Some("H100"));
    }

    #[test]
    fn mig_mode_is_the_first_that_is_readable() {
        let mut registry = GpuRegistry::default();
        let ids = ids("", "", "0");
        let gpu = registry.by_ids(&ids).unwrap();
        let mut after = |mig_mode: &'static str| {
            let parts = Parts { mig_mode: mig_mode.as_bytes(), ..Parts::default() };
            let reading = Reading::at(Timestamp::EPOCH);
            let (counts, limits) = (crate::Counts::NONE, Limits::NONE);
            registry.record_row(gpu, &Row { reading, counts, limits, ids, name: b"", parts });
            registry.gpus().next().unwrap().attributes.get(MIG_MODE).cloned()
        };
        for missing in ["", "[N/A]", "[Unknown Error]", "1"] {
            assert_eq!(after(missing), None, "{missing}");
        }
        assert_eq!(after("Enabled").as_deref(), Some("enabled"));
        assert_eq!(after("Disabled").as_deref(), Some("enabled"), "as it began");
    }

    #[test]
    fn model_is_assigned_after_its_row() {
        let mut registry = GpuRegistry::default();
        registry.insert_positions(2);
        let models: Vec<_> = ["A100", "H100", "A100", "[N/A]", ""]
            .map(|name| registry.intern_model(name.as_bytes()))
            .to_vec();
        assert_eq!(models, [Some(0), Some(1), Some(0), None, None]);
        registry.record_assigned(1, Limits::NONE, Some(0));
        registry.record_assigned(1, Limits::NONE, Some(1));
        let models: Vec<_> = registry.gpus().map(|gpu| gpu.model.as_deref()).collect();
        assert_eq!(models, [None, Some("A100")]);
    }
}
