//! What the kubelet lists, in order and without duplicates: which containers have which GPUs.

use std::collections::{BTreeMap, BTreeSet};

use super::messages::{AllocatableResourcesResponse, ContainerResources, ListPodResourcesResponse};
use crate::claims::DeviceKey;
use crate::device_id::{DeviceName, PluginDevice};
use crate::options::PodName;

/// Devices of the node that are taken from one response: a node has at most 64 GPUs, and a GPU some hundred
/// replicas. What is over it is counted.
const MAX_DEVICES: usize = 1 << 16;

/// Pods of the node that are taken from one response. A node has some hundred.
const MAX_PODS: usize = 4_096;

/// What containers have, as listed at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    /// Devices of device plugins.
    pub(crate) devices: BTreeSet<(ContainerName, PluginDevice)>,
    /// Devices of claims.
    pub(crate) claimed: BTreeSet<(ContainerName, ClaimedDevice)>,
    /// The pods that are listed, with a GPU or without.
    pub(crate) active: BTreeSet<PodName>,
    /// Pods that are left out, since there are too many.
    pub(crate) omitted_pods: usize,
    /// Devices that are left out, since there are too many.
    pub(crate) omitted: usize,
}

/// The name of a container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ContainerName {
    pub(crate) pod: PodName,
    pub(crate) container: String,
}

/// A device of a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimedDevice {
    /// The namespace and name of the claim.
    pub(crate) claim: (String, String),
    pub(crate) device: DeviceKey,
    /// The share of the device, if it is allocated in shares.
    pub(crate) share: Option<String>,
    /// Its names for the container runtime.
    pub(crate) cdi: Vec<String>,
}

impl Listing {
    /// Takes the devices that can be GPUs. Every device of a claim can be one: its slice decides.
    pub(crate) fn of(response: ListPodResourcesResponse) -> Self {
        let mut listing = Self::default();
        for pod in response.pod_resources {
            let name = PodName { namespace: pod.namespace, name: pod.name };
            for container in pod.containers {
                listing.add(&name, container);
            }
            if listing.active.len() < MAX_PODS {
                listing.active.insert(name);
            } else {
                listing.omitted_pods += 1;
            }
        }
        listing
    }

    fn add(&mut self, pod: &PodName, container: ContainerResources) {
        let name = ContainerName { pod: pod.clone(), container: container.name };
        let ids = container.devices.iter().flat_map(|devices| &devices.device_ids);
        for device in ids.filter_map(|id| PluginDevice::parse(id)) {
            if self.is_below_limit() {
                self.devices.insert((name.clone(), device));
            }
        }
        for claim in container.dynamic_resources {
            let claim_name = (claim.claim_namespace, claim.claim_name);
            for device in claim.claim_resources {
                if self.is_below_limit() {
                    let device = ClaimedDevice {
                        claim: claim_name.clone(),
                        device: DeviceKey {
                            driver: device.driver_name,
                            pool: device.pool_name,
                            device: device.device_name,
                        },
                        share: device.share_id,
                        cdi: device.cdi_devices.into_iter().map(|device| device.name).collect(),
                    };
                    self.claimed.insert((name.clone(), device));
                }
            }
        }
    }

    /// Whether any pod is listed.
    pub(crate) fn has_pods(&self) -> bool {
        !self.active.is_empty()
    }

    fn is_below_limit(&mut self) -> bool {
        let is_below_limit = self.devices.len() + self.claimed.len() < MAX_DEVICES;
        self.omitted += usize::from(!is_below_limit);
        is_below_limit
    }

    /// The pods that have a device.
    pub(crate) fn pods(&self) -> BTreeSet<&PodName> {
        let devices = self.devices.iter().map(|(name, _)| &name.pod);
        devices.chain(self.claimed.iter().map(|(name, _)| &name.pod)).collect()
    }
}

/// The number of replicas of each replicated GPU and MIG instance of a node.
pub(crate) fn replicas(response: &AllocatableResourcesResponse) -> BTreeMap<DeviceName, u32> {
    let ids = response.devices.iter().flat_map(|devices| &devices.device_ids);
    let devices: BTreeSet<PluginDevice> =
        ids.filter_map(|id| PluginDevice::parse(id)).take(MAX_DEVICES).collect();
    let mut replicas = BTreeMap::new();
    for device in devices.into_iter().filter(|device| device.replica.is_some()) {
        *replicas.entry(device.name).or_insert(0) += 1;
    }
    replicas
}
