//! NVIDIA's driver as a source: which GPUs there are, and what each of them says.
//!
//! This is the only room that knows `nvml-wrapper`. It asks when it is told to: when to ask is
//! decided in the sampler.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;
use phasemeter_meter::reading::GpuIdentity;

mod counters;
mod error;
mod gpm;
mod gpu;
mod identity;
mod metric;
mod observation;
mod query_error;
mod ring;
pub mod select;
mod value;

pub use error::DriverError;
pub use gpu::{Gpu, clear_metric};
pub use metric::Metric;
pub use nvml_wrapper::Nvml;
pub use observation::{Activity, Event, Observation, Observed};
pub use query_error::{LossReason, QueryError, UnsupportedReason};

/// A driver that has not listed its GPUs by then will not: the first start of a large machine takes
/// a few seconds.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// Where the driver's library is.
#[derive(Clone, Debug)]
pub struct Driver {
    library: Option<PathBuf>,
}

/// What the driver shows.
#[derive(Debug)]
pub struct Discovery {
    /// The driver, open: the sampler goes on with it.
    pub nvml: Arc<Nvml>,
    /// Where it was opened, to open it again.
    pub driver: Driver,
    /// The driver's version, like `575.57.08`.
    pub version: Option<String>,
    /// The GPUs that answer, in the order of their indices.
    pub gpus: Vec<DiscoveredGpu>,
    /// The GPUs that do not.
    pub unresponsive: Vec<UnresponsiveGpu>,
}

/// A GPU that answers.
#[derive(Debug)]
pub struct DiscoveredGpu {
    /// Who it is. It has a uuid and an index.
    pub identity: GpuIdentity,
    /// Whether it is partitioned (MIG): then its utilization is known through GPM alone.
    pub mig: bool,
    /// What it does not tell of itself.
    pub missing: Vec<MissingProperty>,
}

/// A fact that a GPU does not tell.
#[derive(Debug, thiserror::Error)]
#[error("no {property}")]
pub struct MissingProperty {
    /// Which.
    pub property: &'static str,
    /// What the driver said.
    pub source: NvmlError,
}

/// A GPU that is there but cannot be metered.
#[derive(Debug, thiserror::Error)]
#[error("GPU {index} does not answer and is left out")]
pub struct UnresponsiveGpu {
    /// Its index.
    pub index: u32,
    /// What the driver said.
    pub source: NvmlError,
}

impl Driver {
    /// The driver of this machine, as the dynamic linker finds it.
    #[must_use]
    pub const fn installed() -> Self {
        Self { library: None }
    }

    /// The driver whose library is this file.
    #[must_use]
    pub const fn at(library: PathBuf) -> Self {
        Self { library: Some(library) }
    }

    /// Lists the GPUs.
    ///
    /// # Errors
    /// Where there is no driver, it does not answer, or it has no GPUs.
    pub fn discover(&self) -> Result<Discovery, DriverError> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let driver = self.clone();
        // A driver that hangs keeps this thread for ever, but not the caller.
        thread::Builder::new()
            .name("discovery".to_owned())
            .spawn(move || drop(sender.send(driver.list())))
            .map_err(DriverError::Thread)?;
        let timeout = || DriverError::Timeout { waited: DISCOVERY_TIMEOUT };
        receiver.recv_timeout(DISCOVERY_TIMEOUT).map_err(|_| timeout())?
    }

    /// Opens the driver, as it is now.
    ///
    /// # Errors
    /// Where there is none that works.
    pub fn open(&self) -> Result<Nvml, DriverError> {
        let mut builder = Nvml::builder();
        if let Some(library) = &self.library {
            builder.lib_path(library.as_os_str());
        }
        let nvml = builder.init()?;
        if nvml.lib().nvmlShutdown.is_err() {
            // The wrapper would panic when it is dropped.
            std::mem::forget(nvml);
            return Err(DriverError::NotNvml);
        }
        Ok(nvml)
    }

    fn list(self) -> Result<Discovery, DriverError> {
        let nvml = self.open()?;
        let version = nvml.sys_driver_version().ok();
        let (mut gpus, mut unresponsive) = (Vec::new(), Vec::new());
        for index in 0..nvml.device_count()? {
            match identity::identify(&nvml, index, version.clone()) {
                Ok(found) => gpus.push(found),
                Err(source) => unresponsive.push(UnresponsiveGpu { index, source }),
            }
        }
        if gpus.is_empty() {
            return Err(DriverError::NoGpus { unresponsive: unresponsive.into_iter().next() });
        }
        Ok(Discovery { nvml: Arc::new(nvml), driver: self, version, gpus, unresponsive })
    }
}
