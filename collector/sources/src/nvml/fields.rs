//! The driver's counters, the memory temperature and row remapping, read in one call
//! (`nvmlDeviceGetFieldValues`).

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;
use phasemeter_meter::device_metric::{Component, Counter, DeviceValue, Gauge};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::Celsius;

use super::query_error::QueryError;
use super::value::supported;

/// What a field holds.
#[derive(Clone, Copy)]
enum Content {
    Counter(Counter),
    MemoryTemperature,
    /// Whether memory rows wait to be remapped.
    RowsPending,
    /// Whether a memory row could not be remapped.
    RowsFailed,
}

/// Field IDs, `NVML_FI_…`, and what they hold. The wrapper may translate IDs for newer drivers.
const FIELDS: [(u32, Component, Content); 13] = [
    (3, Component::Gpu, Content::Counter(Counter::Corrected)),
    (4, Component::Gpu, Content::Counter(Counter::Uncorrected)),
    (74, Component::Gpu, Content::Counter(Counter::PowerCap)),
    (76, Component::Gpu, Content::Counter(Counter::SyncBoost)),
    (82, Component::Gpu, Content::MemoryTemperature),
    (94, Component::Pcie, Content::Counter(Counter::Replays)),
    (144, Component::Gpu, Content::RowsPending),
    (145, Component::Gpu, Content::RowsFailed),
    (197, Component::Pcie, Content::Counter(Counter::Transmitted)),
    (198, Component::Pcie, Content::Counter(Counter::Received)),
    (251, Component::Gpu, Content::Counter(Counter::SoftwareThermal)),
    (252, Component::Gpu, Content::Counter(Counter::HardwareThermal)),
    (253, Component::Gpu, Content::Counter(Counter::PowerBrake)),
];

/// Emits the value of every field that this GPU supports.
///
/// # Errors
/// Returns an error if the call fails, or no field is supported.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(Component, DeviceValue),
) -> Result<(), QueryError> {
    let results = device.field_values_for(&FIELDS.map(|(id, ..)| FieldId(id)))?;
    let results = results.into_iter().map(|result| result.and_then(|result| result.value));
    let (mut rows_pending, mut rows_failed) = (None, None);
    for ((_, component, content), value) in supported(FIELDS, results)? {
        match content {
            Content::Counter(counter) => {
                emit(component, DeviceValue::Count { counter, total: value });
            }
            Content::MemoryTemperature => {
                if let Some(degrees) = Quantity::MemoryTemperature.admit(value) {
                    let temperature = Gauge::MemoryTemperature(Celsius(degrees));
                    emit(component, DeviceValue::Gauge(temperature));
                }
            }
            Content::RowsPending => rows_pending = Some(value != 0),
            Content::RowsFailed => rows_failed = Some(value != 0),
        }
    }
    if let (Some(pending), Some(failed)) = (rows_pending, rows_failed) {
        emit(Component::Gpu, DeviceValue::RowRemapping { pending, failed });
    }
    Ok(())
}
