//! Events: XIDs, delivered to event sets.

use std::time::{Duration, Instant};

use nvml_wrapper_sys::bindings::{
    nvmlEventData_t, nvmlEventSet_st, nvmlEventSet_t, nvmlEventTypeXidCriticalError,
};
use phasemeter_meter::units::Nanos;

use super::call::{device_functions, handle_of, system_functions};
use super::handles::{EventSet, Registration};
use super::raw::{Out, put};
use super::session::Session;
use crate::error_code::ErrorCode;
use crate::fault::{FaultOutcome, outcome};

/// The only supported event type.
const XID: u64 = nvmlEventTypeXidCriticalError as u64;

device_functions! {
    fn nvmlDeviceGetSupportedEventTypes(_call, types: Out<'_, u64>) put(types, XID);

    fn nvmlDeviceRegisterEvents(call, types: u64, set: nvmlEventSet_t) {
        let mut handles = call.session.handles();
        let EventSet(registrations) = handles.event_sets.get(set.addr())?;
        if types & !XID != 0 {
            return Err(ErrorCode::NotSupported);
        }
        if types & XID != 0 {
            registrations.push(Registration { device: call.index, since: call.now, passed: 0 });
        }
        Ok(())
    };
}

system_functions! {
    fn nvmlEventSetCreate(session, set: Out<'_, nvmlEventSet_t>) {
        let handle = session.handles().event_sets.insert(EventSet::default());
        put(set, std::ptr::without_provenance_mut::<nvmlEventSet_st>(handle))
    };

    fn nvmlEventSetFree(session, set: nvmlEventSet_t)
        session.handles().event_sets.remove(set.addr());

    fn nvmlEventSetWait_v2(
        session, set: nvmlEventSet_t, data: Out<'_, nvmlEventData_t>, timeout_ms: u32
    ) {
        let (device, code) = wait(session, set.addr(), Duration::from_millis(timeout_ms.into()))?;
        put(data, nvmlEventData_t {
            device: handle_of(device),
            eventType: XID,
            eventData: code,
            gpuInstanceId: u32::MAX,
            computeInstanceId: u32::MAX,
        })
    };
}

/// Waits for the next event of a set. Like the real driver, returns the event's device and the last
/// XID of the whole machine, whichever device caused it.
fn wait(session: &Session, set: usize, timeout: Duration) -> Result<(usize, u64), ErrorCode> {
    let began = Instant::now();
    let xids = &session.model.xids;
    loop {
        let (now, next) = {
            let mut handles = session.handles();
            let EventSet(registrations) = handles.event_sets.get(set)?;
            let now = session.now();
            let waiting = registrations.iter_mut().filter_map(|registration| {
                let (number, xid) = registration.next(xids)?;
                Some((xid.at, number, registration))
            });
            let next = match waiting.min_by_key(|(at, ..)| *at) {
                Some((at, number, registration)) if at <= now => {
                    registration.passed = number;
                    let seen = xids.iter().rev().find(|xid| xid.at <= now);
                    return Ok((registration.device, seen.map_or(0, |xid| xid.code)));
                }
                next => next.map(|(at, ..)| at),
            };
            if registrations.iter().any(|registration| is_lost(session, registration.device, now)) {
                return Err(ErrorCode::GpuIsLost);
            }
            (now, next)
        };
        let left = timeout.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Err(ErrorCode::Timeout);
        }
        session.wait_until(next.map_or(Nanos(u64::MAX), |at| at.max(now)), left);
    }
}

fn is_lost(session: &Session, device: usize, now: Nanos) -> bool {
    let outcome = outcome(&session.model.faults, "nvmlEventSetWait_v2", Some(device), now);
    matches!(outcome, FaultOutcome::After(_, Some(ErrorCode::GpuIsLost)))
}
