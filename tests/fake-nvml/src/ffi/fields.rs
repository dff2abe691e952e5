//! Values by field ID.

use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
};
use phasemeter_meter::units::Nanos;

use super::call::{Call, device_functions};
use super::raw::Array;
use crate::device::{Architecture, Device};
use crate::error_code::ErrorCode;
use crate::track::Rate;

device_functions! {
    fn nvmlDeviceGetFieldValues(call, count: i32, values: Array<nvmlFieldValue_t>) {
        let count = u32::try_from(count).map_err(|_| ErrorCode::InvalidArgument)?;
        let mut values = values;
        for value in values.entries(count)? {
            value.timestamp = i64::try_from(call.session.stamp(call.now)).unwrap_or(i64::MAX);
            value.latencyUsec = 0;
            match field(call, value.fieldId, value.scopeId) {
                Ok((kind, number)) => {
                    value.valueType = kind;
                    value.value = nvmlValue_t { ullVal: number };
                    value.nvmlReturn = 0;
                }
                Err(error) => value.nvmlReturn = error.code(),
            }
        }
        Ok(())
    };
}

/// The type and value of a field `NVML_FI_…`. The scope of a link's field is the link; all others are
/// supported for scope 0 only, the GPU itself.
fn field(call: &Call<'_>, id: u32, scope: u32) -> Result<(u32, u64), ErrorCode> {
    /// Bits of `nvmlClocksEventReason…`.
    const SW_POWER_CAP: u64 = 0x04;
    const SYNC_BOOST: u64 = 0x10;
    const SW_THERMAL: u64 = 0x20;
    const HW_THERMAL: u64 = 0x40;
    const HW_POWER_BRAKE: u64 = 0x80;

    let (device, now) = (call.device, call.now);
    if let 138 | 139 | 161..=163 | 215 = id {
        return link_field(device, now, id, scope).map(|value| (UNSIGNED_LONG_LONG, value));
    }
    if scope != 0 {
        return Err(ErrorCode::NotSupported);
    }
    let small = |value: u32| Ok((UNSIGNED_INT, u64::from(value)));
    let large = |value: u64| Ok((UNSIGNED_LONG_LONG, value));
    let throttled = |bits| large(device.throttled(bits, now).0);
    // NVML 13 Update 1 moved the reasons from 251 to 269.
    let reasons = if call.session.model.system.renumbers_fields() { 269 } else { 251 };
    match id {
        3 => large(device.state(now).ecc[0]),
        4 => large(device.state(now).ecc[1]),
        74 => throttled(SW_POWER_CAP),
        76 => throttled(SYNC_BOOST),
        82 => {
            let celsius = device.state(now).memory_temperature.ok_or(ErrorCode::NotSupported)?;
            small(u32::try_from(celsius.0).unwrap_or(0))
        }
        83 => large(device.energy(now).0),
        91 => small(device.identity.nvlinks),
        94 => large(device.state(now).pcie_replays),
        // A replay follows an error that was corrected.
        173 => large(device.state(now).pcie_replays),
        // Of every three errors, one was not.
        179 => large(device.state(now).pcie_replays / 3),
        144 => small(u32::from(device.state(now).row_remap[0])),
        145 => small(u32::from(device.state(now).row_remap[1])),
        185 => small(device.power(now)),
        186 => small(device.power_now(now)),
        188 | 189 => small(device.identity.power_limit.get()),
        190 | 192 => small(device.state(now).power_limit.get()),
        197 => large(device.pcie_bytes(Rate::PcieTx, now)),
        198 => large(device.pcie_bytes(Rate::PcieRx, now)),
        id if id == reasons => throttled(SW_THERMAL),
        id if id == reasons + 1 => throttled(HW_THERMAL),
        id if id == reasons + 2 => throttled(HW_POWER_BRAKE),
        _ => Err(ErrorCode::NotSupported),
    }
}

/// The value of a link's field. Traffic is in KiB. Blackwell replaced the error counters.
fn link_field(device: &Device, now: Nanos, id: u32, link: u32) -> Result<u64, ErrorCode> {
    if link >= device.identity.nvlinks {
        return Err(ErrorCode::InvalidArgument);
    }
    let errors = &device.state(now).link_errors;
    let errors = errors.iter().find(|errors| errors.link == link).copied().unwrap_or_default();
    let is_new = device.identity.architecture >= Architecture::Blackwell;
    match id {
        138 => Ok(device.link_bytes(Rate::NvlinkTx, now) / 1_024),
        139 => Ok(device.link_bytes(Rate::NvlinkRx, now) / 1_024),
        161 if !is_new => Ok(errors.replay),
        162 if !is_new => Ok(errors.recovery),
        163 if !is_new => Ok(errors.crc),
        215 if is_new => Ok(errors.recovery),
        _ => Err(ErrorCode::NotSupported),
    }
}
