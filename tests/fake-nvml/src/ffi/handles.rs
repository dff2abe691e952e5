//! Objects that callers hold by handle: event sets and GPM samples.

use std::collections::BTreeMap;

use phasemeter_meter::units::Nanos;

use crate::error_code::ErrorCode;
use crate::fault::Xid;

/// Objects held by callers, by handle.
#[derive(Default)]
pub(super) struct Handles {
    pub(super) event_sets: Table<EventSet>,
    /// A sample is `None` until it is taken.
    pub(super) gpm_samples: Table<Option<GpmSample>>,
}

/// A GPM sample.
#[derive(Clone, Copy)]
pub(super) struct GpmSample {
    pub(super) device: usize,
    /// The GPU instance, if it is limited to one.
    pub(super) gpu_instance: Option<u32>,
    /// The instant of its counters.
    pub(super) at: Nanos,
}

/// The devices registered for events.
#[derive(Default)]
pub(super) struct EventSet(pub(super) Vec<Registration>);

/// A device in an event set.
pub(super) struct Registration {
    pub(super) device: usize,
    /// Registration time: earlier XIDs are not delivered.
    pub(super) since: Nanos,
    /// The number of XIDs of all devices up to the last one that was delivered.
    pub(super) passed: usize,
}

impl Registration {
    /// The next XID that was not delivered to this registration, and the number of XIDs up to it.
    pub(super) fn next(&self, xids: &[Xid]) -> Option<(usize, Xid)> {
        let (device, since) = (self.device, self.since);
        let mut others = (1..).zip(xids).skip(self.passed);
        let is_own = |xid: &Xid| xid.at >= since && xid.device.is_none_or(|named| named == device);
        others.find(|(_, xid)| is_own(xid)).map(|(number, xid)| (number, *xid))
    }
}

/// Objects by handle. Handles are never reused, so that a double free is detected.
pub(super) struct Table<T> {
    entries: BTreeMap<usize, T>,
    last: usize,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), last: 0 }
    }
}

impl<T> Table<T> {
    pub(super) fn insert(&mut self, entry: T) -> usize {
        self.last += 1;
        self.entries.insert(self.last, entry);
        self.last
    }

    pub(super) fn get(&mut self, handle: usize) -> Result<&mut T, ErrorCode> {
        self.entries.get_mut(&handle).ok_or(ErrorCode::InvalidArgument)
    }

    pub(super) fn remove(&mut self, handle: usize) -> Result<(), ErrorCode> {
        self.entries.remove(&handle).map(drop).ok_or(ErrorCode::InvalidArgument)
    }
}
