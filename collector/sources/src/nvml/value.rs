//! Values as the driver types them.

use nvml_wrapper::enums::device::SampleValue;

/// An unsigned value; `None` if the driver types it as signed or as a float.
pub(super) fn whole(value: &SampleValue) -> Option<u64> {
    match value {
        SampleValue::U32(value) => Some(u64::from(*value)),
        SampleValue::U64(value) => Some(*value),
        SampleValue::I64(_) | SampleValue::F64(_) => None,
    }
}
