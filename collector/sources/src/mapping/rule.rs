//! One rule: which points of a metric are which value of which GPU.
//!
//! Must not depend on files of rules.

use std::collections::BTreeMap;

use phasemeter_meter::reading::{Basis, MissingReason};
use phasemeter_meter::units::Timestamp;

use super::details::{PodLabel, details};
use super::point::{MAX_LABEL, PodLabels, Point};
use super::quantity::{Quantity, Unit, UnitError};
use super::value::Value;

/// A value of a GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuValue {
    /// The GPU.
    pub gpu: GpuLabels,
    /// When it was measured.
    pub at: Timestamp,
    /// What it is a value of.
    pub quantity: Quantity,
    /// The value, or why it is missing.
    pub value: Result<Value, MissingReason>,
}

/// What labels tell of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuLabels {
    /// The UUID, or what identifies the GPU in its place.
    pub uuid: String,
    /// Its index on its host.
    pub index: Option<u32>,
    /// Its PCI bus ID.
    pub bus_id: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its host.
    pub host: Option<String>,
    /// The MIG instance that it is a value of.
    pub instance: Option<MigInstance>,
    /// The pod that it is assigned to.
    pub pod: Option<PodLabels>,
    /// Attributes of its host and of its pod, beside a utilization.
    pub details: Vec<(String, String)>,
}

/// What labels tell of a MIG instance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MigInstance {
    /// Its ID on its GPU.
    pub id: String,
    /// Its profile, like `1g.10gb`.
    pub profile: Option<String>,
}

/// The labels that identify a GPU, each the first that a point has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) uuid: Vec<String>,
    /// Added to UUIDs that lack it.
    pub(super) uuid_prefix: String,
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
}

/// Which points of a metric are which value.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rule {
    pub(super) quantity: Quantity,
    pub(super) unit: Unit,
    pub(super) basis: Basis,
    /// Factor from the sender's numbers to the unit.
    pub(super) scale: f64,
    /// Labels that a point must have with these values.
    pub(super) required: BTreeMap<String, String>,
    /// Labels that a point must not have.
    pub(super) excluded: Vec<String>,
    /// Numbers from here on mean that there is no value.
    pub(super) missing_from: Option<f64>,
    pub(super) identity: Identity,
}

impl Rule {
    /// Whether the rule is about this point.
    pub(super) fn applies(&self, point: &Point<'_>) -> bool {
        let has = |(label, value): (&String, &String)| (point.label)(label) == Some(value.as_str());
        self.required.iter().all(has)
            && self.excluded.iter().all(|label| (point.label)(label).is_none())
    }

    /// The value of a point; `None` if it names no GPU.
    pub(super) fn read(&self, point: &Point<'_>) -> Option<Result<GpuValue, UnitError>> {
        let gpu = self.identity.read(point, self.quantity)?;
        let number = point.number * self.scale;
        let is_missing =
            !number.is_finite() || self.missing_from.is_some_and(|from| point.number >= from);
        let value = if is_missing {
            Err(MissingReason::NotSupported)
        } else {
            match self.quantity.convert(self.unit, self.basis, number) {
                Ok(value) => Ok(value),
                Err(error) => return Some(Err(error)),
            }
        };
        Some(Ok(GpuValue { gpu, at: point.at, quantity: self.quantity, value }))
    }

    /// A point whose value cannot be used; `None` if it names no GPU.
    pub(super) fn unreadable(&self, point: &Point<'_>) -> Option<GpuValue> {
        let gpu = self.identity.read(point, self.quantity)?;
        let value = Err(MissingReason::Unreadable);
        Some(GpuValue { gpu, at: point.at, quantity: self.quantity, value })
    }
}

impl Identity {
    fn read(&self, point: &Point<'_>, quantity: Quantity) -> Option<GpuLabels> {
        let first = |labels: &[String]| {
            let mut values = labels.iter().filter_map(|label| (point.label)(label));
            values.find(|value| !value.is_empty() && value.len() <= MAX_LABEL)
        };
        let uuid = first(&self.uuid)?;
        let prefix = if uuid.starts_with(&self.uuid_prefix) { "" } else { &self.uuid_prefix };
        let owned = |labels: &[String]| first(labels).map(str::to_owned);
        let pod = PodLabels {
            uid: owned(&self.pod_uid),
            namespace: owned(&self.namespace),
            name: owned(&self.pod),
        };
        let (host, pod) =
            (owned(&self.host), (pod.uid.is_some() || pod.name.is_some()).then_some(pod));
        // All points of a GPU have the same, and those of its utilization suffice.
        let details = match quantity {
            Quantity::Utilization => {
                details(point, host.as_deref(), pod.as_ref(), &self.pod_labels)
            }
            _ => Vec::new(),
        };
        Some(GpuLabels {
            uuid: format!("{prefix}{uuid}"),
            index: first(&self.index).and_then(|index| index.parse().ok()),
            bus_id: owned(&self.bus_id),
            model: owned(&self.model),
            host,
            instance: owned(&self.instance)
                .map(|id| MigInstance { id, profile: owned(&self.instance_profile) }),
            pod,
            details,
        })
    }
}
