//! The identity, limits and properties of a GPU, queried at discovery.
//!
//! Missing properties stay unknown.

use std::collections::BTreeMap;

use nvml_wrapper::enum_wrappers::device::TemperatureThreshold;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Board, GpuIdentity, MIG_PROFILES};
use phasemeter_meter::units::{Bytes, Celsius, Milliwatts};
use phasemeter_meter::vendor::Vendor;

use super::{mig, nvlink};
use crate::live::{DiscoveredGpu, MissingProperty};

/// Queries the identity of the GPU with this index.
///
/// # Errors
/// Returns an error if there is no such GPU, or its UUID cannot be queried.
pub(super) fn identify(
    nvml: &Nvml,
    index: u32,
    driver_version: Option<String>,
) -> Result<DiscoveredGpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    let uuid = device.uuid()?;
    let mut properties = Properties::default();
    let memory = properties.get("memory size", device.memory_info());
    let power_limit = properties.get("power limit", power_limit(&device)).flatten();
    let mut threshold = |property, which| {
        let degrees = properties.get(property, device.temperature_threshold(which))?;
        Quantity::Temperature.admit(degrees).map(Celsius)
    };
    let slowdown = threshold("slowdown temperature", TemperatureThreshold::Slowdown);
    let shutdown = threshold("shutdown temperature", TemperatureThreshold::Shutdown);
    let identity = GpuIdentity {
        bus_id: properties.get("PCI bus ID", device.pci_info()).map(|pci| pci.bus_id),
        index: Some(index),
        vendor: Some(Vendor::Nvidia),
        model: properties.get("model", device.name()),
        is_model_assumed: false,
        memory_total: memory
            .and_then(|memory| Quantity::MemoryTotal.admit(memory.total))
            .and_then(Bytes::new),
        power_limit,
        board: Board {
            serial_number: properties.get("serial number", device.serial()),
            firmware_version: properties.get("VBIOS version", device.vbios_version()),
            driver_version,
            minor_number: device.minor_number().ok(),
            slowdown,
            shutdown,
        },
        name: uuid.clone(),
        uuid: Some(uuid),
        attributes: BTreeMap::new(),
    };
    let mut gpu = DiscoveredGpu {
        links: nvlink::remote_ends(&device),
        processes: Vec::new(),
        missing: properties.missing,
        identity,
    };
    if let Ok(mode) = device.mig_mode() {
        gpu.identity.set_mig_mode(mode.current != 0);
    }
    let is_mig = gpu.identity.is_in_mig_mode();
    let profiles = if is_mig { mig::profiles(&device) } else { Vec::new() };
    if !profiles.is_empty() {
        gpu.identity.attributes.insert(MIG_PROFILES.to_owned(), profiles.join(" "));
    }
    Ok(gpu)
}

/// The power limit in force; `None` if there is none.
///
/// # Errors
/// Returns an error if it cannot be queried.
pub(super) fn power_limit(device: &Device<'_>) -> Result<Option<Milliwatts>, NvmlError> {
    let limit = device.enforced_power_limit().or_else(|_| device.power_management_limit())?;
    Ok(Quantity::PowerLimit.admit(limit).and_then(Milliwatts::new))
}

/// Collects properties that cannot be queried.
#[derive(Default)]
struct Properties {
    missing: Vec<MissingProperty>,
}

impl Properties {
    /// The value of a query; `None` if it failed.
    fn get<T>(&mut self, property: &'static str, result: Result<T, NvmlError>) -> Option<T> {
        let missing = |error: NvmlError| MissingProperty { property, source: error.into() };
        result.map_err(|error| self.missing.push(missing(error))).ok()
    }
}
