//! The driver's counters: all of them in one call.

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;

use super::query_error::{QueryError, UnsupportedReason};
use super::value::whole;
use phasemeter_meter::device_metric::Counter;

/// `NVML_FI_…`. What newer drivers call otherwise, the wrapper translates: by its place in the
/// result it is known.
const fn field(counter: Counter) -> FieldId {
    FieldId(match counter {
        Counter::Corrected => 3,
        Counter::Uncorrected => 4,
        Counter::PowerCap => 74,
        Counter::SyncBoost => 76,
        Counter::Transmitted => 197,
        Counter::Received => 198,
        Counter::SoftwareThermal => 251,
        Counter::HardwareThermal => 252,
        Counter::PowerBrake => 253,
    })
}

/// Tells what each counter stands at that this GPU has.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(Counter, u64),
) -> Result<(), QueryError> {
    let results = device.field_values_for(&Counter::ALL.map(field))?;
    let mut unsupported = Some(QueryError::Unsupported(UnsupportedReason::Device));
    for (counter, result) in Counter::ALL.into_iter().zip(results) {
        match result.and_then(|result| result.value).map_err(QueryError::from) {
            Err(QueryError::Lost(loss)) => return Err(QueryError::Lost(loss)),
            Err(_) => {}
            Ok(value) => {
                unsupported = None;
                whole(&value).into_iter().for_each(|value| emit(counter, value));
            }
        }
    }
    unsupported.map_or(Ok(()), Err)
}
