//! The driver's sample rings.

use nvml_wrapper_sys::bindings::{
    nvmlSample_t, nvmlValue_t, nvmlValueType_enum_NVML_VALUE_TYPE_UNSIGNED_INT as UNSIGNED_INT,
};

use super::call::device_functions;
use super::raw::{Array, InOut, Out, put};
use super::readings::reject_mig;
use crate::error_code::ErrorCode;
use crate::fault::stamp_shift;
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
                timeStamp: sample.at.map_or(0, |at| {
                    let shift = stamp_shift(&call.session.model.faults, call.index, at);
                    call.session.stamp(at).saturating_add_signed(shift.saturating_mul(1_000))
                }),
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
            *count = call.count(call.device.ring(rate).depth);
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
        *count = call.count(written);
        Ok(())
    };
}
