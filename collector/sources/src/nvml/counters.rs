//! The driver's counters, read in one call (`nvmlDeviceGetFieldValues`).

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;

use super::query_error::{QueryError, UnsupportedReason};
use super::value::whole;
use phasemeter_meter::device_metric::Counter;

/// The field ID, `NVML_FI_…`. The wrapper may translate IDs for newer drivers, so values are
/// matched by their position in the result.
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

/// Emits the value of every counter that this GPU supports.
///
/// # Errors
/// Returns an error if the call fails, or no counter is supported.
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
