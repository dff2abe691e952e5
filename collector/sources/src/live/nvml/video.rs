//! The video engines of a GPU (`nvmlDeviceGetEncoderUtilization`,
//! `nvmlDeviceGetDecoderUtilization`).

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::UtilizationInfo;
use phasemeter_meter::device_metric::{Component, DeviceValue};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::value::from_percent;
use crate::live::QueryError;

/// Emits the activity of both engines.
///
/// # Errors
/// Returns an error if a call fails.
pub(super) fn query(
    device: &Device<'_>,
    at: Timestamp,
    mut emit: impl FnMut(Component, Quantity, DeviceValue),
) -> Result<(), QueryError> {
    let engines = [
        (Quantity::Encoder, device.encoder_utilization()?),
        (Quantity::Decoder, device.decoder_utilization()?),
    ];
    for (quantity, UtilizationInfo { utilization, sampling_period }) in engines {
        // A driver may leave out the sampling period.
        let micros = u64::from(sampling_period.max(1));
        let from = at.saturating_sub(Nanos(micros * 1_000));
        if let Some(share) = from_percent(quantity, utilization) {
            emit(Component::Gpu, quantity, DeviceValue::Mean { from, share });
        }
    }
    Ok(())
}
