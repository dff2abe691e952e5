//! Device enumeration and fixed properties.

use nvml_wrapper_sys::bindings::{
    NVML_BUS_TYPE_PCIE, nvmlBrandType_enum_NVML_BRAND_NVIDIA, nvmlDevice_t,
    nvmlEnableState_enum_NVML_FEATURE_DISABLED, nvmlEnableState_enum_NVML_FEATURE_ENABLED,
    nvmlPciInfo_t, nvmlReturn_t,
};

use super::call::{code, device_functions, find_device, instance_functions, system_functions};
use super::raw::{Buffer, Out, Text, put};
use super::session::Session;
use crate::device::{BusId, Device};
use crate::error_code::ErrorCode;
use crate::fault;

/// The switch at the other end of all links.
const SWITCH: BusId = BusId { domain: 0, bus: 0xC0, device: 0 };

/// Writes the handle of the matching device, or returns `absent` if there is none.
fn write_handle(
    function: &str,
    out: Out<'_, nvmlDevice_t>,
    absent: ErrorCode,
    wanted: impl Fn(usize, &Device) -> bool,
) -> nvmlReturn_t {
    let found = find_device(function, wanted);
    let found = found.map_err(|code| if code == ErrorCode::NotFound { absent } else { code });
    code(found.and_then(|handle| put(out, handle)))
}

fn by_index(function: &str, wanted: u32, out: Out<'_, nvmlDevice_t>) -> nvmlReturn_t {
    let is_wanted = |index, _: &Device| u32::try_from(index) == Ok(wanted);
    write_handle(function, out, ErrorCode::InvalidArgument, is_wanted)
}

fn by_text(
    function: &str,
    text: &Text,
    out: Out<'_, nvmlDevice_t>,
    is: impl Fn(&Device, &str) -> bool,
) -> nvmlReturn_t {
    match text.get() {
        Ok(text) => write_handle(function, out, ErrorCode::NotFound, |_, device| is(device, text)),
        Err(error) => error.code(),
    }
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex(i: u32, device: Out<'_, nvmlDevice_t>) -> nvmlReturn_t {
    by_index("nvmlDeviceGetHandleByIndex", i, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByIndex_v2(i: u32, device: Out<'_, nvmlDevice_t>) -> nvmlReturn_t {
    by_index("nvmlDeviceGetHandleByIndex_v2", i, device)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByUUID(uuid: Text, out: Out<'_, nvmlDevice_t>) -> nvmlReturn_t {
    by_text("nvmlDeviceGetHandleByUUID", &uuid, out, |device, text| device.identity.uuid == text)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleBySerial(
    serial: Text,
    out: Out<'_, nvmlDevice_t>,
) -> nvmlReturn_t {
    let is = |device: &Device, text: &str| device.identity.serial == text;
    by_text("nvmlDeviceGetHandleBySerial", &serial, out, is)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId(bus: Text, out: Out<'_, nvmlDevice_t>) -> nvmlReturn_t {
    by_text("nvmlDeviceGetHandleByPciBusId", &bus, out, is_at)
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    bus: Text,
    out: Out<'_, nvmlDevice_t>,
) -> nvmlReturn_t {
    by_text("nvmlDeviceGetHandleByPciBusId_v2", &bus, out, is_at)
}

fn is_at(device: &Device, text: &str) -> bool {
    BusId::parse(text) == Some(device.identity.bus)
}

system_functions! {
    fn nvmlDeviceGetCount(session, count: Out<'_, u32>)
        put(count, listed_count(session, "nvmlDeviceGetCount"));
    fn nvmlDeviceGetCount_v2(session, count: Out<'_, u32>)
        put(count, listed_count(session, "nvmlDeviceGetCount_v2"));
}

device_functions! {
    fn nvmlDeviceGetSerial(call, serial: Buffer, length: u32)
        serial.put(length, &call.device.identity.serial);
    fn nvmlDeviceGetVbiosVersion(call, version: Buffer, length: u32)
        version.put(length, &call.device.identity.vbios);
    fn nvmlDeviceGetIndex(call, index: Out<'_, u32>) put(index, number(call.listed_index()));
    fn nvmlDeviceGetMinorNumber(call, minor: Out<'_, u32>) put(minor, number(call.listed_index()));
    fn nvmlDeviceGetBrand(_call, brand: Out<'_, u32>)
        put(brand, nvmlBrandType_enum_NVML_BRAND_NVIDIA);
    fn nvmlDeviceGetArchitecture(call, architecture: Out<'_, u32>)
        put(architecture, call.device.identity.architecture.nvml());
    fn nvmlDeviceGetBusType(_call, kind: Out<'_, u32>) put(kind, NVML_BUS_TYPE_PCIE);

    fn nvmlDeviceGetCudaComputeCapability(call, major: Out<'_, i32>, minor: Out<'_, i32>) {
        let (a, b) = call.device.identity.architecture.compute_capability();
        put(major, a)?;
        put(minor, b)
    };

    fn nvmlDeviceGetPciInfo(call, pci: Out<'_, nvmlPciInfo_t>)
        put(pci, pci_info(call.device.identity.bus));
    fn nvmlDeviceGetPciInfo_v2(call, pci: Out<'_, nvmlPciInfo_t>)
        put(pci, pci_info(call.device.identity.bus));
    fn nvmlDeviceGetPciInfo_v3(call, pci: Out<'_, nvmlPciInfo_t>)
        put(pci, pci_info(call.device.identity.bus));

    fn nvmlDeviceGetNvLinkRemotePciInfo_v2(call, link: u32, pci: Out<'_, nvmlPciInfo_t>) {
        let identity = &call.device.identity;
        if link >= identity.nvlinks {
            return Err(ErrorCode::InvalidArgument);
        }
        let end = match identity.nvlink_peer {
            Some(peer) => call.session.model.devices.get(peer).ok_or(ErrorCode::NotFound)?.identity.bus,
            None => SWITCH,
        };
        put(pci, pci_info(end))
    };

    fn nvmlDeviceGetMigMode(call, current: Out<'_, u32>, pending: Out<'_, u32>) {
        let mode = u32::from(call.is_in_mig_mode());
        put(current, mode)?;
        put(pending, mode)
    };

    fn nvmlDeviceGetPersistenceMode(_call, mode: Out<'_, u32>)
        put(mode, nvmlEnableState_enum_NVML_FEATURE_ENABLED);
    fn nvmlDeviceGetDisplayMode(_call, mode: Out<'_, u32>)
        put(mode, nvmlEnableState_enum_NVML_FEATURE_DISABLED);
    fn nvmlDeviceGetDisplayActive(_call, mode: Out<'_, u32>)
        put(mode, nvmlEnableState_enum_NVML_FEATURE_DISABLED);
    fn nvmlDeviceGetComputeMode(_call, mode: Out<'_, u32>) put(mode, 0);
}

instance_functions! {
    fn nvmlDeviceGetName(call, name: Buffer, length: u32) {
        let own = &call.device.identity.name;
        match call.instance {
            Some(instance) => name.put(length, &format!("{own} MIG {}", instance.profile)),
            None => name.put(length, own),
        }
    };

    fn nvmlDeviceGetUUID(call, uuid: Buffer, length: u32) {
        let own = call.instance.map_or(&call.device.identity.uuid, |instance| &instance.uuid);
        uuid.put(length, own)
    };
}

/// The number of devices, or the wrong one of a fault.
fn listed_count(session: &Session, function: &str) -> u32 {
    let now = session.now();
    let wrong = fault::count(&session.model.faults, function, None, now);
    wrong.unwrap_or_else(|| number(session.model.listed(now).count()))
}

/// A device's PCI address: its parts and its text in the current and the legacy form.
fn pci_info(bus: BusId) -> nvmlPciInfo_t {
    let text = bus.to_string();
    // The legacy form has a four-digit domain.
    let legacy = text.get(4..).unwrap_or(&text);
    nvmlPciInfo_t {
        busIdLegacy: characters(legacy),
        domain: bus.domain,
        bus: u32::from(bus.bus),
        device: u32::from(bus.device),
        // NVIDIA's vendor ID, without a device ID.
        pciDeviceId: 0x10DE,
        pciSubSystemId: 0x10DE,
        busId: characters(&text),
    }
}

/// Copies text into a zero-terminated field of `N` characters.
fn characters<const N: usize>(text: &str) -> [std::ffi::c_char; N] {
    let mut field = [0; N];
    for (to, from) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *to = std::ffi::c_char::from_ne_bytes([from]);
    }
    field
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
