//! The kubelet's `PodResources` API: which containers have which devices.

mod client;
mod history;
mod listing;
pub mod messages;
mod source;

pub(crate) use listing::{ClaimedDevice, ContainerName, Listing, replicas};
pub(crate) use source::KubeletSource;
