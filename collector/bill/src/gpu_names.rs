//! What GPUs of a bill are called in text: by host and index, if that tells them apart.

use std::collections::BTreeMap;

use phasemeter_meter::gpu_name::NamedGpu;

use crate::report::Gpu;

/// The names of GPUs whose host is known, by their IDs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuNames(BTreeMap<String, String>);

impl GpuNames {
    /// Adds a GPU with this ID.
    pub(crate) fn add(&mut self, id: &str, gpu: &Gpu) {
        if gpu.node.is_some() && gpu.index.is_some() {
            let named = NamedGpu { id, ..NamedGpu::from(gpu) };
            self.0.entry(id.to_owned()).or_insert_with(|| named.qualified(&str::to_owned));
        }
    }

    /// Removes names that several GPUs have had one after another.
    pub(crate) fn settle(&mut self) {
        let mut uses: BTreeMap<String, usize> = BTreeMap::new();
        for name in self.0.values() {
            *uses.entry(name.clone()).or_default() += 1;
        }
        self.0.retain(|_, name| uses.get(name) == Some(&1));
    }

    /// The name of a GPU, else its ID.
    pub(crate) fn of(&self, id: &str) -> String {
        self.0.get(id).map_or(id, String::as_str).to_owned()
    }
}
