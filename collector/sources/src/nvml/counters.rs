//! The driver's counters: all of them in one call.

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;

use super::refusal::{Lack, Refusal};
use super::value::whole;
use phasemeter_meter::device_metric::Counter;

/// `NVML_FI_…`. What newer drivers call otherwise, the wrapper translates: by its place in the
/// answer it is known.
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
pub(super) fn ask(device: &Device<'_>, mut tell: impl FnMut(Counter, u64)) -> Result<(), Refusal> {
    let answers = device.field_values_for(&Counter::ALL.map(field))?;
    let mut refused = Some(Refusal::Unsupported(Lack::Device));
    for (counter, answer) in Counter::ALL.into_iter().zip(answers) {
        match answer.and_then(|answer| answer.value).map_err(Refusal::from) {
            Err(Refusal::Gone(loss)) => return Err(Refusal::Gone(loss)),
            Err(_) => {}
            Ok(value) => {
                refused = None;
                whole(&value).into_iter().for_each(|value| tell(counter, value));
            }
        }
    }
    refused.map_or(Ok(()), Err)
}
