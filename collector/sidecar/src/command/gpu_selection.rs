//! Which GPUs a command meters: what its user names, else what belongs to this process.

use std::path::Path;

use phasemeter_environment::detectors::Container;
use phasemeter_environment::own_gpus::OwnGpus;
use phasemeter_files::read_text;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::live::select::{Selection, select};
use phasemeter_sources::live::{DiscoveredGpu, Discovery, GpuAnswer, ListedGpu, Search};
use tracing::{debug, warn};

use super::error::CommandError;
use super::live_error::LiveError;
use phasemeter_cli::MachineArgs;

/// The variable that counts without `--gpu`.
const VARIABLE: &str = "PHASEMETER_GPU";

/// Maximum size of a file that names GPUs.
const MAX_BYTES: u64 = 1 << 16;

/// Selects GPUs repeatedly, since evidence may arrive later.
pub(super) struct GpuSelection {
    /// Values of `--gpu`.
    requested: Vec<String>,
    pub(super) own: OwnGpus,
}

impl GpuSelection {
    /// Selects by `--gpu`, else by a variable, else what belongs to this process.
    pub(super) fn of_run(args: &MachineArgs, container: Container) -> Self {
        let requested = requested_or_set(&args.gpus);
        let own = OwnGpus::watch(container, args.procfs.as_deref(), !requested.is_empty());
        Self { requested, own }
    }

    /// Selects by `--gpu`, else by a variable, else all GPUs of the machine.
    pub(super) fn of_node(args: &MachineArgs) -> Self {
        Self { requested: requested_or_set(&args.gpus), own: OwnGpus::of_machine() }
    }

    /// Selects among the GPUs of a search, which are listed like this.
    pub(super) fn select(
        &self,
        search: &Search,
        listed: &[ListedGpu],
    ) -> Result<Selection, LiveError> {
        // One that is missing may have a process that tells whose IDs the driver has.
        let answers = if search.is_complete() { search.gpus() } else { &[] };
        let processes =
            listed.iter().map(|gpu| match gpu.place.and_then(|place| answers.get(place)) {
                Some(GpuAnswer::Found(found)) => found.processes.as_slice(),
                Some(GpuAnswer::Waiting | GpuAnswer::Failed(_)) | None => &[],
            });
        let is_own_only = search.driver().is_some_and(|driver| driver.open.lists_own_only());
        let evidence = self.own.evidence(processes, is_own_only);
        let gpus: Vec<_> = listed.iter().map(|gpu| gpu.identity.clone()).collect();
        Ok(select(&names(&self.requested)?, self.own.variables(), &evidence, &gpus)?)
    }
}

/// Selects GPUs among those that have answered; returns their indexes in the discovery and their
/// identities. Logs warnings.
pub(super) fn choose(
    requested: &[String],
    discovery: &Discovery,
) -> Result<(Selection, Vec<GpuIdentity>), CommandError> {
    for gpu in &discovery.unresponsive {
        warn!("{gpu}: {}", gpu.source);
    }
    discovery.gpus.iter().for_each(log_missing);
    let all: Vec<_> = discovery.gpus.iter().map(|found| found.identity.clone()).collect();
    let own = OwnGpus::of_machine();
    let evidence = own.evidence(std::iter::empty(), false);
    let requested = names(&requested_or_set(requested))?;
    let selection =
        select(&requested, own.variables(), &evidence, &all).map_err(LiveError::from)?;
    for warning in &selection.warnings {
        warn!("{warning}");
    }
    let gpus = selection.gpus.iter().filter_map(|index| all.get(*index).cloned()).collect();
    Ok((selection, gpus))
}

/// Logs the properties that a GPU lacks, as many do.
pub(super) fn log_missing(gpu: &DiscoveredGpu) {
    let GpuIdentity { name, index, .. } = &gpu.identity;
    for missing in &gpu.missing {
        debug!(gpu = index, "{name}: {missing}: {}", missing.source);
    }
}

/// The values of the option, else of the variable.
fn requested_or_set(requested: &[String]) -> Vec<String> {
    if !requested.is_empty() {
        return requested.to_vec();
    }
    let value = std::env::var(VARIABLE).unwrap_or_default();
    value.split(',').filter(|name| !name.trim().is_empty()).map(str::to_owned).collect()
}

/// The names of GPUs, with those in a file in place of its path: another container may write it.
fn names(requested: &[String]) -> Result<Vec<String>, LiveError> {
    let mut names = Vec::new();
    for name in requested {
        if !name.starts_with('/') {
            names.push(name.clone());
            continue;
        }
        let text = read_text(Path::new(name), MAX_BYTES)
            .map_err(|source| LiveError::GpuFile { path: name.into(), source })?;
        let is_separator = |it: char| it == ',' || it.is_whitespace();
        let in_file: Vec<_> =
            text.split(is_separator).filter(|it| !it.is_empty()).map(str::to_owned).collect();
        if in_file.is_empty() {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            return Err(LiveError::GpuFile { path: name.into(), source });
        }
        names.extend(in_file);
    }
    Ok(names)
}
