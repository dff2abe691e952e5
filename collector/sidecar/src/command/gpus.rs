//! The GPUs of a command: those that it selects, as they respond and as the driver lists them.
//!
//! The driver is searched again and again, less and less often while nothing changes: a GPU may respond
//! late, be replaced, or be added.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_engine::pricing::{GpuOfModel, Pricing};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::select::{SelectError, SelectedBy, Selection};
use phasemeter_sources::live::{
    Driver, DriverError, GpuAnswer, KnownGpus, ListedGpu, OpenDriver, Search, unidentified,
};
use tracing::{info, warn};

use super::error::CommandError;
use super::gpu_selection::{GpuSelection, log_missing};
use super::live_error::LiveError;

/// How long a command waits for the driver and its GPUs, beside all else that it waits for, before it
/// starts without them. Healthy ones take a few tenths of a second, or seconds if no other process has
/// initialized them.
const START_TIMEOUT: Duration = Duration::from_millis(1_500);

/// How long the start waits if every selected GPU is required: the first start of a driver on a large
/// machine takes a few seconds.
const REQUIRED_TIMEOUT: Duration = Duration::from_secs(30);

/// The delay of the next search after one that found a GPU. It doubles after each that did not.
const REPEAT_FIRST: Duration = Duration::from_secs(5);

/// The maximum delay between searches, which ask every GPU for its identity under the driver's lock.
const REPEAT_MAX: Duration = Duration::from_secs(300);

/// The same while the pod's GPUs are unknown: a process may soon identify them.
const UNDECIDED_MAX: Duration = Duration::from_secs(30);

/// The GPUs of a run. Those that respond late, or are listed late, are found while it runs.
pub(super) struct GpuArrivals {
    driver: Arc<dyn Driver>,
    /// `None` if all GPUs have answered, or the driver is unusable.
    search: Option<Search>,
    started: Instant,
    /// When the next search begins, and the delay after it.
    next: Instant,
    delay: Duration,
    selection: GpuSelection,
    /// Whether the run goes on if there are none.
    is_optional: bool,
    /// What is selected, for people, or why nothing is; `None` until the driver has answered.
    description: Option<String>,
    /// Why the last search failed, if it did.
    failure: Option<String>,
    /// The GPUs that were listed so far. All indices are theirs.
    known: KnownGpus,
    /// The indices of GPUs that belong to the run from its start, and have not been returned: those that
    /// the first listing has, and those that the user names.
    awaited: BTreeSet<u32>,
    /// The UUIDs of the GPUs that were returned, by index: the last one of each.
    arrived: BTreeMap<u32, String>,
    /// The UUIDs of all that were returned.
    returned: BTreeSet<String>,
    /// The indices of selected GPUs about which a warning was logged, since they answered with an error or
    /// with the UUID of another one.
    failed: BTreeSet<u32>,
}

/// A selected GPU that responds.
pub(super) struct ArrivedGpu {
    /// Its identity, with its UUID.
    pub(super) identity: GpuIdentity,
    /// The open driver.
    pub(super) driver: Arc<dyn OpenDriver>,
    /// From when on it is billed.
    pub(super) billed_from: BilledFrom,
}

/// From when on a GPU is billed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BilledFrom {
    /// From the start of the run: it was listed then, or the user names it.
    Start,
    /// From now on: the driver has not listed it before.
    Now,
}

impl GpuArrivals {
    /// Searches for the selected GPUs. If they are optional, whatever fails is a warning, and no error is returned,
    /// here and below.
    pub(super) fn start(
        driver: Arc<dyn Driver>,
        selection: GpuSelection,
        is_optional: bool,
    ) -> Result<Self, LiveError> {
        let started = Instant::now();
        let mut arrivals = Self {
            driver,
            search: None,
            started,
            next: started,
            delay: REPEAT_FIRST,
            selection,
            is_optional,
            description: None,
            failure: None,
            known: KnownGpus::default(),
            awaited: BTreeSet::new(),
            arrived: BTreeMap::new(),
            returned: BTreeSet::new(),
            failed: BTreeSet::new(),
        };
        arrivals.search()?;
        Ok(arrivals)
    }

    /// The first of the selected GPUs: all that answer within a moment after the start.
    pub(super) fn wait(&mut self) -> Result<Vec<ArrivedGpu>, LiveError> {
        self.selection.own.wait(START_TIMEOUT.saturating_sub(self.started.elapsed()));
        let arrived = self.take(START_TIMEOUT.saturating_sub(self.started.elapsed()))?;
        if self.search.as_ref().is_some_and(|search| search.driver().is_none()) {
            let vendor = self.driver.names().vendor;
            warn!("the {vendor} driver does not respond; GPUs are unobserved until it does");
        }
        Ok(arrived)
    }

    /// All selected GPUs; an error if one does not answer.
    pub(super) fn wait_for_all(&mut self) -> Result<Vec<ArrivedGpu>, LiveError> {
        self.selection.own.wait(REQUIRED_TIMEOUT.saturating_sub(self.started.elapsed()));
        let arrived = self.take(REQUIRED_TIMEOUT.saturating_sub(self.started.elapsed()))?;
        match self.awaited.first() {
            Some(gpu) => {
                let list_command = self.driver.names().list_command;
                Err(LiveError::Required { gpu: *gpu, list_command })
            }
            None if arrived.is_empty() => {
                let error = self.search.take().map(Search::into_error);
                let driver = self.driver.names();
                Err(error.unwrap_or(DriverError::NoGpus { driver, unresponsive: None }).into())
            }
            None => Ok(arrived),
        }
    }

    /// The selected GPUs that have answered since the last call, without waiting.
    pub(super) fn poll(&mut self) -> Result<Vec<ArrivedGpu>, LiveError> {
        if self.selection.own.has_changed() {
            (self.next, self.delay) = (Instant::now(), REPEAT_FIRST);
        }
        if self.search.is_none() && Instant::now() >= self.next {
            self.search()?;
        }
        self.take(Duration::ZERO)
    }

    /// Begins a search, and plans the next one.
    fn search(&mut self) -> Result<(), LiveError> {
        self.next = Instant::now() + self.delay;
        self.delay = (self.delay * 2).min(REPEAT_MAX);
        match Search::start(&self.driver) {
            Ok(search) => self.search = Some(search),
            Err(error) => self.fail(error.into())?,
        }
        Ok(())
    }

    fn take(&mut self, at_most: Duration) -> Result<Vec<ArrivedGpu>, LiveError> {
        let Some(mut search) = self.search.take() else { return Ok(Vec::new()) };
        let has_news = match search.wait(at_most) {
            Ok(answered) => answered || self.description.is_none(),
            Err(error) => return self.fail(error.into()).map(|()| Vec::new()),
        };
        // GPUs that exist are unobserved, unless there must be one that is not.
        let is_useless = search.is_complete() && !search.has_found();
        let is_agent = search.driver().is_some_and(|driver| driver.open.lists_own_only());
        if is_agent && is_useless && search.gpus().is_empty() {
            self.delay = self.delay.min(UNDECIDED_MAX);
            return self.fail(LiveError::NotHeld).map(|()| Vec::new());
        }
        if is_useless && (!self.is_optional || search.gpus().is_empty()) {
            return self.fail(search.into_error().into()).map(|()| Vec::new());
        }
        let arrived = if has_news { self.arrivals(&search) } else { Ok(Vec::new()) };
        match arrived {
            Ok(arrived) => {
                if !arrived.is_empty() {
                    self.delay = REPEAT_FIRST;
                    self.next = self.next.min(Instant::now() + REPEAT_FIRST);
                }
                self.search = Some(search).filter(|search| !search.is_complete());
                Ok(arrived)
            }
            Err(LiveError::Select(SelectError::Undecided)) if !search.is_complete() => {
                // Processes on the GPUs that have not answered may tell.
                self.search = Some(search);
                Ok(Vec::new())
            }
            Err(error) => {
                if matches!(error, LiveError::Select(SelectError::Undecided)) {
                    self.delay = self.delay.min(UNDECIDED_MAX);
                }
                self.fail(error).map(|()| Vec::new())
            }
        }
    }

    /// Ends the search. Only the first one may end the run.
    fn fail(&mut self, error: LiveError) -> Result<(), LiveError> {
        if !self.is_optional && self.description.is_none() {
            return Err(error);
        }
        let reason = CommandError::from(error).in_one_line();
        if self.failure.as_ref() != Some(&reason) {
            let which = if self.arrived.is_empty() { "no GPU" } else { "no other GPU" };
            warn!("{which} is metered: {reason}");
            if self.arrived.is_empty() {
                self.description = Some(format!("no GPU was metered: {reason}"));
            }
            self.failure = Some(reason);
        }
        Ok(())
    }

    /// Whether the last search has found no GPU to meter.
    pub(super) const fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// What is metered, for people.
    pub(super) fn description(&self) -> String {
        self.description.clone().unwrap_or_else(|| {
            format!("no GPU was metered: the {} driver did not respond", self.driver.names().vendor)
        })
    }

    /// The selected GPUs that have not answered, or with an error.
    pub(super) fn missing(&self) -> Vec<GpuIdentity> {
        self.awaited.iter().map(|index| unidentified(*index)).collect()
    }

    fn arrivals(&mut self, search: &Search) -> Result<Vec<ArrivedGpu>, LiveError> {
        let Some(initialized) = search.driver() else { return Ok(Vec::new()) };
        let is_first = self.description.is_none();
        let all = self.known.list(search.gpus()).to_vec();
        let selection = self.selection.select(search, &all)?;
        let selected = selection.gpus.iter().filter_map(|gpu| all.get(*gpu));
        let selected: Vec<_> =
            selected.filter_map(|gpu| Some((gpu, gpu.identity.index?))).collect();
        if is_first || selection.by != SelectedBy::Driver {
            let indices = selected.iter().map(|(_, index)| index);
            let new = indices.filter(|index| !self.arrived.contains_key(index));
            self.awaited.extend(new);
        }
        if is_first {
            selection.warnings.iter().for_each(|warning| warn!("{warning}"));
        }
        let description = self.describe(&selection, all.len());
        let is_other =
            selection.by != SelectedBy::Driver && self.description.as_ref() != Some(&description);
        // While GPUs answer one by one, those that are named may be none of them yet.
        let is_known = is_first || !(selection.is_partial && selection.gpus.is_empty());
        if is_known && (is_first || is_other || self.failure.is_some()) {
            info!("{description}");
            (self.description, self.failure) = (Some(description), None);
        }
        let mut arrived = Vec::new();
        for (ListedGpu { identity, place }, index) in selected {
            match place.and_then(|place| search.gpus().get(place)) {
                Some(GpuAnswer::Found(found)) => {
                    let Some(billed_from) = self.arrive(index, identity, &all, is_first) else {
                        continue;
                    };
                    log_missing(found);
                    let (identity, driver) = (identity.clone(), Arc::clone(&initialized.open));
                    arrived.push(ArrivedGpu { identity, driver, billed_from });
                }
                Some(GpuAnswer::Failed(error)) if self.is_new_failure(index) => {
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

    /// The metered GPUs, of those of the driver, and what decided.
    fn describe(&self, selection: &Selection, all: usize) -> String {
        if selection.by == SelectedBy::Driver {
            return format!("metering all {all} GPUs");
        }
        let indices: BTreeSet<_> = self.awaited.iter().chain(self.arrived.keys()).collect();
        let (count, by) = (indices.len(), selection.by);
        let indices: Vec<_> = indices.into_iter().map(u32::to_string).collect();
        format!("metering {count} of {all} GPUs, {by}: {}", indices.join(", "))
    }

    /// Notes a GPU that has answered; `None` if it is not a new one.
    fn arrive(
        &mut self,
        index: u32,
        gpu: &GpuIdentity,
        all: &[ListedGpu],
        is_first: bool,
    ) -> Option<BilledFrom> {
        let uuid = gpu.uuid.as_ref()?;
        let first = all.iter().find(|it| it.identity.uuid.as_ref() == Some(uuid));
        if let Some(other) =
            first.and_then(|first| first.identity.index).filter(|first| *first != index)
        {
            if self.is_new_failure(index) {
                warn!(
                    gpu = index,
                    "GPU {index} has the UUID of GPU {other}; it is unobserved, since the driver finds \
                     GPUs by UUID"
                );
            }
            return None;
        }
        let before = self.arrived.insert(index, uuid.clone());
        let is_awaited = self.awaited.remove(&index);
        if !self.returned.insert(uuid.clone()) {
            return None;
        }
        match before {
            Some(before) => {
                info!(gpu = index, "GPU {index} is {uuid} now, not {before}; metered from now on");
            }
            None if is_first => {}
            None if is_awaited => info!(gpu = index, "GPU {index} responds; observed from now on"),
            None => info!(gpu = index, "GPU {index} ({uuid}) is new; metered from now on"),
        }
        Some(if is_awaited { BilledFrom::Start } else { BilledFrom::Now })
    }

    /// Whether this is the first warning about a GPU that has not arrived.
    fn is_new_failure(&mut self, index: u32) -> bool {
        !self.arrived.contains_key(&index) && self.failed.insert(index)
    }
}

/// Queries the prices of all models, which are then known when their GPUs are metered.
pub(super) fn query_prices(pricing: &mut Pricing, gpus: &[ArrivedGpu], clock: Clock) {
    for model in gpus.iter().map(|gpu| gpu.identity.model.as_deref()) {
        let same = gpus.iter().filter(|gpu| gpu.identity.model.as_deref() == model).count();
        let gpus = u32::try_from(same).unwrap_or(u32::MAX);
        let now = clock.now();
        let _known = pricing.at(&GpuOfModel { model, rank: 0, gpus }, now, now);
    }
}
