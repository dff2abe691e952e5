//! A GPU by the labels of a point: its ID, host, model and holder.

use phasemeter_meter::gpu_specs::is_shared;
use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Bytes, PPM, Utilization};
use serde::Deserialize;

use super::details::{PodLabel, details};
use super::gpu_id::GpuId;
use super::holder::{LabeledHolder, Part, ShareKey};
use super::own_pods::is_of_workload;
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
    /// The MIG instance that the holder was allocated, if it is a value of the GPU.
    pub allocated: Option<MigInstance>,
    /// The pod that it is assigned to.
    pub pod: Option<PodLabels>,
    /// The pod of the exporter, beside that one.
    pub own_pod: Option<PodLabels>,
    /// The holder of it, or of the share that is measured.
    pub holder: Option<LabeledHolder>,
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
    /// Its ID on its GPU; of one that was allocated, its UUID.
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
    /// The UUID of the instance that the holder was allocated, beside a value of the GPU.
    pub(super) instance_uuid: Vec<String>,
    pub(super) pod_uid: Vec<String>,
    pub(super) namespace: Vec<String>,
    pub(super) pod: Vec<String>,
    pub(super) pod_labels: Vec<PodLabel>,
    /// Names of workloads of the exporter, of which its own pods are.
    pub(super) own_pods: Vec<String>,
    pub(super) container: Vec<String>,
    /// Which of several equal parts of a shared device a container has.
    pub(super) replica: Vec<String>,
    /// The number of these parts.
    pub(super) replicas: Vec<String>,
    /// The part of the GPU that was granted, from 0 to 1.
    pub(super) fraction: Vec<String>,
    /// The memory that was granted, in MiB.
    pub(super) fraction_memory: Vec<String>,
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

    /// Reads the labels of pods with these keys, too.
    pub(super) fn add_pod_labels(&mut self, keys: &[String]) {
        for label in keys.iter().cloned().map(PodLabel::from) {
            if !self.pod_labels.contains(&label) {
                self.pod_labels.push(label);
            }
        }
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
        let instance = owned(&self.instance);
        let with_profile = |id| MigInstance { id, profile: owned(&self.instance_profile) };
        Some(GpuLabels {
            id: self.id(point, host.as_deref())?,
            index: first(point, &self.index).and_then(|index| index.parse().ok()),
            bus_id: owned(&self.bus_id),
            model: owned(&self.model),
            sender: if host.is_none() { sender_name(point.label).map(str::to_owned) } else { None },
            host,
            allocated: owned(&self.instance_uuid).filter(|_| instance.is_none()).map(with_profile),
            instance: instance.map(with_profile),
            own_pod: self.own_pod(point),
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
        let is_own = |name: &String| self.own_pods.iter().any(|own| is_of_workload(name, own));
        let is_known = uid.is_some() || name.is_some();
        if !is_known || name.as_ref().is_some_and(|name| !self.has_other_pod(point) && is_own(name))
        {
            return None;
        }
        Some(PodLabels { uid, namespace: owned(&self.namespace), name })
    }

    /// Whether the pod is named by a label before the last one, which the target of Prometheus has, too.
    fn has_other_pod(&self, point: &Point<'_>) -> bool {
        let before = self.pod.split_last().map_or(&[][..], |(_, before)| before);
        first(point, before).is_some()
    }

    /// The pod of the exporter, if another one has the GPU.
    fn own_pod(&self, point: &Point<'_>) -> Option<PodLabels> {
        let last = |labels: &[String]| {
            labels.last().and_then(|label| first(point, &[label])).map(str::to_owned)
        };
        // A label that was copied names the pod that has the GPU twice.
        let is_own = |name: &String| {
            self.has_other_pod(point) && first(point, &self.pod) != Some(name.as_str())
        };
        let name = Some(last(&self.pod).filter(is_own)?);
        Some(PodLabels { uid: None, namespace: last(&self.namespace), name })
    }

    /// The container that has the GPU or a part of it; without one, the claim or the job.
    fn holder(&self, point: &Point<'_>, pod: Option<&PodLabels>) -> Option<LabeledHolder> {
        let text = |labels: &[String]| first(point, labels).map(str::to_owned);
        let holder = match pod {
            Some(PodLabels { uid, namespace, name }) => Holder::Container(Container {
                namespace: namespace.clone().unwrap_or_default(),
                pod: name.clone().or_else(|| uid.clone())?,
                uid: uid.clone(),
                container: text(&self.container).unwrap_or_default(),
            }),
            None => match text(&self.claim) {
                Some(name) => {
                    let namespace = text(&self.claim_namespace).unwrap_or_default();
                    Holder::Claim { namespace, name }
                }
                None => Holder::Job(text(&self.job)?),
            },
        };
        let replica = text(&self.replica).unwrap_or_default();
        let part = self.part(point, &replica);
        Some(LabeledHolder { key: ShareKey { holder, replica }, part })
    }

    /// The part of the GPU that labels state.
    fn part(&self, point: &Point<'_>, replica: &str) -> Part {
        let fraction = first(point, &self.fraction).and_then(|text| text.parse::<f64>().ok());
        let fraction = fraction.and_then(|part| {
            let share = Quantity::SmActivity.admit_nearest(part * f64::from(PPM));
            share.and_then(Utilization::from_ppm).filter(|share| *share > Utilization::ZERO)
        });
        let memory = || {
            let mebibytes = first(point, &self.fraction_memory)?.parse().ok()?;
            Bytes::from_mebibytes(mebibytes).map(Part::Memory)
        };
        let replicas = || first(point, &self.replicas)?.parse().ok().map(Part::ReplicaOf);
        let is_of_shared = || first(point, &self.model).is_some_and(is_shared);
        let replica = || match replicas() {
            Some(part) => Some(part),
            None => (!replica.is_empty() || is_of_shared()).then_some(Part::Replica),
        };
        let fraction = fraction.map(|share| Part::Fraction(share.ppm()));
        fraction.or_else(memory).or_else(replica).unwrap_or_default()
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
