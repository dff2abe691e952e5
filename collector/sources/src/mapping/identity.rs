//! A GPU by the labels of a point: its ID, host, model and holder.

use phasemeter_meter::quantity::Quantity;
use serde::Deserialize;

use super::details::{PodLabel, details};
use super::gpu_id::GpuId;
use super::holder::Holder;
use super::point::{MAX_LABEL, PodLabels, Point};

/// A GPU by the labels of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuLabels {
    /// Its ID.
    pub id: GpuId,
    /// Its index on its host.
    pub index: Option<u32>,
    /// Its PCI bus ID.
    pub bus_id: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// The name of its sender, if its host is unknown.
    pub sender: Option<String>,
    /// The MIG instance that it is a value of.
    pub instance: Option<MigInstance>,
    /// The pod that it is assigned to.
    pub pod: Option<PodLabels>,
    /// The holder of it, or of the share that is measured.
    pub holder: Option<Holder>,
    /// Attributes of its host and of its pod, beside a utilization.
    pub details: Vec<(String, String)>,
    /// Whether the metric has the name that Phasemeter sends it under (`hw.*`).
    pub has_own_name: bool,
    /// Whether it may be something other than a GPU, unless other points are of a GPU with this ID.
    pub is_of_any_hardware: bool,
}

/// A MIG instance by the labels of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigInstance {
    /// Its ID on its GPU.
    pub id: String,
    /// Its profile, like `1g.10gb`.
    pub profile: Option<String>,
}

impl GpuLabels {
    /// Its host, else what names its sender.
    #[must_use]
    pub fn sender(&self) -> Option<&str> {
        self.host.as_deref().or(self.sender.as_deref())
    }
}

/// The labels that identify a GPU, each the first that a point has: the table of a mapping file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Identity {
    pub(super) uuid: Vec<String>,
    /// Added to UUIDs that lack it.
    pub(super) uuid_prefix: String,
    /// Metrics whose labels describe GPUs.
    pub(super) info: Vec<String>,
    /// IDs that are unique on their host.
    pub(super) id: Vec<String>,
    pub(super) index: Vec<String>,
    pub(super) bus_id: Vec<String>,
    pub(super) model: Vec<String>,
    pub(super) host: Vec<String>,
    pub(super) instance: Vec<String>,
    pub(super) instance_profile: Vec<String>,
    pub(super) pod_uid: Vec<String>,
    pub(super) namespace: Vec<String>,
    pub(super) pod: Vec<String>,
    pub(super) pod_labels: Vec<PodLabel>,
    /// Parts of the names of the exporter's own pods.
    pub(super) own_pods: Vec<String>,
    /// Distinguishes the shares of one pod.
    pub(super) share: Vec<String>,
    pub(super) claim_namespace: Vec<String>,
    pub(super) claim: Vec<String>,
    pub(super) job: Vec<String>,
}

/// Labels that name the host of a point, or at least its sender, if those of the mapping do not: an ID is unique
/// on its host only.
const HOSTS: [&str; 7] = [
    "host.name",
    "host.id",
    "k8s.node.name",
    "node",
    "server.address",
    "service.instance.id",
    "instance",
];

/// Labels that tell senders from one another, beside the host, best names first.
pub(super) const SENDER: [&str; 6] =
    ["host.name", "instance", "service.instance.id", "server.address", "job", "service.name"];

impl Identity {
    /// Whether any label identifies GPUs.
    pub(super) fn is_identifying(&self) -> bool {
        let labels = [&self.uuid, &self.id, &self.bus_id, &self.index];
        labels.iter().any(|labels| !labels.is_empty())
    }

    /// The GPU of a point of this quantity, if it has one; `None` if its labels name no GPU.
    pub(super) fn read(&self, point: &Point<'_>, quantity: Option<Quantity>) -> Option<GpuLabels> {
        let owned = |labels: &[String]| first(point, labels).map(str::to_owned);
        let pod = self.pod(point);
        let host = owned(&self.host);
        // All points of a GPU have the same, and those of its utilization suffice.
        let details = match quantity {
            Some(Quantity::Utilization) => {
                details(point, host.as_deref(), pod.as_ref(), &self.pod_labels)
            }
            _ => Vec::new(),
        };
        Some(GpuLabels {
            id: self.id(point, host.as_deref())?,
            index: first(point, &self.index).and_then(|index| index.parse().ok()),
            bus_id: owned(&self.bus_id),
            model: owned(&self.model),
            sender: if host.is_none() { sender_name(point.label).map(str::to_owned) } else { None },
            host,
            instance: owned(&self.instance)
                .map(|id| MigInstance { id, profile: owned(&self.instance_profile) }),
            holder: self.holder(point, pod.as_ref()),
            pod,
            details,
            has_own_name: false,
            is_of_any_hardware: false,
        })
    }

    /// Its UUID, else its ID, its bus ID or its index on its host.
    fn id(&self, point: &Point<'_>, host: Option<&str>) -> Option<GpuId> {
        let host = || host.or_else(|| first(point, &HOSTS)).map(str::to_owned);
        if let Some(uuid) = first(point, &self.uuid) {
            let has_prefix = uuid.starts_with(&self.uuid_prefix);
            let prefix = if has_prefix { "" } else { &self.uuid_prefix };
            return Some(GpuId::labeled(format!("{prefix}{uuid}"), host()));
        }
        let labels = [&self.id, &self.bus_id, &self.index];
        let id = labels.into_iter().find_map(|labels| first(point, labels))?;
        Some(GpuId::on_host(id.to_owned(), host()))
    }

    /// The pod that has the GPU. If none has it, Prometheus adds that of the exporter.
    fn pod(&self, point: &Point<'_>) -> Option<PodLabels> {
        let owned = |labels: &[String]| first(point, labels).map(str::to_owned);
        let (uid, name) = (owned(&self.pod_uid), owned(&self.pod));
        let is_own = |name: &String| self.own_pods.iter().any(|own| name.contains(own));
        let is_known = uid.is_some() || name.is_some();
        if !is_known || name.as_ref().is_some_and(is_own) {
            return None;
        }
        Some(PodLabels { uid, namespace: owned(&self.namespace), name })
    }

    fn holder(&self, point: &Point<'_>, pod: Option<&PodLabels>) -> Option<Holder> {
        let full = |namespace: Option<&str>, name: &str| match namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        };
        if let Some(PodLabels { uid, namespace, name }) = pod {
            let name = name.as_ref().or(uid.as_ref())?;
            let shares = self.share.iter().filter_map(|label| (point.label)(label));
            let share = shares.filter(|share| share.len() <= MAX_LABEL).collect::<Vec<_>>();
            let name = full(namespace.as_deref(), name);
            return Some(Holder { name, uid: uid.clone(), share: share.join("/") });
        }
        let claim = first(point, &self.claim);
        let claim = claim.map(|claim| full(first(point, &self.claim_namespace), claim));
        let job = || first(point, &self.job).map(|job| format!("job {job}"));
        let name = claim.map(|claim| format!("claim {claim}")).or_else(job)?;
        Some(Holder { name, ..Holder::default() })
    }
}

/// The name of a sender in messages, by the labels of a point.
pub fn sender_name<'a>(label: &dyn Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    let labels = SENDER.iter().filter_map(|name| label(name));
    let is_printable = |name: &&str| {
        !name.is_empty() && name.len() <= MAX_LABEL && !name.contains(char::is_control)
    };
    labels.into_iter().find(is_printable)
}

/// The value of the first of these labels that has one of usual length.
fn first<'a>(point: &Point<'a>, labels: &[impl AsRef<str>]) -> Option<&'a str> {
    let mut values = labels.iter().filter_map(|label| (point.label)(label.as_ref()));
    values.find(|value| !value.is_empty() && value.len() <= MAX_LABEL)
}
