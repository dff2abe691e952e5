//! XID errors of one GPU (`nvmlEventSetWait`), counted by code.
//!
//! A faulty GPU reports thousands at a time. Each query reads those that wait for a short time; the rest
//! waits in the driver for the next query.

use std::collections::BTreeMap;

use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enums::event::XidError;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, EventSet, Nvml};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::Nanos;

use crate::clock::Clock;
use crate::live::{QueryError, UnsupportedReason};

/// A query begins no further call after this time: a fraction of the shortest tick.
const MAX_TIME: Nanos = Nanos::from_millis(2);

/// Maximum number of different codes per query, each of which is an observation.
const MAX_CODES: usize = 16;

/// The code for an XID that is unknown or out of range.
const UNKNOWN: u64 = 999;

/// The XID errors of one GPU that the driver has not delivered yet.
#[derive(Debug, Default)]
pub(super) struct Xids<'d> {
    events: Option<EventSet<'d>>,
    are_waiting: bool,
}

impl<'d> Xids<'d> {
    /// Whether errors may wait since the last query.
    pub(super) const fn are_waiting(&self) -> bool {
        self.are_waiting
    }

    /// Emits codes and numbers of the errors since the last query, without waiting for others.
    pub(super) fn query(
        &mut self,
        nvml: &'d Nvml,
        device: &Device<'d>,
        clock: &Clock,
        mut emit: impl FnMut(u64, u64),
    ) -> Result<(), QueryError> {
        let events = match &mut self.events {
            Some(events) => events,
            none => none.insert(register(nvml, device)?),
        };
        let began = clock.awake();
        let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
        let end = loop {
            match events.wait(0).map(|event| event.event_data) {
                Ok(Some(error)) => *counts.entry(code(&error)).or_default() += 1,
                Ok(None) => {}
                Err(end) => break Some(end),
            }
            if counts.len() == MAX_CODES || clock.awake() - began >= MAX_TIME {
                break None;
            }
        };
        self.are_waiting = end.is_none();
        counts.into_iter().for_each(|(code, count)| emit(code, count));
        match end {
            None | Some(NvmlError::Timeout) => Ok(()),
            Some(error) => Err(error.into()),
        }
    }
}

fn code(error: &XidError) -> u64 {
    match error {
        XidError::Value(code) => Quantity::Xid.admit(*code).unwrap_or(UNKNOWN),
        XidError::Unknown => UNKNOWN,
    }
}

/// Creates one event set per GPU, because the driver frees a set if registering fails. A set must
/// not be created if it cannot be freed: the wrapper would panic.
fn register<'d>(nvml: &'d Nvml, device: &Device<'d>) -> Result<EventSet<'d>, QueryError> {
    if nvml.lib().nvmlEventSetFree.is_err() {
        return Err(QueryError::Unsupported(UnsupportedReason::Driver));
    }
    let set = nvml.create_event_set()?;
    device
        .register_events(EventTypes::CRITICAL_XID_ERROR, set)
        .map_err(|failed| failed.error.into())
}
