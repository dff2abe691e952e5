//! The status of a `ResourceClaim` object: which of its devices are allocated for administration.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::DeviceKey;

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
    #[serde(default)]
    admin_access: Option<bool>,
}

/// The devices that a claim gives administrative access to, in the text of a `ResourceClaim`, or `None` if it is not
/// one, or not allocated.
pub(crate) fn administered(json: &[u8]) -> Option<BTreeSet<DeviceKey>> {
    let claim: Claim = serde_json::from_slice(json).ok()?;
    let results = claim.status.allocation?.devices.results.into_iter();
    let administered = results.filter(|device| device.admin_access == Some(true));
    let key = |it: Allocated| DeviceKey { driver: it.driver, pool: it.pool, device: it.device };
    Some(administered.map(key).collect())
}
