//! NVML as a source: discovers GPUs and queries them.
//!
//! The only module that depends on `nvml-wrapper`. The sampler schedules queries.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nvml_wrapper::error::NvmlError;
use phasemeter_meter::reading::GpuIdentity;

mod error;
mod fans;
mod fields;
mod gpm;
mod gpu;
mod identity;
mod metric;
mod mig;
mod nvlink;
mod observation;
mod processes;
mod query_error;
mod ring;
mod ring_clock;
mod search;
pub mod select;
mod value;
mod video;
mod xids;

pub use error::DriverError;
pub use gpu::{Gpu, clear_metric};
pub use metric::Metric;
pub use nvml_wrapper::Nvml;
pub use observation::{Activity, DriverCall, Event, Observation, Observed};
pub use phasemeter_nvml_calls::load_library;
pub use query_error::{LossReason, QueryError, UnsupportedReason};
pub use search::{GpuAnswer, OpenDriver, Search};

/// Timeout of discovery. The first start of a driver on a large machine takes a few seconds.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long discovery waits for all GPUs at a time, once it has found one.
const GPU_TIMEOUT: Duration = Duration::from_secs(5);

/// The location of the driver's library, and how it is tried.
#[derive(Clone, Debug)]
pub struct Driver {
    library: Option<PathBuf>,
    trial: Option<Trial>,
}

/// Loads the driver's library where that can do no harm, before this process does.
pub type Trial = fn() -> Result<(), DriverError>;

/// The result of discovery.
#[derive(Debug)]
pub struct Discovery {
    /// The initialized driver, reused by the sampler.
    pub nvml: Arc<Nvml>,
    /// The location of its library, to initialize it again.
    pub driver: Driver,
    /// The driver's version, for example `575.57.08`.
    pub version: Option<String>,
    /// The responding GPUs, by index.
    pub gpus: Vec<DiscoveredGpu>,
    /// The other GPUs.
    pub unresponsive: Vec<UnresponsiveGpu>,
}

/// A responding GPU.
#[derive(Debug)]
pub struct DiscoveredGpu {
    /// Its identity, with UUID and index.
    pub identity: GpuIdentity,
    /// Whether MIG is enabled: then only GPM reports its utilization.
    pub mig: bool,
    /// PCI bus IDs at the other ends of its NVLink links.
    pub links: BTreeSet<String>,
    /// The properties that cannot be queried.
    pub missing: Vec<MissingProperty>,
}

/// A property of a GPU that cannot be queried.
#[derive(Debug, thiserror::Error)]
#[error("no {property}")]
pub struct MissingProperty {
    /// The property.
    pub property: &'static str,
    /// The error of the query.
    pub source: NvmlError,
}

/// A GPU that exists but cannot be metered.
#[derive(Debug, thiserror::Error)]
#[error("GPU {index} does not respond; it is not metered")]
pub struct UnresponsiveGpu {
    /// Its index.
    pub index: u32,
    /// The error of the query.
    pub source: NvmlError,
}

impl Driver {
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

    /// Lists the GPUs. GPUs that do not answer soon after the first are unresponsive.
    ///
    /// # Errors
    /// Returns an error if there is no driver, it does not respond, or no GPU responds.
    pub fn discover(&self) -> Result<Discovery, DriverError> {
        let mut search = Search::start(self)?;
        let began = Instant::now();
        while !search.is_complete() && began.elapsed() < DISCOVERY_TIMEOUT {
            search.wait(GPU_TIMEOUT)?;
            if search.has_found() {
                break;
            }
        }
        search.finish(self.clone())
    }

    /// Initializes the driver, as currently installed.
    ///
    /// # Errors
    /// Returns an error if its trial fails, or it cannot be initialized.
    pub fn open(&self) -> Result<Nvml, DriverError> {
        self.trial.map_or(Ok(()), |trial| trial())?;
        let mut builder = Nvml::builder();
        if let Some(library) = &self.library {
            builder.lib_path(library.as_os_str());
        }
        let nvml = builder.init()?;
        if nvml.lib().nvmlShutdown.is_err() {
            // Dropping it would panic in the wrapper.
            std::mem::forget(nvml);
            return Err(DriverError::NotNvml);
        }
        Ok(nvml)
    }
}
