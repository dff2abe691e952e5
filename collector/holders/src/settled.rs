//! When a change of grants counts: it is reported once no more evidence is awaited, as of when it was first seen.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::units::Timestamp;

use crate::assignments::Held;

/// The grants of each GPU and MIG instance, as last reported.
#[derive(Debug, Default)]
pub(crate) struct Settled(BTreeMap<String, Grants>);

#[derive(Debug)]
struct Grants {
    since: Timestamp,
    held: Vec<Held>,
    /// Since when they are different.
    changed: Option<Timestamp>,
    /// Whether they were ever known.
    is_known: bool,
}

impl Settled {
    /// Forgets devices that the node does not have any more.
    pub(crate) fn retain(&mut self, devices: &BTreeSet<&str>) {
        self.0.retain(|device, _| devices.contains(device.as_str()));
    }

    /// Whether the grants of a device were ever known.
    pub(crate) fn knows(&self, device: &str) -> bool {
        self.0.get(device).is_some_and(|grants| grants.is_known)
    }

    /// Takes what the evidence says of a device now. Returns the grants to report, and since when they count.
    pub(crate) fn update(
        &mut self,
        device: &str,
        changed: Timestamp,
        held: Vec<Held>,
        is_awaited: bool,
    ) -> (Timestamp, Vec<Held>) {
        let grants = self.0.entry(device.to_owned());
        let grants = grants.or_insert_with(|| Grants {
            since: changed,
            held: Vec::new(),
            changed: None,
            is_known: false,
        });
        let is_same =
            grants.held.iter().map(|held| &held.grant).eq(held.iter().map(|it| &it.grant));
        grants.is_known |= !is_awaited;
        if is_awaited {
            // What is awaited may be a holder that is not known at all.
            grants.changed.get_or_insert(changed);
        } else if is_same {
            (grants.held, grants.changed) = (held, None);
        } else {
            // What settled last began before.
            grants.since = grants.changed.take().unwrap_or(changed).max(grants.since);
            grants.held = held;
        }
        (grants.since, grants.held.clone())
    }
}
