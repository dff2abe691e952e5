//! Which GPUs of this machine a command is about.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::nvml::Discovery;
use phasemeter_sources::nvml::select::{Selection, select};
use tracing::{debug, warn};

use super::Failure;

/// The GPUs that are chosen, as places in the discovery and by who they are. `asked` is what
/// `--gpu` names; where that is nothing, the environment chooses. What the user should know of it
/// is said.
pub(super) fn choose(
    asked: &[String],
    discovery: &Discovery,
) -> Result<(Selection, Vec<GpuIdentity>), Failure> {
    for silent in &discovery.silent {
        warn!("{silent}: {}", silent.source);
    }
    // What a GPU does not have is no news to its owner.
    for gpu in &discovery.gpus {
        let GpuIdentity { name, index, .. } = &gpu.identity;
        for untold in &gpu.untold {
            debug!(gpu = index, "{name}: {untold}: {}", untold.source);
        }
    }
    let all: Vec<_> = discovery.gpus.iter().map(|found| found.identity.clone()).collect();
    let selection = select(asked, |name| std::env::var(name).ok(), &all)?;
    for warning in &selection.warnings {
        warn!("{warning}");
    }
    let gpus = selection.gpus.iter().filter_map(|place| all.get(*place).cloned()).collect();
    Ok((selection, gpus))
}
