//! The traits that a vendor's driver implements, to be discovered and sampled.

use std::fmt::Debug;
use std::sync::Arc;

use phasemeter_meter::holder::Grant;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::Nanos;

use super::discovered::DiscoveredGpu;
use super::error::{DriverError, DriverNames};
use super::metric::Metric;
use super::observation::Observed;
use super::query_error::{CallError, LossReason, QueryError};
use crate::clock::Clock;

/// A vendor's driver on this machine. It is opened again after a loss.
pub trait Driver: Debug + Send + Sync {
    /// Its names in messages.
    fn names(&self) -> DriverNames;

    /// Whether a search also lists the processes that compute on each GPU, which may take seconds.
    fn lists_processes(&self) -> bool {
        false
    }

    /// Initializes the driver, as currently installed. It is closed if the result is dropped.
    ///
    /// # Errors
    /// Returns an error if it cannot be initialized.
    fn open(&self) -> Result<Arc<dyn OpenDriver>, DriverError>;
}

/// An initialized driver. Any of its calls can hang.
pub trait OpenDriver: Debug + Send + Sync {
    /// Its version, for example `575.57.08`; `None` if it reports none.
    fn version(&self) -> Option<String>;

    /// Whether it lists the GPUs of this process's pod only, as the agent of a node does.
    fn lists_own_only(&self) -> bool {
        false
    }

    /// What the containers of the pod were granted of a GPU, if it lists those of the pod only and reports that.
    fn grants(&self, _uuid: &str) -> Vec<Grant> {
        Vec::new()
    }

    /// The IDs of the processes that compute on a GPU, as the driver numbers them; none if it does not list them.
    fn processes(&self, _uuid: &str) -> Vec<u32> {
        Vec::new()
    }

    /// The number of its GPUs.
    ///
    /// # Errors
    /// Returns an error if it cannot be queried.
    fn gpu_count(&self) -> Result<u32, DriverError>;

    /// Queries the identity of the GPU with this index, of the driver with this version.
    ///
    /// # Errors
    /// Returns an error if there is no such GPU, or its UUID cannot be queried.
    fn identify(&self, index: u32, version: Option<String>) -> Result<DiscoveredGpu, CallError>;

    /// Finds a GPU by UUID. A driver sample covers at most `stale_after`.
    ///
    /// # Errors
    /// Returns an error if the GPU is missing or lost.
    fn find<'d>(
        &'d self,
        uuid: &str,
        stale_after: Nanos,
    ) -> Result<Box<dyn Device + Send + 'd>, QueryError>;
}

/// All queries of one GPU. It queries and translates; the sampler decides when.
///
/// It holds handles of one generation of the driver: it is dropped if the GPU or the driver is lost, and found again
/// by UUID.
pub trait Device {
    /// Why the GPU is lost; `None` if it is not.
    fn loss(&self) -> Option<LossReason>;

    /// The polling interval of a metric; zero: every tick.
    fn period(&self, metric: Metric) -> Nanos;

    /// Whether the last query of a metric has left some of it in the driver, for the next tick.
    fn is_incomplete(&self, metric: Metric) -> bool;

    /// Queries one metric. Values of a reading are stored in `values`, all others are emitted.
    ///
    /// # Errors
    /// Returns an error if the query fails; `values` then lacks the metric.
    fn query(
        &mut self,
        metric: Metric,
        clock: &Clock,
        values: &mut Reading,
        emit: &mut dyn FnMut(Observed),
    ) -> Result<(), QueryError>;
}
