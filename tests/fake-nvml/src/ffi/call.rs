//! The way of every call: the session, the faults that meet it, the answer.

use std::thread;
use std::time::Duration;

use nvml_wrapper_sys::bindings::{nvmlDevice_st, nvmlDevice_t, nvmlReturn_t};
use phasemeter_meter::units::Nanos;

use super::raw::Answer;
use super::session::{self, Session};
use crate::device::Device;
use crate::fault::{Obstacle, obstacle};
use crate::refusal::Refusal;

/// A call on one device.
pub(super) struct Call<'a> {
    pub(super) session: &'a Session,
    pub(super) device: &'a Device,
    /// The device's index.
    pub(super) index: usize,
    /// Time since the script's start, once the call got through.
    pub(super) now: Nanos,
}

/// Answers a call of `function` that names no device.
pub(super) fn on_system(function: &str, answer: impl FnOnce(&Session) -> Answer) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        meet(&session, function, None)?;
        answer(&session)
    }))
}

/// Answers a call of `function` on the device of a handle.
pub(super) fn on_device(
    function: &str,
    handle: nvmlDevice_t,
    answer: impl FnOnce(&Call<'_>) -> Answer,
) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        let index = index_of(handle).ok_or(Refusal::InvalidArgument)?;
        let device = session.model.devices.get(index).ok_or(Refusal::InvalidArgument)?;
        let now = meet(&session, function, Some(index))?;
        answer(&Call { session: &session, device, index, now })
    }))
}

/// Answers a call of `function` that looks for a device and gives its handle.
pub(super) fn find_device(
    function: &str,
    wanted: impl Fn(usize, &Device) -> bool,
) -> Result<nvmlDevice_t, Refusal> {
    let session = session::current()?;
    let mut devices = session.model.devices.iter().enumerate();
    let index = devices.find(|(index, device)| wanted(*index, device)).map(|(index, _)| index);
    meet(&session, function, index)?;
    index.map(handle_of).ok_or(Refusal::NotFound)
}

/// Lets the faults have their way with a call; where it gets through, the time it then is.
pub(super) fn meet(
    session: &Session,
    function: &str,
    device: Option<usize>,
) -> Result<Nanos, Refusal> {
    loop {
        match obstacle(&session.model.faults, function, device, session.now()) {
            Obstacle::HangUntil(end) => session.wait_until(end, Duration::MAX),
            Obstacle::After(delay, refusal) => {
                if delay > Nanos::ZERO {
                    thread::sleep(Duration::from_nanos(delay.0));
                }
                return refusal.map_or_else(|| Ok(session.now()), Err);
            }
        }
    }
}

/// An answer as C knows it.
pub(super) fn code(answer: Answer) -> nvmlReturn_t {
    answer.map_or_else(Refusal::code, |()| 0)
}

/// The handle of a device: its index and one, so that it is not null.
pub(super) fn handle_of(index: usize) -> nvmlDevice_t {
    std::ptr::without_provenance_mut::<nvmlDevice_st>(index + 1)
}

/// The index of a device by its handle.
pub(super) fn index_of(handle: nvmlDevice_t) -> Option<usize> {
    handle.addr().checked_sub(1)
}

/// Exports functions of a device: `call` is the [`Call`], the rest are the C parameters that
/// follow the handle.
macro_rules! device_functions {
    ($(fn $name:ident($call:ident $(, $arg:ident: $type:ty)*) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            device: nvml_wrapper_sys::bindings::nvmlDevice_t $(, $arg: $type)*
        ) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::ffi::call::on_device(stringify!($name), device, |$call| $body)
        }
    )*};
}

/// Exports functions of the whole machine: `session` is the [`Session`], the rest are the C
/// parameters.
macro_rules! system_functions {
    ($(fn $name:ident($session:ident $(, $arg:ident: $type:ty)*) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::ffi::call::on_system(stringify!($name), |$session| $body)
        }
    )*};
}

pub(super) use {device_functions, system_functions};
