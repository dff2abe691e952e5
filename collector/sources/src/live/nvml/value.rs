//! Values in the types of NVML.

use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::NvmlError;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{PPM, Utilization};

use crate::live::{QueryError, UnsupportedReason};

/// An unsigned value; `None` if it is signed or floating-point.
pub(super) fn whole(value: &SampleValue) -> Option<u64> {
    match value {
        SampleValue::U32(value) => Some(u64::from(*value)),
        SampleValue::U64(value) => Some(*value),
        SampleValue::I64(_) | SampleValue::F64(_) => None,
    }
}

/// A percentage in ppm.
pub(super) fn ppm(percent: u32) -> u64 {
    u64::from(percent) * u64::from(PPM / 100)
}

/// The share of a percentage; `None` if it is out of range.
pub(super) fn from_percent(quantity: Quantity, percent: u32) -> Option<Utilization> {
    quantity.admit(ppm(percent)).and_then(Utilization::from_ppm)
}

/// The values of the fields that are supported, with what each field holds. The driver may renumber
/// fields, so results are matched by position.
///
/// # Errors
/// Returns an error if the GPU is lost, or no field is supported.
pub(super) fn supported<T>(
    fields: impl IntoIterator<Item = T>,
    results: impl IntoIterator<Item = Result<SampleValue, NvmlError>>,
) -> Result<Vec<(T, u64)>, QueryError> {
    let mut values = Vec::new();
    let mut unsupported = Some(QueryError::Unsupported(UnsupportedReason::Device));
    for (field, result) in fields.into_iter().zip(results) {
        match result.map_err(QueryError::from) {
            Err(QueryError::Lost(loss)) => return Err(QueryError::Lost(loss)),
            Err(_) => {}
            Ok(value) => {
                unsupported = None;
                values.extend(whole(&value).map(|value| (field, value)));
            }
        }
    }
    unsupported.map_or(Ok(values), Err)
}
