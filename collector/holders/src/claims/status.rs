//! The status of a `ResourceClaim` object: which of its devices are for administration, and how much of each it has.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::DeviceKey;
use super::quantity::thousandths;

/// Devices of a claim that are taken: Kubernetes allows 32.
const MAX_DEVICES: usize = 256;

#[derive(Deserialize)]
struct Claim {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
struct Status {
    allocation: Option<Allocation>,
}

#[derive(Deserialize)]
struct Allocation {
    #[serde(default)]
    devices: Devices,
}

#[derive(Default, Deserialize)]
struct Devices {
    #[serde(default)]
    results: Vec<Allocated>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Allocated {
    driver: String,
    pool: String,
    device: String,
    admin_access: Option<bool>,
    #[serde(rename = "shareID")]
    share_id: Option<String>,
    #[serde(default)]
    consumed_capacity: BTreeMap<String, String>,
}

/// What was allocated to a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimStatus {
    /// The devices that it has for administration only.
    pub(crate) administered: BTreeSet<DeviceKey>,
    /// What it has of devices that are allocated in shares, by device and share: names of capacity, in thousandths.
    pub(crate) consumed: BTreeMap<(DeviceKey, String), BTreeMap<String, u128>>,
}

impl ClaimStatus {
    /// Reads the text of a `ResourceClaim`; `None` if it is not one, or not allocated.
    pub(crate) fn parse(json: &[u8]) -> Option<Self> {
        let claim: Claim = serde_json::from_slice(json).ok()?;
        let mut status = Self::default();
        for it in claim.status.allocation?.devices.results.into_iter().take(MAX_DEVICES) {
            let device = DeviceKey { driver: it.driver, pool: it.pool, device: it.device };
            if let Some(share) = it.share_id {
                let consumed = it.consumed_capacity.into_iter();
                let consumed = consumed.filter_map(|(name, it)| Some((name, thousandths(&it)?)));
                status.consumed.insert((device.clone(), share), consumed.collect());
            }
            if it.admin_access == Some(true) {
                status.administered.insert(device);
            }
        }
        Some(status)
    }
}
