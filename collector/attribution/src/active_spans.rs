//! The spans that are active in a stretch of time.

use std::collections::HashMap;

use phasemeter_meter::units::Timestamp;

use crate::gpu_cost::GpuCost;
use crate::holder_keys::HolderKeys;
use crate::span::{GpuSet, SpanKey};
use crate::waiting::{Record, WaitingSpans};

/// The spans among which time is divided, by GPU.
#[derive(Debug, Default)]
pub(crate) struct ActiveSpans {
    all: Vec<SpanKey>,
    /// Indices of those that are charged for all GPUs.
    everywhere: Vec<u32>,
    /// Indices of those that are charged for all of a GPU, by GPU.
    listed: Vec<Vec<u32>>,
    /// Indices of those that are charged for what a holder pays, by GPU and each key of the holder.
    held: HashMap<(usize, u64), Vec<u32>>,
    /// The start of the first new span of all GPUs, and by GPU.
    new_everywhere: Option<Timestamp>,
    new: Vec<Option<Timestamp>>,
}

impl ActiveSpans {
    /// The spans among which the time of each GPU up to an instant is divided: those that are active from then
    /// on, and those that are new.
    pub(crate) fn of<T>(spans: &WaitingSpans<T>, gpus: &[GpuCost], until: &[Timestamp]) -> Self {
        let (listed, new) = (vec![Vec::new(); until.len()], vec![None; until.len()]);
        let mut active = Self { listed, new, ..Self::default() };
        let first = |known: Option<Timestamp>, it: &Record| match known {
            Some(known) if it.is_known || known <= it.from => Some(known),
            _ => (!it.is_known).then_some(it.from),
        };
        for (key, it) in spans.iter() {
            let is_active = |gpu: &usize| it.is_active(gpus[*gpu].divided_until, until[*gpu]);
            let mut gpus = it.gpus.among(until.len()).filter(is_active).peekable();
            if gpus.peek().is_none() {
                continue;
            }
            let index = u32::try_from(active.all.len()).unwrap_or(u32::MAX);
            active.all.push(*key);
            if let GpuSet::All = it.gpus {
                active.everywhere.push(index);
                active.new_everywhere = first(active.new_everywhere, it);
                continue;
            }
            for gpu in gpus {
                active.new[gpu] = first(active.new[gpu], it);
                match it.gpus.holder() {
                    None => active.listed[gpu].push(index),
                    Some(holder) => {
                        let keys = holder.iter().map(|key| (gpu, key));
                        keys.for_each(|key| active.held.entry(key).or_default().push(index));
                    }
                }
            }
        }
        active
    }

    /// The start of the first new span of a GPU; `None` if it has none.
    pub(crate) fn new_from(&self, gpu: usize) -> Option<Timestamp> {
        let of_gpu = self.new.get(gpu).copied().flatten();
        of_gpu.into_iter().chain(self.new_everywhere).min()
    }

    /// The spans among which is divided what a holder pays for a GPU.
    pub(crate) fn keys(&self, gpu: usize, holder: &HolderKeys) -> Vec<SpanKey> {
        let listed = self.listed.get(gpu).into_iter().flatten();
        let held = holder.iter().filter_map(|key| self.held.get(&(gpu, key))).flatten();
        let mut held: Vec<&u32> = held.collect();
        held.sort_unstable();
        held.dedup();
        let indices = self.everywhere.iter().chain(listed).chain(held);
        indices.filter_map(|index| self.all.get(*index as usize).copied()).collect()
    }
}
