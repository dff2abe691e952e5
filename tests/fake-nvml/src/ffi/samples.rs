//! The driver's sample rings, and values by field ID.

use nvml_wrapper_sys::bindings::{
    nvmlFieldValue_t, nvmlSample_t, nvmlValue_t,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
    nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_LONG_LONG as UNSIGNED_LONG_LONG,
};

use super::call::{Call, device_functions};
use super::raw::{Array, InOut, Out, put};
use super::readings::reject_mig;
use crate::error_code::ErrorCode;
use crate::track::Rate;

device_functions! {
    // `count` becomes the ring's capacity if there is no buffer, else the number of samples written.
    fn nvmlDeviceGetSamples(
        call, kind: u32, last_seen: u64, value_type: Out<'_, u32>, count: InOut<'_, u32>,
        samples: Array<nvmlSample_t>
    ) {
        let rate = match kind {
            0 => Rate::Power,
            1 => Rate::Busy,
            2 => Rate::Dram,
            _ => return Err(ErrorCode::NotSupported),
        };
        if rate != Rate::Power {
            reject_mig(call)?;
        }
        let mut samples = samples;
        let found: Vec<nvmlSample_t> = call.device.samples(rate, call.now).into_iter()
            .map(|sample| nvmlSample_t {
                timeStamp: sample.at.map_or(0, |at| call.session.stamp(at)),
                sampleValue: nvmlValue_t { uiVal: sample.value },
            })
            .filter(|sample| sample.timeStamp > last_seen || sample.timeStamp == 0)
            .collect();
        // An unused slot is not a new sample.
        if found.iter().all(|sample| sample.timeStamp == 0) {
            return Err(ErrorCode::NotFound);
        }
        put(value_type, UNSIGNED_INT)?;
        let count = count.ok_or(ErrorCode::InvalidArgument)?;
        if samples.is_null() {
            *count = call.device.ring(rate).depth;
            return Ok(());
        }
        if *count == 0 {
            return Err(ErrorCode::InvalidArgument);
        }
        let mut written = 0;
        for (to, from) in samples.entries(*count)?.iter_mut().zip(found) {
            *to = from;
            written += 1;
        }
        *count = written;
        Ok(())
    };

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

/// The type and value of a field `NVML_FI_…`. Only the scope of the GPU itself is supported, not
/// modules, memory or links.
fn field(call: &Call<'_>, id: u32, scope: u32) -> Result<(u32, u64), ErrorCode> {
    /// Bits of `nvmlClocksEventReason…`.
    const SW_POWER_CAP: u64 = 0x04;
    const SYNC_BOOST: u64 = 0x10;
    const SW_THERMAL: u64 = 0x20;
    const HW_THERMAL: u64 = 0x40;
    const HW_POWER_BRAKE: u64 = 0x80;

    if scope != 0 {
        return Err(ErrorCode::NotSupported);
    }
    let (device, now) = (call.device, call.now);
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
        144 => small(u32::from(device.state(now).row_remap[0])),
        145 => small(u32::from(device.state(now).row_remap[1])),
        83 => large(device.energy(now).0),
        185 => small(device.power(now)),
        186 => small(device.power_now(now)),
        188..=190 | 192 => small(device.identity.power_limit.get()),
        197 => large(device.pcie_bytes(Rate::PcieTx, now)),
        198 => large(device.pcie_bytes(Rate::PcieRx, now)),
        id if id == reasons => throttled(SW_THERMAL),
        id if id == reasons + 1 => throttled(HW_THERMAL),
        id if id == reasons + 2 => throttled(HW_POWER_BRAKE),
        _ => Err(ErrorCode::NotSupported),
    }
}
