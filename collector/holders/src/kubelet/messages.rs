//! The messages of the kubelet's `PodResources` API, version 1: the fields that name GPUs. Others are ignored.
//!
//! They are derived here, from `k8s.io/kubelet/pkg/apis/podresources/v1/api.proto`, so that no build needs `protoc`. Their
//! JSON has the names of the protocol.

use serde::{Deserialize, Serialize};

/// Request of `List`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct ListPodResourcesRequest {}

/// Response of `List`.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ListPodResourcesResponse {
    /// The pods of the node, in random order.
    #[prost(message, repeated, tag = "1")]
    pub pod_resources: Vec<PodResources>,
}

/// Request of `GetAllocatableResources`.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct AllocatableResourcesRequest {}

/// Response of `GetAllocatableResources`.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct AllocatableResourcesResponse {
    /// The devices of device plugins.
    #[prost(message, repeated, tag = "1")]
    pub devices: Vec<ContainerDevices>,
}

/// What a pod has. It has neither its UID nor its labels.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct PodResources {
    /// Name of the pod.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// Main and restartable init containers.
    #[prost(message, repeated, tag = "3")]
    pub containers: Vec<ContainerResources>,
}

/// What a container has.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerResources {
    /// Name of the container.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Devices of device plugins.
    #[prost(message, repeated, tag = "2")]
    pub devices: Vec<ContainerDevices>,
    /// Claims of dynamic resource allocation.
    #[prost(message, repeated, tag = "5")]
    pub dynamic_resources: Vec<DynamicResource>,
}

/// Devices of one resource.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ContainerDevices {
    /// The resource, like `nvidia.com/gpu`.
    #[prost(string, tag = "1")]
    pub resource_name: String,
    /// The devices.
    #[prost(string, repeated, tag = "2")]
    pub device_ids: Vec<String>,
}

/// What a container has of a claim.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct DynamicResource {
    /// Name of the claim.
    #[prost(string, tag = "2")]
    pub claim_name: String,
    /// Its namespace.
    #[prost(string, tag = "3")]
    pub claim_namespace: String,
    /// The devices.
    #[prost(message, repeated, tag = "4")]
    pub claim_resources: Vec<ClaimResource>,
}

/// A device of a claim. Driver, pool and device identify it.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimResource {
    /// Its names for the container runtime.
    #[prost(message, repeated, tag = "1")]
    pub cdi_devices: Vec<CdiDevice>,
    /// The driver, like `gpu.nvidia.com`.
    #[prost(string, tag = "2")]
    pub driver_name: String,
    /// The pool of devices: the node's name.
    #[prost(string, tag = "3")]
    pub pool_name: String,
    /// The device in the pool.
    #[prost(string, tag = "4")]
    pub device_name: String,
    /// The share of the device, if it is allocated in shares.
    #[prost(string, optional, tag = "5")]
    pub share_id: Option<String>,
}

/// A device of the container device interface.
#[derive(Clone, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(default)]
pub struct CdiDevice {
    /// Its qualified name: `vendor.com/class=name`.
    #[prost(string, tag = "1")]
    pub name: String,
}
