//! The driver's counters and row remapping, read in one call (`nvmlDeviceGetFieldValues`).

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;

use super::query_error::{QueryError, UnsupportedReason};
use super::value::whole;
use phasemeter_meter::device_metric::{Counter, DeviceValue};

/// Whether rows wait to be remapped, and whether any could not be: `NVML_FI_DEV_REMAPPED_PENDING`,
/// `NVML_FI_DEV_REMAPPED_FAILURE`.
const ROW_REMAPPING: [FieldId; 2] = [FieldId(144), FieldId(145)];

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

/// Emits every value that this GPU supports.
///
/// # Errors
/// Returns an error if the call fails, or no value is supported.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(DeviceValue),
) -> Result<(), QueryError> {
    let fields: Vec<_> = Counter::ALL.map(field).into_iter().chain(ROW_REMAPPING).collect();
    let results = device.field_values_for(&fields)?;
    let mut values = Vec::with_capacity(results.len());
    for result in results {
        match result.and_then(|result| result.value).map_err(QueryError::from) {
            Err(QueryError::Lost(loss)) => return Err(QueryError::Lost(loss)),
            Err(_) => values.push(None),
            Ok(value) => values.push(whole(&value)),
        }
    }
    if values.iter().all(Option::is_none) {
        return Err(QueryError::Unsupported(UnsupportedReason::Device));
    }
    let (counts, remapping) = values.split_at(Counter::ALL.len().min(values.len()));
    for (counter, total) in Counter::ALL.into_iter().zip(counts) {
        total.iter().for_each(|&total| emit(DeviceValue::Count { counter, total }));
    }
    if let [Some(pending), Some(failed)] = *remapping {
        emit(DeviceValue::RowRemapping { pending: pending != 0, failed: failed != 0 });
    }
    Ok(())
}
