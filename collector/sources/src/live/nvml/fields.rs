//! The driver's counters, the memory temperature and row remapping, read in one call
//! (`nvmlDeviceGetFieldValues`).

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;
use phasemeter_meter::device_metric::{Component, DeviceValue};
use phasemeter_meter::quantity::Quantity;

use super::value::supported;
use crate::live::QueryError;

/// Field IDs, `NVML_FI_…`, of counters. The wrapper may translate IDs for newer drivers.
const COUNTERS: [(u32, Component, Quantity); 12] = [
    (3, Component::Gpu, Quantity::CorrectedErrors),
    (4, Component::Gpu, Quantity::MemoryErrors),
    (74, Component::Gpu, Quantity::PowerCap),
    (76, Component::Gpu, Quantity::SyncBoost),
    (94, Component::Pcie, Quantity::LinkReplays),
    (173, Component::Pcie, Quantity::PcieCorrectable),
    (179, Component::Pcie, Quantity::PcieNonFatal),
    (197, Component::Pcie, Quantity::PcieTransmitted),
    (198, Component::Pcie, Quantity::PcieReceived),
    (251, Component::Gpu, Quantity::SoftwareThermal),
    (252, Component::Gpu, Quantity::HardwareThermal),
    (253, Component::Gpu, Quantity::PowerBrake),
];

/// Those of values at an instant.
const VALUES: [(u32, Component, Quantity); 3] = [
    (82, Component::Gpu, Quantity::MemoryTemperature),
    (144, Component::Gpu, Quantity::RowsPending),
    (145, Component::Gpu, Quantity::RowsFailed),
];

/// Emits the value of every field that this GPU supports.
///
/// # Errors
/// Returns an error if the call fails, or no field is supported.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(Component, Quantity, DeviceValue),
) -> Result<(), QueryError> {
    let counters = COUNTERS.into_iter().map(|field| (field, true));
    let fields: Vec<_> = counters.chain(VALUES.into_iter().map(|field| (field, false))).collect();
    let ids: Vec<_> = fields.iter().map(|((id, ..), _)| FieldId(*id)).collect();
    let results = device.field_values_for(&ids)?;
    let results = results.into_iter().map(|result| result.and_then(|result| result.value));
    for (((_, component, quantity), is_counter), value) in supported(fields, results)? {
        let value = match is_counter {
            true => Some(DeviceValue::Total(value)),
            false => quantity.admit(value).map(DeviceValue::Now),
        };
        if let Some(value) = value {
            emit(component, quantity, value);
        }
    }
    Ok(())
}
