//! NVIDIA's driver by NVML.
//!
//! The only module that depends on `nvml-wrapper`.

use std::path::PathBuf;
use std::sync::Arc;

use nvml_wrapper::Nvml;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::vendor::Vendor;

mod error;
mod fans;
mod fields;
mod gpm;
mod gpu;
mod identity;
mod mig;
mod nvlink;
mod processes;
mod ring;
mod ring_clock;
mod value;
mod video;
mod xids;

use super::{
    CallError, Device, DiscoveredGpu, Driver, DriverError, DriverNames, OpenDriver, QueryError,
};
pub use error::NvmlUnusable;
use gpu::Gpu;
use phasemeter_nvml_calls::compute_processes;
pub use phasemeter_nvml_calls::load_library;

/// The location of the driver's library, and how it is tried.
#[derive(Clone, Debug)]
pub struct NvmlDriver {
    library: Option<PathBuf>,
    trial: Option<Trial>,
}

/// Loads the driver's library where that can do no harm, before this process does.
pub type Trial = fn() -> Result<(), NvmlUnusable>;

impl NvmlDriver {
    /// The driver of this machine, as the dynamic linker finds it.
    #[must_use]
    pub const fn installed() -> Self {
        Self { library: None, trial: None }
    }

    /// The driver with this library file.
    #[must_use]
    pub const fn at(library: PathBuf) -> Self {
        Self { library: Some(library), trial: None }
    }

    /// The same driver, opened only after a successful trial: while a library is being loaded, other threads
    /// can neither start nor end, and it may end the process.
    #[must_use]
    pub fn after(self, trial: Trial) -> Self {
        Self { trial: Some(trial), ..self }
    }

    fn init(&self) -> Result<Nvml, NvmlUnusable> {
        self.trial.map_or(Ok(()), |trial| trial())?;
        let mut builder = Nvml::builder();
        if let Some(library) = &self.library {
            builder.lib_path(library.as_os_str());
        }
        let nvml = builder.init()?;
        if nvml.lib().nvmlShutdown.is_err() {
            // Dropping it would panic in the wrapper.
            std::mem::forget(nvml);
            return Err(NvmlUnusable::NotNvml);
        }
        Ok(nvml)
    }
}

impl Driver for NvmlDriver {
    fn names(&self) -> DriverNames {
        DriverNames { vendor: Vendor::Nvidia, list_command: "nvidia-smi --list-gpus" }
    }

    fn open(&self) -> Result<Arc<dyn OpenDriver>, DriverError> {
        Ok(Arc::new(self.init()?))
    }
}

impl OpenDriver for Nvml {
    fn version(&self) -> Option<String> {
        self.sys_driver_version().ok()
    }

    fn processes(&self, uuid: &str) -> Vec<u32> {
        let listed = self.device_by_uuid(uuid).and_then(|device| compute_processes(&device));
        listed.unwrap_or_default().into_iter().map(|process| process.pid).collect()
    }

    fn gpu_count(&self) -> Result<u32, DriverError> {
        Ok(self.device_count().map_err(NvmlUnusable::from)?)
    }

    fn identify(&self, index: u32, version: Option<String>) -> Result<DiscoveredGpu, CallError> {
        Ok(identity::identify(self, index, version)?)
    }

    fn find<'d>(
        &'d self,
        uuid: &str,
        stale_after: Nanos,
    ) -> Result<Box<dyn Device + Send + 'd>, QueryError> {
        Ok(Box::new(Gpu::find(self, uuid, stale_after)?))
    }
}
