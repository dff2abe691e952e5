//! The fans of a GPU (`nvmlDeviceGetFanSpeed_v2`).

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use phasemeter_meter::device_metric::{Component, DeviceValue};
use phasemeter_meter::quantity::Quantity;

use super::value::ppm;
use crate::live::QueryError;

/// Emits the speed of every fan. A GPU without fans emits nothing.
///
/// # Errors
/// Returns an error if a call fails.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(Component, Quantity, DeviceValue),
) -> Result<(), QueryError> {
    let count = match device.num_fans() {
        // How the driver reports that there are none.
        Err(NvmlError::NotSupported) => 0,
        count => count?,
    };
    for fan in 0..u8::try_from(count).unwrap_or(u8::MAX) {
        let percent = device.fan_speed(u32::from(fan))?;
        let quantity = Quantity::FanSpeed;
        if let Some(speed) = quantity.admit(ppm(percent)) {
            emit(Component::Fan(fan), quantity, DeviceValue::Now(speed));
        }
    }
    Ok(())
}
