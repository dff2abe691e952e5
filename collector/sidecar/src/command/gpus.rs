//! Selects the GPUs of a command.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::nvml::Discovery;
use phasemeter_sources::nvml::select::{Selection, select};
use tracing::{debug, warn};

use super::error::CommandError;
use super::live_error::LiveError;

/// Selects GPUs by `--gpu`, else by the environment; returns their indexes in the discovery and
/// their identities. Logs warnings.
pub(super) fn choose(
    requested: &[String],
    discovery: &Discovery,
) -> Result<(Selection, Vec<GpuIdentity>), CommandError> {
    for gpu in &discovery.unresponsive {
        warn!("{gpu}: {}", gpu.source);
    }
    // Missing properties are expected on many GPUs.
    for gpu in &discovery.gpus {
        let GpuIdentity { name, index, .. } = &gpu.identity;
        for missing in &gpu.missing {
            debug!(gpu = index, "{name}: {missing}: {}", missing.source);
        }
    }
    let all: Vec<_> = discovery.gpus.iter().map(|found| found.identity.clone()).collect();
    let selection =
        select(requested, |name| std::env::var(name).ok(), &all).map_err(LiveError::from)?;
    for warning in &selection.warnings {
        warn!("{warning}");
    }
    let gpus = selection.gpus.iter().filter_map(|index| all.get(*index).cloned()).collect();
    Ok((selection, gpus))
}
