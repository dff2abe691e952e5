//! What is known of holders besides, by the attributes of their pods: workload, queue and labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use phasemeter_meter::holder::{Holder, HolderChange};
use phasemeter_meter::holder_details::{
    HolderDetails, QUEUE_LABELS, WORKLOAD_ATTRIBUTES, Workload,
};

use super::details::LABEL;
use super::smallest::Smallest;

/// What is known of each holder, of one GPU and instant.
pub(super) type Details = Smallest<Holder, Arc<HolderDetails>>;

/// As what each holder was described last.
#[derive(Debug, Default)]
pub(super) struct Described(BTreeMap<Holder, Arc<HolderDetails>>);

impl Described {
    /// Adds the details of a holder that are among these attributes, if any.
    pub(super) fn note(
        &self,
        details: &mut Details,
        holder: &Holder,
        attributes: &[(String, String)],
    ) {
        let found = read(attributes);
        if found == HolderDetails::default() {
            return;
        }
        // Few change from one instant to the next.
        let same = || self.0.get(holder).filter(|last| ***last == found).cloned();
        let new = || same().unwrap_or_else(|| Arc::new(found.clone()));
        details.upsert(holder, new, |known| {
            // Of several that differ, one whatever their order of arrival.
            if rank(known) < rank(&found) {
                *known = Arc::new(found.clone());
            }
        });
    }

    /// What is new of those that hold the GPU.
    pub(super) fn changes(
        &mut self,
        details: &Details,
        holds: impl Fn(&Holder) -> bool,
    ) -> Vec<HolderChange> {
        self.0.retain(|holder, _| holds(holder));
        let mut changes = Vec::new();
        for (holder, details) in details.iter().filter(|(holder, _)| holds(holder)) {
            if self.0.get(holder) != Some(details) {
                self.0.insert(holder.clone(), Arc::clone(details));
                let (holder, details) = (holder.clone(), Arc::clone(details));
                changes.push(HolderChange::Described { holder, details });
            }
        }
        changes
    }
}

/// The details of a pod that are among its attributes.
fn read(attributes: &[(String, String)]) -> HolderDetails {
    let label = |(name, value): &(String, String)| {
        Some((name.strip_prefix(LABEL)?.to_owned(), value.clone()))
    };
    let labels: BTreeMap<String, String> = attributes.iter().filter_map(label).collect();
    let workload = |(kind, attribute): &(&str, &str)| {
        let (_, name) = attributes.iter().find(|(name, _)| name == attribute)?;
        Some(Workload { kind: (*kind).to_owned(), name: name.clone() })
    };
    HolderDetails {
        workload: WORKLOAD_ATTRIBUTES.iter().find_map(workload),
        queue: QUEUE_LABELS.iter().find_map(|key| labels.get(*key)).cloned(),
        labels,
        ..HolderDetails::default()
    }
}

fn rank(details: &HolderDetails) -> (&BTreeMap<String, String>, Option<&str>) {
    (&details.labels, details.workload.as_ref().map(|workload| workload.name.as_str()))
}
