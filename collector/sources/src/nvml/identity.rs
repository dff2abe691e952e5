//! Who a GPU is, and what it has and may do: asked once, when it is found.
//!
//! What it does not tell stays unknown. This room must not know of readings.

use nvml_wrapper::Nvml;
use nvml_wrapper::enum_wrappers::device::TemperatureThreshold;
use nvml_wrapper::error::NvmlError;
use phasemeter_meter::reading::{Board, GpuIdentity};
use phasemeter_meter::units::{Bytes, Celsius, Milliwatts};

use super::{DiscoveredGpu, MissingProperty};

/// Asks the GPU of this index for its name, and for all that goes with it.
///
/// # Errors
/// Where there is no such GPU, or it does not even tell its uuid.
pub(super) fn identify(
    nvml: &Nvml,
    index: u32,
    driver_version: Option<String>,
) -> Result<DiscoveredGpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let uuid = device.uuid()?;
    let mut properties = Properties::default();
    let memory = properties.get("size of its memory", device.memory_info());
    let limit = device.enforced_power_limit().or_else(|_| device.power_management_limit());
    let limit = properties.get("power limit", limit).and_then(Milliwatts::new);
    let mut threshold = |property, which| {
        let degrees = properties.get(property, device.temperature_threshold(which))?;
        i16::try_from(degrees).ok().map(Celsius)
    };
    let slowdown = threshold("slowdown temperature", TemperatureThreshold::Slowdown);
    let shutdown = threshold("shutdown temperature", TemperatureThreshold::Shutdown);
    let identity = GpuIdentity {
        bus_id: properties.get("bus id", device.pci_info()).map(|pci| pci.bus_id),
        index: Some(index),
        model: properties.get("model", device.name()),
        memory_total: memory.and_then(|memory| Bytes::new(memory.total)),
        // A limit of nothing is none.
        power_limit: limit.filter(|limit| limit.get() > 0),
        board: Board {
            serial_number: properties.get("serial number", device.serial()),
            firmware_version: properties.get("VBIOS version", device.vbios_version()),
            driver_version,
            slowdown,
            shutdown,
        },
        name: uuid.clone(),
        uuid: Some(uuid),
    };
    let mig = device.mig_mode().is_ok_and(|mode| mode.current != 0);
    Ok(DiscoveredGpu { identity, mig, missing: properties.missing })
}

/// What was asked, as far as there was no result.
#[derive(Default)]
struct Properties {
    missing: Vec<MissingProperty>,
}

impl Properties {
    /// An result, where there is one.
    fn get<T>(&mut self, property: &'static str, result: Result<T, NvmlError>) -> Option<T> {
        result.map_err(|source| self.missing.push(MissingProperty { property, source })).ok()
    }
}
