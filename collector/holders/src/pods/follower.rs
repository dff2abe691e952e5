//! Follows the pods of the node.

use std::io;
use std::sync::Arc;

use phasemeter_meter::holder::Container;
use phasemeter_meter::holder_details::HolderDetails;

use super::object::{Object, list};
use super::table::{GroupedPod, Pods};
use crate::access::Access;
use crate::api::is_name;
use crate::assignments::Problem;
use crate::event::{Change, Effect, apply};
use crate::follower::{Followed, Follower};
use crate::options::PodSource;

/// The pods of the node, as they are found out.
#[derive(Debug)]
pub(crate) struct PodFollower(Follower<NodePods>);

/// The pods of a node.
#[derive(Debug, Default)]
pub(super) struct NodePods {
    node: String,
    /// Keys of the labels that are read.
    labels: Vec<String>,
    pods: Pods,
}

impl PodFollower {
    /// Begins to follow the pods of this node.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub(crate) fn start(source: PodSource) -> io::Result<Self> {
        let PodSource { server, node, labels } = source;
        Follower::start(NodePods { node, labels, pods: Pods::default() }, server).map(Self)
    }

    /// What is known of the pod of a container.
    pub(crate) fn details(&self, container: &Container) -> Option<Arc<HolderDetails>> {
        self.0.read(|it| it.pods.details(container).cloned())
    }

    /// The pods that share GPUs which a scheduler divides, or reserve them.
    pub(crate) fn grouped(&self) -> Vec<GroupedPod> {
        self.0.read(|it| it.pods.grouped().collect())
    }

    /// Whether pods are missing that may come yet.
    pub(crate) fn is_healthy(&self) -> bool {
        self.0.failure().is_none()
    }

    /// What is missing, for logs.
    pub(crate) fn problems(&self) -> impl Iterator<Item = Problem> {
        let count = self.0.read(|it| it.pods.omitted());
        let omitted = (count > 0).then_some(Problem::TooMany { what: "pods of the node", count });
        self.0.failure().into_iter().chain(omitted)
    }
}

impl NodePods {
    /// Pods of which these labels are read.
    pub(super) fn with_labels(labels: Vec<String>) -> Self {
        Self { labels, ..Self::default() }
    }
}

/// Metadata alone is a tenth of a pod, and has no environment and no commands. A server that cannot leave out the rest
/// sends all of it.
impl Followed for NodePods {
    const LIST: Access = Access::ListPods;
    const WATCH: Access = Access::WatchPods;
    const NAME: &'static str = "pods";
    const LIST_FORM: &'static str =
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io, application/json";
    const EVENT_FORM: &'static str =
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io, application/json";

    fn path(&self) -> Option<String> {
        let path = || format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{}", self.node);
        is_name(&self.node).then(path)
    }

    fn replace(&mut self, json: &[u8]) -> Option<String> {
        let (pods, version) = list(json)?;
        self.pods.replace(&pods, &self.labels);
        Some(version)
    }

    fn apply(&mut self, line: &[u8]) -> Effect {
        apply(line, |change, pod: &Object| match change {
            Change::Set => _ = self.pods.insert(pod, &self.labels),
            Change::Removed => self.pods.remove(pod),
        })
    }
}
