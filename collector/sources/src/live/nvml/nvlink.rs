//! NVLink: traffic and errors of a GPU's links, read in one call (`nvmlDeviceGetFieldValues`), and the GPUs
//! at their other ends.

use std::collections::BTreeSet;

use nvml_wrapper::Device;
use nvml_wrapper::structs::device::FieldId;
use phasemeter_meter::device_metric::{Component, DeviceValue};
use phasemeter_meter::quantity::Quantity;
use phasemeter_nvml_calls::{ScopedField, field_values};

use super::value::supported;
use crate::live::QueryError;

/// The number of links.
const LINK_COUNT: FieldId = FieldId(91);

/// One counter of a link.
#[derive(Clone, Copy)]
struct LinkField {
    /// `NVML_FI_DEV_NVLINK_…`; its scope is the link.
    id: u32,
    quantity: Quantity,
    /// The counter's unit in the field's.
    unit: u64,
}

/// The counters of a link. Traffic is in KiB. From Blackwell on, the last field replaces those of
/// errors.
const FIELDS: [LinkField; 6] = [
    LinkField { id: 138, quantity: Quantity::NvlinkTransmitted, unit: 1_024 },
    LinkField { id: 139, quantity: Quantity::NvlinkReceived, unit: 1_024 },
    LinkField { id: 161, quantity: Quantity::LinkReplays, unit: 1 },
    LinkField { id: 163, quantity: Quantity::LinkCrcErrors, unit: 1 },
    LinkField { id: 162, quantity: Quantity::LinkRecoveries, unit: 1 },
    LinkField { id: 215, quantity: Quantity::LinkRecoveries, unit: 1 },
];

/// Emits the counters of every link. A GPU without links emits nothing.
///
/// # Errors
/// Returns an error if a call fails, or no counter is supported.
pub(super) fn query(
    device: &Device<'_>,
    mut emit: impl FnMut(Component, Quantity, DeviceValue),
) -> Result<(), QueryError> {
    let links = link_count(device)?;
    if links == 0 {
        return Ok(());
    }
    let fields = || (0..links).flat_map(|link| FIELDS.map(|field| (link, field)));
    let scoped: Vec<_> = fields()
        .map(|(link, field)| ScopedField { id: field.id, scope: u32::from(link) })
        .collect();
    let mut values = supported(fields(), field_values(device, &scoped)?)?;
    values.dedup_by_key(|((link, field), _)| (*link, field.quantity));
    for ((link, LinkField { quantity, unit, .. }), value) in values {
        emit(Component::NvLink(link), quantity, DeviceValue::Total(value.saturating_mul(unit)));
    }
    Ok(())
}

/// PCI bus IDs at the other ends of a GPU's links: of GPUs, or of switches.
pub(super) fn remote_ends(device: &Device<'_>) -> BTreeSet<String> {
    let links = u32::from(link_count(device).unwrap_or(0));
    let end = |link| Some(device.link_wrapper_for(link).remote_pci_info().ok()?.bus_id);
    (0..links).filter_map(end).collect()
}

fn link_count(device: &Device<'_>) -> Result<u8, QueryError> {
    let results = device.field_values_for(&[LINK_COUNT])?.into_iter();
    let results = results.map(|result| result.and_then(|result| result.value));
    let count = supported([()], results)?.first().map_or(0, |(_, count)| *count);
    Ok(u8::try_from(count).unwrap_or(u8::MAX))
}
