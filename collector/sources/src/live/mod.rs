//! Live drivers: what each vendor's library implements, and what all of them share.
//!
//! [`Driver`], [`OpenDriver`] and [`Device`] are the seam: the sampler and the commands know no vendor. The
//! sampler schedules queries.

mod discovered;
mod discovery;
mod driver;
mod error;
mod known_gpus;
mod metric;
mod mig_instance;
pub mod nvml;
mod observation;
mod query_error;
mod search;
pub mod select;

pub use discovered::{DiscoveredGpu, MissingProperty, UnresponsiveGpu};
pub use discovery::{Discovery, discover};
pub use driver::{Device, Driver, OpenDriver};
pub use error::{DriverError, DriverNames};
pub use known_gpus::{KnownGpus, ListedGpu, unidentified};
pub use metric::Metric;
pub use mig_instance::{MigInstance, MigProfile};
pub use observation::{
    Activity, ComputeProcess, DriverCall, Event, Observation, Observed, ProcessUse,
};
pub use query_error::{CallError, LossReason, QueryError, UnsupportedReason};
pub use search::{GpuAnswer, InitializedDriver, Search};
