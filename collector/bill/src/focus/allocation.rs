//! What an allocated charge was divided by.

use std::collections::BTreeMap;

use phasemeter_meter::holder_details::workload_attribute;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;

use super::value::Decimal;
use crate::holder::{Holder, present};

/// A part of a GPU that was divided.
#[derive(Clone, Debug)]
pub(super) struct Allocation<'a> {
    /// Who had it; `None` for what nobody had.
    pub(super) holder: Option<&'a Holder>,
    /// How the GPU was divided.
    pub(super) method: &'a str,
    /// The part of the GPU's cost. Those of all rows of the GPU sum to one.
    pub(super) ratio: Decimal,
    /// Granted and not used, and never touched.
    pub(super) unused: [NanoUsd; 2],
}

impl Allocation<'_> {
    /// What the holder is known by, as attributes of OpenTelemetry.
    pub(super) fn attributes(&self) -> BTreeMap<String, String> {
        let Some(holder) = self.holder else { return BTreeMap::new() };
        let known = [
            ("k8s.namespace.name", &holder.namespace),
            ("k8s.pod.name", &holder.pod),
            ("k8s.pod.uid", &holder.uid),
            ("k8s.container.name", &holder.container),
            ("slurm.job.id", &holder.job),
            ("slurm.job.user", &holder.user),
            ("slurm.job.account", &holder.project),
            ("queue", &holder.queue),
        ];
        let workload = holder.workload_kind.as_deref().and_then(workload_attribute);
        let workload = workload.map(|name| (name, &holder.workload));
        let known = known.into_iter().chain(workload).filter_map(|(name, value)| {
            Some((name.to_owned(), present(value.as_deref())?.to_owned()))
        });
        let labels = holder.labels.iter();
        let labels = labels.map(|(name, value)| (format!("k8s.pod.label.{name}"), value.clone()));
        known.chain(labels).collect()
    }

    /// How the part was found, as FOCUS has it.
    pub(super) fn details(&self, time: Nanos) -> String {
        let (ratio, hours) = (NanoUsd(self.ratio.0), NanoUsd(Decimal::hours(time).0));
        format!(
            "{{\"Elements\":[{{\"AllocatedRatio\":{ratio},\"UsageUnit\":\"Hours\",\"UsageQuantity\":{hours}}}]}}"
        )
    }
}
