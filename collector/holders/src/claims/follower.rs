//! Follows the devices that drivers publish for the node. Newer versions of the API are tried first.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use super::slices::{Slice, list, published};
use super::{DeviceKey, PublishedDevice};
use crate::access::Access;
use crate::api::is_name;
use crate::assignments::Problem;
use crate::event::{Change, Effect, apply};
use crate::follower::{Followed, Follower};
use crate::options::ApiServer;

/// Versions of the API, newest first.
const VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// Slices that are kept. A driver publishes some per node.
const MAX_SLICES: usize = 1_024;

/// The devices of the node, as they are published.
#[derive(Debug)]
pub(crate) struct SliceFollower(Follower<NodeSlices>);

/// The slices of a node.
#[derive(Debug, Default)]
pub(crate) struct NodeSlices {
    /// Its name; without it, the slices of all nodes are listed.
    node: Option<String>,
    version: usize,
    slices: BTreeMap<String, Slice>,
    /// Slices that are left out of the last list or were since.
    omitted: usize,
    is_listed: bool,
    has_changed: bool,
}

impl SliceFollower {
    /// Begins to follow the slices of this node.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub(crate) fn start(server: ApiServer, node: Option<String>) -> io::Result<Self> {
        Follower::start(NodeSlices { node, ..NodeSlices::default() }, server).map(Self)
    }

    /// Waits for the first list, at most for this long.
    pub(crate) fn wait(&self, at_most: Duration) {
        self.0.wait(at_most);
    }

    /// All published devices, if that has changed since the last call.
    pub(crate) fn take(&self) -> Option<BTreeMap<DeviceKey, PublishedDevice>> {
        self.0.read(|it| std::mem::take(&mut it.has_changed).then(|| published(it.slices.values())))
    }

    /// The version of the API that the server has, once slices were listed.
    pub(crate) fn version(&self) -> Option<&'static str> {
        self.0.read(|it| VERSIONS.get(it.version).copied().filter(|_| it.is_listed))
    }

    /// What is missing, for logs.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let count = self.0.read(|it| it.omitted);
        let omitted = (count > 0).then_some(Problem::TooMany { what: "ResourceSlices", count });
        self.0.failure().into_iter().chain(omitted)
    }
}

impl NodeSlices {
    fn insert(&mut self, slice: Slice) {
        let Some(name) = slice.name() else { return };
        if self.slices.len() < MAX_SLICES || self.slices.contains_key(name) {
            self.slices.insert(name.to_owned(), slice);
        } else {
            self.omitted += 1;
        }
    }
}

impl Followed for NodeSlices {
    const LIST: Access = Access::ListSlices;
    const WATCH: Access = Access::WatchSlices;
    const NAME: &'static str = "ResourceSlices";
    const LIST_FORM: &'static str = "application/json";
    const EVENT_FORM: &'static str = "application/json";

    fn path(&self) -> Option<String> {
        let path = format!("/apis/resource.k8s.io/{}/resourceslices", VERSIONS.get(self.version)?);
        Some(match self.node.as_ref().filter(|node| is_name(node)) {
            Some(node) => format!("{path}?fieldSelector=spec.nodeName%3D{node}"),
            None => path,
        })
    }

    fn replace(&mut self, json: &[u8]) -> Option<String> {
        let (slices, version) = list(json)?;
        (self.slices, self.omitted) = (BTreeMap::new(), 0);
        slices.into_iter().for_each(|slice| self.insert(slice));
        (self.is_listed, self.has_changed) = (true, true);
        Some(version)
    }

    fn apply(&mut self, line: &[u8]) -> Effect {
        apply(line, |change, slice: &Slice| {
            self.has_changed = true;
            match (change, slice.name()) {
                (Change::Set, _) => self.insert(slice.clone()),
                (Change::Removed, name) => _ = name.map(|name| self.slices.remove(name)),
            }
        })
    }

    fn try_older(&mut self) -> bool {
        self.version += 1;
        let is_there = self.version < VERSIONS.len();
        if !is_there {
            self.version = 0;
        }
        is_there
    }
}

/// The devices that are published after events, for fuzz targets.
pub(crate) fn published_after(lines: &[u8]) -> Option<Vec<String>> {
    let mut slices = NodeSlices::default();
    let lines = lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let effects: Vec<Effect> = lines.map(|line| slices.apply(line)).collect();
    let devices = published(slices.slices.values());
    (!effects.is_empty()).then(|| devices.iter().map(|device| format!("{device:?}")).collect())
}
