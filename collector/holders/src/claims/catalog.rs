//! The devices that drivers publish, from poll to poll, and the GPUs that they are.
//!
//! Slices vanish about 30 s after their driver stops, while pods run on with their devices. So a device stays known as
//! long as a container has it.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::Share;

use super::status::ClaimStatus;
use super::{DeviceKey, PublishedDevice, Unresolved};
use crate::device_id::{is_uuid, number};
use crate::gpus::{NodeGpu, NodeInstance};

/// Claims whose status is kept.
pub(crate) const MAX_CLAIMS: usize = 1_024;

/// Devices and claims, as the API server lists them.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    published: BTreeMap<DeviceKey, PublishedDevice>,
    /// Those that are not published any more, and that a container has.
    vanished: BTreeSet<DeviceKey>,
    /// The GPU that a device in use was when it was first seen.
    resolved: BTreeMap<DeviceKey, String>,
    /// What was allocated, by claim.
    claims: BTreeMap<(String, String), ClaimStatus>,
    has_slices: bool,
}

impl Catalog {
    /// Takes all devices that are published now. Those that are not any more are forgotten unless a container has them.
    pub(crate) fn take_published(&mut self, now: BTreeMap<DeviceKey, PublishedDevice>) {
        let before = std::mem::replace(&mut self.published, now);
        self.vanished.clear();
        for (device, before) in before {
            if self.resolved.contains_key(&device) && !self.published.contains_key(&device) {
                self.vanished.insert(device.clone());
                self.published.insert(device, before);
            }
        }
        self.has_slices = true;
    }

    /// Takes a `ResourceClaim`. One that is not allocated yet is asked for again.
    pub(crate) fn take_claim(&mut self, claim: (String, String), json: &[u8]) {
        if let Some(status) = ClaimStatus::parse(json)
            && self.claims.len() < MAX_CLAIMS
        {
            self.claims.insert(claim, status);
        }
    }

    /// Whether the status of a claim is known.
    pub(crate) fn has_status(&self, claim: &(String, String)) -> bool {
        self.claims.contains_key(claim)
    }

    /// Whether a claim gives administrative access to a device only; `None` if its status is unknown.
    pub(crate) fn is_administered(
        &self,
        claim: &(String, String),
        device: &DeviceKey,
    ) -> Option<bool> {
        Some(self.claims.get(claim)?.administered.contains(device))
    }

    /// The part of a device that a share of it is: the largest of what it has of each capacity. `None` if the status of
    /// its claim or the capacity is unknown.
    pub(crate) fn share(
        &self,
        claim: &(String, String),
        device: &DeviceKey,
        share: &str,
    ) -> Option<Share> {
        let consumed = self.claims.get(claim)?.consumed.get(&(device.clone(), share.to_owned()))?;
        let capacity = &self.published.get(device)?.capacity;
        let parts = consumed.iter().map(|(name, used)| Share::reduced(*used, *capacity.get(name)?));
        let parts: Option<Vec<Share>> = parts.collect();
        let product =
            |share: &Share, other: &Share| u64::from(share.ratio().0) * u64::from(other.ratio().1);
        parts?.into_iter().max_by(|a, b| product(a, b).cmp(&product(b, a)))
    }

    /// The number of GPUs and MIG instances in the pool of a device; `None` if no slices were read.
    pub(crate) fn pool_size(&self, device: &DeviceKey) -> Option<usize> {
        let is_in_pool =
            |other: &&DeviceKey| other.driver == device.driver && other.pool == device.pool;
        self.has_slices.then(|| self.published.keys().filter(is_in_pool).count())
    }

    /// Forgets devices and claims that no container has any more.
    pub(crate) fn retain(
        &mut self,
        devices: &BTreeSet<&DeviceKey>,
        claims: &BTreeSet<&(String, String)>,
    ) {
        self.resolved.retain(|device, _| devices.contains(device));
        let Self { published, vanished, .. } = self;
        vanished.retain(|device| devices.contains(device) || published.remove(device).is_none());
        self.claims.retain(|claim, _| claims.contains(claim));
    }

    /// The UUID of the GPU or MIG instance that a device is; `None` if the device is not a GPU. It is resolved once: a
    /// number may mean another GPU after a reboot.
    ///
    /// # Errors
    /// Returns an error if it may be a GPU, and it is unknown which.
    pub(crate) fn resolve(
        &mut self,
        device: &DeviceKey,
        cdi: &[String],
        gpus: &[NodeGpu],
    ) -> Result<Option<String>, Unresolved> {
        if let Some(uuid) = self.resolved.get(device) {
            return Ok(Some(uuid.clone()));
        }
        let uuid = match self.published.get(device) {
            Some(published) => published.uuid(device, gpus)?,
            None => match uuid_in(cdi) {
                Some(uuid) => Some(uuid),
                // Other drivers publish devices of other kinds.
                None if device.is_nvidia() && self.has_slices => {
                    return Err(Unresolved::NotPublished);
                }
                None if device.is_nvidia() => Some(by_name(device, gpus)?),
                None => None,
            },
        };
        if let Some(uuid) = &uuid {
            self.resolved.insert(device.clone(), uuid.clone());
        }
        Ok(uuid)
    }
}

impl PublishedDevice {
    /// Its own UUID, or that of the MIG instance that its attributes describe.
    fn uuid(&self, device: &DeviceKey, gpus: &[NodeGpu]) -> Result<Option<String>, Unresolved> {
        if let Some(uuid) = &self.uuid {
            return Ok(is_uuid(uuid).then(|| uuid.clone()));
        }
        let (Some(parent), Some(profile)) = (&self.parent, &self.profile) else { return Ok(None) };
        let gpu = gpus.iter().find(|gpu| gpu.uuid == *parent);
        let gpu = gpu.ok_or_else(|| Unresolved::NoGpu(parent.clone()))?;
        instance(gpu, profile, start(&device.device)).map(Some)
    }
}

/// The only instance with a profile, and that starts at a memory slice if that is known of all.
fn instance(gpu: &NodeGpu, profile: &str, start: Option<u32>) -> Result<String, Unresolved> {
    // A profile with media extensions (`1g.10gb+me`) has the same slices.
    let slices = |profile: &str| profile.split('+').next().map(ToOwned::to_owned);
    let has_profile =
        |it: &&NodeInstance| it.profile.as_deref().and_then(slices) == slices(profile);
    let is_there = |it: &NodeInstance| start.is_none() || it.start.is_none() || it.start == start;
    let mut found = gpu.instances.iter().filter(has_profile).filter(|it| is_there(it));
    match (found.next(), found.next()) {
        (Some(instance), None) => Ok(instance.uuid.clone()),
        (None, _) => Err(Unresolved::NoInstance(profile.to_owned())),
        (Some(_), Some(_)) => Err(Unresolved::Ambiguous(profile.to_owned())),
    }
}

/// The memory slice in the name of a device: `gpu-<minor>-mig-<profile>-<profile ID>-<start>`.
fn start(device: &str) -> Option<u32> {
    let (_, instance) = device.split_once("-mig-")?;
    number(instance.rsplit('-').next()?)
}

/// A UUID in the name of a CDI device.
fn uuid_in(cdi: &[String]) -> Option<String> {
    let names = cdi.iter().filter_map(|name| Some(name.split_once('=')?.1));
    names.filter(|name| is_uuid(name)).map(ToOwned::to_owned).next()
}

/// Without slices: by the minor number in the name of NVIDIA's driver, `gpu-<minor>`.
fn by_name(device: &DeviceKey, gpus: &[NodeGpu]) -> Result<String, Unresolved> {
    let minor = device.device.strip_prefix("gpu-").and_then(number);
    let minor = minor.ok_or(Unresolved::NoSlices)?;
    let gpu = gpus.iter().find(|gpu| gpu.minor == Some(minor));
    gpu.map(|gpu| gpu.uuid.clone()).ok_or(Unresolved::NoSlices)
}
