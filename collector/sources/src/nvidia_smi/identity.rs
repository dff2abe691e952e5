//! Compares and merges GPU identities.

use phasemeter_meter::reading::GpuIdentity;

/// Whether both are the same GPU, by the most reliable ID that both have: UUID, then PCI bus ID,
/// then index. False if they share none.
pub(super) fn same_gpu(a: &GpuIdentity, b: &GpuIdentity) -> bool {
    agree(&a.uuid, &b.uuid)
        .or_else(|| agree(&a.bus_id, &b.bus_id))
        .or_else(|| agree(&a.index, &b.index))
        .unwrap_or(false)
}

/// Whether both may have the same model.
pub(super) fn same_model(a: &GpuIdentity, b: &GpuIdentity) -> bool {
    agree(&a.model, &b.model).unwrap_or(true)
}

/// Fills in values that only `other` has; returns whether there were any.
pub(super) fn merge(known: &mut GpuIdentity, other: &GpuIdentity) -> bool {
    let added = [
        fill(&mut known.uuid, &other.uuid),
        fill(&mut known.bus_id, &other.bus_id),
        fill(&mut known.index, &other.index),
        fill(&mut known.model, &other.model),
        fill(&mut known.memory_total, &other.memory_total),
        fill(&mut known.power_limit, &other.power_limit),
    ];
    added.contains(&true)
}

fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<bool> {
    Some(a.as_ref()? == b.as_ref()?)
}

fn fill<T: Clone>(known: &mut Option<T>, other: &Option<T>) -> bool {
    let added = known.is_none() && other.is_some();
    if added {
        known.clone_from(other);
    }
    added
}
