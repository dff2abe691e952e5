//! The GPUs of a command: those that it selects, as they respond.
//!
//! Must not depend on what is done with them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::nvml::select::{SelectedBy, Selection, select};
use phasemeter_sources::nvml::{DiscoveredGpu, Discovery, Driver, GpuAnswer, Nvml, Search};
use tracing::{debug, info, warn};

use super::error::CommandError;
use super::live_error::LiveError;

/// How long a command waits for the driver and its GPUs, beside all else that it waits for, before it
/// starts without them. Healthy ones take a few tenths of a second, or seconds if no other process has
/// initialized them.
const START_TIMEOUT: Duration = Duration::from_millis(1_500);

/// The GPUs of a run. Those that respond late are found while it runs.
pub(super) struct GpuArrivals {
    /// `None` once all GPUs have answered, or the driver is unusable.
    search: Option<Search>,
    started: Instant,
    /// Values of `--gpu`.
    requested: Vec<String>,
    /// The indices of the GPUs to select from, once the driver has answered: those that do not fail
    /// then.
    listed: Option<Vec<u32>>,
    /// What is selected, for people.
    description: Option<String>,
    /// The indices of selected GPUs that have not been returned.
    awaited: BTreeSet<u32>,
    /// The indices of selected GPUs that were returned.
    arrived: BTreeSet<u32>,
    /// The indices of selected GPUs that have answered with an error.
    failed: BTreeSet<u32>,
}

/// A selected GPU that responds.
pub(super) struct ArrivedGpu {
    /// Its identity, with its UUID.
    pub(super) identity: GpuIdentity,
    /// The open driver.
    pub(super) nvml: Arc<Nvml>,
}

impl GpuArrivals {
    /// Searches for GPUs by `--gpu`, else by the environment.
    pub(super) fn start(requested: &[String]) -> Result<Self, LiveError> {
        Ok(Self {
            search: Some(Search::start(&Driver::installed())?),
            started: Instant::now(),
            requested: requested.to_vec(),
            listed: None,
            description: None,
            awaited: BTreeSet::new(),
            arrived: BTreeSet::new(),
            failed: BTreeSet::new(),
        })
    }

    /// The first of the selected GPUs: all that answer within a moment after the start.
    pub(super) fn wait(&mut self) -> Result<Vec<ArrivedGpu>, LiveError> {
        if let Some(search) = &mut self.search {
            search.wait(START_TIMEOUT.saturating_sub(self.started.elapsed()))?;
            if search.driver().is_none() {
                warn!("the NVIDIA driver does not respond; GPUs are unobserved until it does");
            }
        }
        self.poll()
    }

    /// The selected GPUs that have answered since the last call, without waiting. After an error there
    /// are no others.
    pub(super) fn poll(&mut self) -> Result<Vec<ArrivedGpu>, LiveError> {
        let Some(mut search) = self.search.take() else { return Ok(Vec::new()) };
        let has_news = search.wait(Duration::ZERO)? || self.listed.is_none();
        let arrived = if has_news { self.arrivals(&search)? } else { Vec::new() };
        self.search = Some(search).filter(|search| !search.is_complete());
        Ok(arrived)
    }

    /// What is metered, for people; `None` if the driver has not answered.
    pub(super) fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The selected GPUs that have not answered.
    pub(super) fn missing(&self) -> Vec<GpuIdentity> {
        self.awaited.iter().map(|index| unidentified(*index)).collect()
    }

    fn arrivals(&mut self, search: &Search) -> Result<Vec<ArrivedGpu>, LiveError> {
        let Some(driver) = search.driver() else { return Ok(Vec::new()) };
        let is_first = self.listed.is_none();
        let listed = self.listed.get_or_insert_with(|| working(search.gpus()));
        let identities = listed.iter().map(|index| match answer(search, *index) {
            Some(GpuAnswer::Found(found)) => found.identity.clone(),
            _ => unidentified(*index),
        });
        let all: Vec<_> = identities.collect();
        let selection = select(&self.requested, |name| std::env::var(name).ok(), &all)?;
        let selected = selection.gpus.iter().filter_map(|place| all.get(*place)?.index);
        self.awaited = selected.filter(|index| !self.arrived.contains(index)).collect();
        if is_first {
            selection.warnings.iter().for_each(|warning| warn!("{warning}"));
            let description = describe(&selection, &all);
            info!("{description}");
            self.description = Some(description);
        }
        let mut arrived = Vec::new();
        for index in self.awaited.clone() {
            match answer(search, index) {
                Some(GpuAnswer::Found(found)) => {
                    log_missing(found);
                    if !is_first {
                        info!(gpu = index, "GPU {index} responds; observed from now on");
                    }
                    let nvml = Arc::clone(&driver.nvml);
                    arrived.push(ArrivedGpu { identity: found.identity.clone(), nvml });
                    self.awaited.remove(&index);
                    self.arrived.insert(index);
                }
                Some(GpuAnswer::Failed(error)) if self.failed.insert(index) => {
                    warn!(gpu = index, "GPU {index} does not respond; it is unobserved: {error}");
                }
                Some(GpuAnswer::Waiting) if is_first => {
                    warn!(gpu = index, "GPU {index} does not respond; unobserved until it does");
                }
                Some(GpuAnswer::Waiting | GpuAnswer::Failed(_)) | None => {}
            }
        }
        Ok(arrived)
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
    let selection =
        select(requested, |name| std::env::var(name).ok(), &all).map_err(LiveError::from)?;
    for warning in &selection.warnings {
        warn!("{warning}");
    }
    let gpus = selection.gpus.iter().filter_map(|index| all.get(*index).cloned()).collect();
    Ok((selection, gpus))
}

fn answer(search: &Search, index: u32) -> Option<&GpuAnswer> {
    search.gpus().get(usize::try_from(index).ok()?)
}

/// The indices of all GPUs but those that failed, which are logged.
fn working(gpus: &[GpuAnswer]) -> Vec<u32> {
    let mut working = Vec::new();
    for (index, gpu) in (0..).zip(gpus) {
        match gpu {
            GpuAnswer::Failed(error) => {
                warn!(gpu = index, "GPU {index} does not respond; it is not metered: {error}");
            }
            GpuAnswer::Found(_) | GpuAnswer::Waiting => working.push(index),
        }
    }
    working
}

/// Logs the properties that a GPU lacks, as many do.
fn log_missing(gpu: &DiscoveredGpu) {
    let GpuIdentity { name, index, .. } = &gpu.identity;
    for missing in &gpu.missing {
        debug!(gpu = index, "{name}: {missing}: {}", missing.source);
    }
}

/// A GPU that has not answered: only its index is known.
fn unidentified(index: u32) -> GpuIdentity {
    GpuIdentity { name: index.to_string(), index: Some(index), ..GpuIdentity::default() }
}

/// The metered GPUs and how they were selected.
fn describe(selection: &Selection, all: &[GpuIdentity]) -> String {
    let by = match selection.by {
        SelectedBy::Driver => return format!("metering all {} GPUs", all.len()),
        SelectedBy::Option => "--gpu",
        SelectedBy::Variable(variable) => variable,
    };
    let indices = selection.gpus.iter().filter_map(|place| all.get(*place)?.index);
    let indices: Vec<_> = indices.map(|index| index.to_string()).collect();
    let (count, all) = (indices.len(), all.len());
    format!("metering {count} of {all} GPUs, selected by {by}: {}", indices.join(", "))
}
