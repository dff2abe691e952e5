//! The GPUs that a driver lists: their identities, and why others cannot be metered.

use std::collections::BTreeSet;

use phasemeter_meter::reading::{GpuIdentity, NVLINK_PEERS};

use super::query_error::CallError;

/// A responding GPU.
#[derive(Debug)]
pub struct DiscoveredGpu {
    /// Its identity, with UUID and index.
    pub identity: GpuIdentity,
    /// PCI bus IDs at the other ends of its links to other GPUs.
    pub links: BTreeSet<String>,
    /// The IDs of the processes that compute on it, as the driver numbers them, if they were queried.
    pub processes: Vec<u32>,
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
    pub source: CallError,
}

/// A GPU that exists but cannot be metered.
#[derive(Debug, thiserror::Error)]
#[error("GPU {index} does not respond; it is not metered")]
pub struct UnresponsiveGpu {
    /// Its index.
    pub index: u32,
    /// The error of the query.
    pub source: CallError,
}

/// Adds to each GPU the UUIDs of those that are connected to it, directly or by a common switch. It calls no
/// driver, since any GPU may hang.
pub(super) fn name_peers(gpus: Vec<&mut DiscoveredGpu>) {
    let peers = |gpu: &DiscoveredGpu| -> Vec<String> {
        let own = gpu.identity.bus_id.as_ref();
        let connected = |other: &&&mut DiscoveredGpu| {
            let bus_id = other.identity.bus_id.as_ref();
            bus_id != own
                && (bus_id.is_some_and(|bus_id| gpu.links.contains(bus_id))
                    || !gpu.links.is_disjoint(&other.links))
        };
        gpus.iter().filter(connected).filter_map(|other| other.identity.uuid.clone()).collect()
    };
    let of_each: Vec<_> = gpus.iter().map(|gpu| peers(gpu)).collect();
    for (gpu, peers) in gpus.into_iter().zip(of_each) {
        if !peers.is_empty() {
            gpu.identity.attributes.insert(NVLINK_PEERS.to_owned(), peers.join(" "));
        }
    }
}
