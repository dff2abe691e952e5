//! Claims of dynamic resource allocation: from the name of a device to the UUID of a GPU.

mod catalog;
mod follower;
mod quantity;
mod slices;
mod status;

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

pub(crate) use catalog::{Catalog, MAX_CLAIMS};
pub(crate) use follower::{SliceFollower, published_after};
pub(crate) use slices::published_in;
pub(crate) use status::ClaimStatus;

/// What identifies a device of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DeviceKey {
    pub(crate) driver: String,
    pub(crate) pool: String,
    pub(crate) device: String,
}

impl DeviceKey {
    /// Its driver and pool.
    pub(crate) fn pool(&self) -> (&str, &str) {
        (&self.driver, &self.pool)
    }

    /// Whether NVIDIA's driver for GPUs publishes it.
    fn is_nvidia(&self) -> bool {
        self.driver == "gpu.nvidia.com"
    }
}

impl fmt::Display for DeviceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.driver, self.pool, self.device)
    }
}

/// What a driver publishes of a device, as far as it tells which GPU it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedDevice {
    /// Missing for MIG instances that are created on demand.
    uuid: Option<String>,
    /// The UUID of the GPU of a MIG instance.
    parent: Option<String>,
    /// The profile of a MIG instance.
    profile: Option<String>,
    /// What can be allocated in shares, by name, in thousandths.
    capacity: BTreeMap<String, u128>,
}

/// Why the GPU of a device is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Error)]
pub enum Unresolved {
    /// No slices were read, and the name does not tell.
    #[error(
        "no ResourceSlices were read; use --resource-slices, and allow list and watch of resourceslices"
    )]
    NoSlices,
    /// No slice has the device.
    #[error("no ResourceSlice has it; is the driver running?")]
    NotPublished,
    /// The driver of the GPU does not list its parent.
    #[error("its GPU {0} is not on this node")]
    NoGpu(String),
    /// No instance has the profile and placement.
    #[error("no MIG instance {0} is there yet")]
    NoInstance(String),
    /// Several instances have the profile, and their placement is unknown.
    #[error("several MIG instances have profile {0}, and their placement is unknown")]
    Ambiguous(String),
}
