//! Values in the types of NVML.

use nvml_wrapper::enums::device::SampleValue;

/// An unsigned value; `None` if it is signed or floating-point.
pub(super) fn whole(value: &SampleValue) -> Option<u64> {
    match value {
        SampleValue::U32(value) => Some(u64::from(*value)),
        SampleValue::U64(value) => Some(*value),
        SampleValue::I64(_) | SampleValue::F64(_) => None,
    }
}
