//! Polls the kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use phasemeter_meter::units::{Nanos, Timestamp};

use super::client::Kubelet;
use super::history::{Believed, History};
use super::listing::{Listing, replicas};
use crate::assignments::Problem;
use crate::device_id::DeviceName;

/// How often replicas are counted: their number changes if the device plugin is configured anew.
const COUNT_EVERY: Nanos = Nanos::from_secs(60);

/// The kubelet of this node, from poll to poll.
#[derive(Debug)]
pub(crate) struct KubeletSource {
    socket: PathBuf,
    history: History,
    /// Replicas of each GPU and MIG instance that has any, and when they were counted.
    replicas: BTreeMap<DeviceName, u32>,
    counted: Option<Timestamp>,
}

impl KubeletSource {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket, history: History::default(), replicas: BTreeMap::new(), counted: None }
    }

    /// Replicas of each replicated GPU and MIG instance, if known.
    pub(crate) const fn replicas(&self) -> &BTreeMap<DeviceName, u32> {
        &self.replicas
    }

    /// Asks for a list, and decides which counts.
    pub(crate) async fn poll(
        &mut self,
        now: Timestamp,
        problems: &mut BTreeSet<Problem>,
    ) -> Believed<'_> {
        let mut kubelet = Kubelet::new(&self.socket);
        let listing = match kubelet.list().await {
            Ok(response) => {
                let listing = Listing::of(response);
                if listing.omitted > 0 {
                    let count = listing.omitted;
                    problems.insert(Problem::TooMany { what: "devices of containers", count });
                }
                if listing.omitted_pods > 0 {
                    let count = listing.omitted_pods;
                    problems.insert(Problem::TooMany { what: "pods of the kubelet", count });
                }
                self.count_replicas(now, &listing, &mut kubelet, problems).await;
                Some(listing)
            }
            Err(error) => {
                let socket = self.socket.display().to_string();
                problems.insert(Problem::Kubelet { socket, reason: error.to_string() });
                None
            }
        };
        let believed = self.history.poll(now, listing);
        if believed.is_doubted {
            problems.insert(Problem::EmptyList);
        }
        believed
    }

    /// Counts replicas anew if a replicated GPU is new, or from time to time.
    async fn count_replicas(
        &mut self,
        now: Timestamp,
        listing: &Listing,
        kubelet: &mut Kubelet,
        problems: &mut BTreeSet<Problem>,
    ) {
        let replicated = listing.devices.iter().filter(|(_, device)| device.replica.is_some());
        let mut names = replicated.map(|(_, device)| &device.name).peekable();
        if names.peek().is_none() {
            return;
        }
        let is_new = names.any(|name| !self.replicas.contains_key(name));
        if !is_new && self.counted.is_some_and(|counted| now.since(counted) < COUNT_EVERY) {
            return;
        }
        match kubelet.allocatable().await {
            Ok(response) => {
                self.replicas = replicas(&response);
                self.counted = Some(now);
            }
            Err(error) => {
                problems.insert(Problem::Replicas { reason: error.to_string() });
            }
        }
    }
}
