//! Who a GPU is, and what it has and may do: asked once, when it is found.
//!
//! What it does not tell stays unknown. This room must not know of readings.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureThreshold;
use nvml_wrapper::error::NvmlError;
use phasemeter_meter::reading::{Board, GpuIdentity};
use phasemeter_meter::units::{Bytes, Celsius, Milliwatts};

use super::{Found, Untold};

/// Asks the GPU of this index for its name, and for all that goes with it.
///
/// # Errors
/// Where there is no such GPU, or it does not even tell its uuid.
pub(super) fn identify(
    nvml: &Nvml,
    index: u32,
    driver_version: Option<String>,
) -> Result<Found, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let uuid = device.uuid()?;
    let mut answers = Answers::default();
    let memory = answers.take("size of its memory", device.memory_info());
    let limit = device.enforced_power_limit().or_else(|_| device.power_management_limit());
    let limit = answers.take("power limit", limit).and_then(Milliwatts::new);
    let mut threshold = |fact, which| {
        let degrees = answers.take(fact, device.temperature_threshold(which))?;
        i16::try_from(degrees).ok().map(Celsius)
    };
    let slowdown = threshold("slowdown temperature", TemperatureThreshold::Slowdown);
    let shutdown = threshold("shutdown temperature", TemperatureThreshold::Shutdown);
    let identity = GpuIdentity {
        bus_id: answers.take("bus id", device.pci_info()).map(|pci| pci.bus_id),
        index: Some(index),
        model: answers.take("model", device.name()),
        memory_total: memory.and_then(|memory| Bytes::new(memory.total)),
        // A limit of nothing is none.
        power_limit: limit.filter(|limit| limit.get() > 0),
        board: Board {
            serial_number: answers.take("serial number", device.serial()),
            firmware_version: answers.take("VBIOS version", device.vbios_version()),
            driver_version,
            slowdown,
            shutdown,
        },
        name: uuid.clone(),
        uuid: Some(uuid),
    };
    let mig = device.mig_mode().is_ok_and(|mode| mode.current != 0);
    Ok(Found { identity, mig, untold: answers.missing })
}

/// What was asked, as far as there was no answer.
#[derive(Default)]
struct Answers {
    missing: Vec<Untold>,
}

impl Answers {
    /// An answer, where there is one.
    fn take<T>(&mut self, fact: &'static str, answer: Result<T, NvmlError>) -> Option<T> {
        answer.map_err(|source| self.missing.push(Untold { fact, source })).ok()
    }
}
