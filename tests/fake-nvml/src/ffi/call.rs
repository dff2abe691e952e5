//! Common path of every call: find the session, apply faults, return the result.

use std::time::Duration;

use nvml_wrapper_sys::bindings::{nvmlDevice_st, nvmlDevice_t, nvmlReturn_t};
use phasemeter_meter::units::Nanos;

use super::raw::NvmlResult;
use super::session::{self, Session};
use crate::device::Device;
use crate::error_code::ErrorCode;
use crate::fault::{self, FaultOutcome, outcome};
use crate::mig::Instance;

/// A call on one device.
pub(super) struct Call<'a> {
    pub(super) session: &'a Session,
    pub(super) function: &'a str,
    pub(super) device: &'a Device,
    /// The device's place in the script.
    pub(super) index: usize,
    /// The MIG instance, if the handle is that of one.
    pub(super) instance: Option<&'a Instance>,
    /// Time since the script's start, after any injected delay.
    pub(super) now: Nanos,
}

impl Call<'_> {
    /// The device's index: its place among the devices that are listed now.
    pub(super) fn listed_index(&self) -> usize {
        self.session.model.listed(self.now).take_while(|(place, _)| *place < self.index).count()
    }

    /// A number of entries, or the wrong one of a fault.
    pub(super) fn count(&self, count: u32) -> u32 {
        self.wrong_count().unwrap_or(count)
    }

    /// The wrong number of entries that the call reports, if any.
    pub(super) fn wrong_count(&self) -> Option<u32> {
        fault::count(&self.session.model.faults, self.function, Some(self.index), self.now)
    }

    /// Whether the device is in MIG mode now.
    pub(super) fn is_in_mig_mode(&self) -> bool {
        self.device.identity.mig.contains(&self.now)
    }
}

/// Handles a call of `function` without a device.
pub(super) fn on_system(
    function: &str,
    handler: impl FnOnce(&Session) -> NvmlResult,
) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        apply_faults(&session, function, None)?;
        handler(&session)
    }))
}

/// Handles a call of `function` on a device or a MIG instance.
pub(super) fn on_instance(
    function: &str,
    handle: nvmlDevice_t,
    handler: impl FnOnce(&Call<'_>) -> NvmlResult,
) -> nvmlReturn_t {
    code(session::current().and_then(|session| {
        let (index, place) = place_of(handle).ok_or(ErrorCode::InvalidArgument)?;
        let device = session.model.devices.get(index).ok_or(ErrorCode::InvalidArgument)?;
        let now = apply_faults(&session, function, Some(index))?;
        if !device.listed.contains(&now) {
            return Err(ErrorCode::GpuIsLost);
        }
        let existing = |place: usize| device.instances.get(place).filter(|it| it.exists(now));
        let instance = place.map(|place| existing(place).ok_or(ErrorCode::InvalidArgument));
        let instance = instance.transpose()?;
        handler(&Call { session: &session, function, device, index, instance, now })
    }))
}

/// Handles a call of `function` on a device. MIG instances do not support it.
pub(super) fn on_device(
    function: &str,
    handle: nvmlDevice_t,
    handler: impl FnOnce(&Call<'_>) -> NvmlResult,
) -> nvmlReturn_t {
    on_instance(function, handle, |call| match call.instance {
        Some(_) => Err(ErrorCode::NotSupported),
        None => handler(call),
    })
}

/// Handles a call of `function` that looks up a device and returns its handle.
pub(super) fn find_device(
    function: &str,
    wanted: impl Fn(usize, &Device) -> bool,
) -> Result<nvmlDevice_t, ErrorCode> {
    let session = session::current()?;
    let mut listed = session.model.listed(session.now()).enumerate();
    let found = listed.find(|(index, (_, device))| wanted(*index, device));
    let place = found.map(|(_, (place, _))| place);
    apply_faults(&session, function, place)?;
    place.map(handle_of).ok_or(ErrorCode::NotFound)
}

/// Applies the faults to a call. If it succeeds, returns the time after any delay.
pub(super) fn apply_faults(
    session: &Session,
    function: &str,
    device: Option<usize>,
) -> Result<Nanos, ErrorCode> {
    loop {
        match outcome(&session.model.faults, function, device, session.now()) {
            FaultOutcome::HangUntil(end) => session.wait_until(end, Duration::MAX),
            FaultOutcome::After(delay, error) => {
                if delay > Nanos::ZERO {
                    session.delay(delay);
                }
                return error.map_or_else(|| Ok(session.now()), Err);
            }
        }
    }
}

/// Converts a result to a return code.
pub(super) fn code(result: NvmlResult) -> nvmlReturn_t {
    result.map_or_else(ErrorCode::code, |()| 0)
}

/// The lower bits of a handle are a device's index plus one, so that it is not null; the others are
/// the index of a MIG instance plus one, or zero.
const DEVICE_BITS: u32 = 16;

/// The handle of a device.
pub(super) fn handle_of(index: usize) -> nvmlDevice_t {
    std::ptr::without_provenance_mut::<nvmlDevice_st>(index + 1)
}

/// The handle of a MIG instance.
pub(super) fn instance_handle_of(index: usize, instance: usize) -> nvmlDevice_t {
    let handle = (index + 1) | (instance + 1) << DEVICE_BITS;
    std::ptr::without_provenance_mut::<nvmlDevice_st>(handle)
}

/// The index of the device with this handle, and that of its MIG instance, if any.
pub(super) fn place_of(handle: nvmlDevice_t) -> Option<(usize, Option<usize>)> {
    let number = handle.addr();
    let index = (number & ((1 << DEVICE_BITS) - 1)).checked_sub(1)?;
    Some((index, (number >> DEVICE_BITS).checked_sub(1)))
}

/// Exports device functions: `call` is the [`Call`], the rest are the C parameters after the
/// handle.
macro_rules! device_functions {
    ($($functions:tt)*) => { $crate::ffi::call::functions! { on_device: $($functions)* } };
}

/// Exports functions of devices and MIG instances.
macro_rules! instance_functions {
    ($($functions:tt)*) => { $crate::ffi::call::functions! { on_instance: $($functions)* } };
}

macro_rules! functions {
    ($on:ident: $(fn $name:ident($call:ident $(, $arg:ident: $type:ty)*) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name(
            device: nvml_wrapper_sys::bindings::nvmlDevice_t $(, $arg: $type)*
        ) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::ffi::call::$on(stringify!($name), device, |$call| $body)
        }
    )*};
}

/// Exports system functions: `session` is the [`Session`], the rest are the C parameters.
macro_rules! system_functions {
    ($(fn $name:ident($session:ident $(, $arg:ident: $type:ty)*) $body:expr;)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> nvml_wrapper_sys::bindings::nvmlReturn_t {
            $crate::ffi::call::on_system(stringify!($name), |$session| $body)
        }
    )*};
}

pub(super) use {device_functions, functions, instance_functions, system_functions};
