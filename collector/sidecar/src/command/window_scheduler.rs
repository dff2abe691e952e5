//! Evaluates policies during a run: one window per interval, and the last at the end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_engine::policies::{PolicyManager, PolicyResults, RecommendationHistory, Worker};
use phasemeter_meter::units::Timestamp;
use phasemeter_process::release_program_pages;
use phasemeter_rules::watch::PollWatcher;
use phasemeter_rules::window::Window;
use tracing::warn;

use super::dump::Dump;
use super::error::CommandError;
use super::optional::Optional;
use phasemeter_cli::LiveArgs;

/// After this time a run has started, with all that is used once for that.
const START: Duration = Duration::from_secs(10);

/// Sends windows to the policies, if any, and dumps them, if requested.
pub(super) struct WindowScheduler {
    worker: Option<Worker>,
    dump: Option<Dump>,
    every: Duration,
    next: Instant,
    /// The ends of the windows that are being evaluated.
    submitted: VecDeque<Timestamp>,
    history: RecommendationHistory,
    /// When to let go of the program's pages that the start, or an evaluation, has used.
    release: Option<Instant>,
    /// Loads policies that change, until the end.
    watcher: Option<PollWatcher>,
}

impl WindowScheduler {
    /// Schedules windows by these options: the first one is due an interval from now.
    pub(super) fn start(
        policies: Option<Arc<PolicyManager>>,
        args: &LiveArgs,
        optional: Optional,
    ) -> Result<Self, CommandError> {
        let watcher = policies.as_ref().map(PolicyManager::watch).transpose();
        let watcher = watcher.map_err(CommandError::system("cannot watch the policy directory"));
        let watcher = optional.result(watcher)?.flatten().flatten();
        let every = Duration::from_nanos(args.windows.window_interval.0);
        let now = Instant::now();
        Ok(Self {
            worker: policies.map(Worker::new),
            dump: args.metering.policies.dump_windows.as_deref().map(Dump::to),
            every,
            next: now + every,
            submitted: VecDeque::new(),
            history: RecommendationHistory::default(),
            release: Some(now + START),
            watcher,
        })
    }

    /// Watches the directory of policies that is configured now, in place of the one before.
    pub(super) fn watch(&mut self, policies: &Arc<PolicyManager>) {
        match policies.watch() {
            Ok(watcher) => self.watcher = watcher,
            Err(error) => warn!("cannot watch the policy directory: {error}"),
        }
    }

    /// The results since the last call. If a window is due, it is built and evaluated; it is skipped
    /// if policies are still busy.
    pub(super) fn step(
        &mut self,
        window: impl FnOnce() -> Option<Window>,
    ) -> Option<PolicyResults> {
        let now = Instant::now();
        if self.next <= now {
            self.next = now + self.every;
            if let Some(window) = window() {
                self.evaluate(window);
            }
        }
        if self.release.take_if(|release| *release <= now).is_some() {
            release_program_pages();
        }
        let mut last = None;
        for results in self.worker.as_ref()?.results() {
            if let Some(end) = self.submitted.pop_front() {
                self.history.record(end, &results);
            }
            last = Some(results);
            // At the next step: then they are exported.
            self.release = Some(now);
        }
        last
    }

    /// Evaluates the last window.
    pub(super) fn finish(mut self, last: Option<Window>) -> PolicyResults {
        let last = last.map(|window| self.with_history(window));
        last.iter().for_each(|window| self.dump(window));
        self.worker.and_then(|worker| worker.finish(last)).unwrap_or_default()
    }

    fn evaluate(&mut self, window: Window) {
        let end = window.end;
        let window = self.with_history(window);
        self.dump(&window);
        match self.worker.as_mut().map(|worker| worker.submit(window)) {
            Some(Ok(())) => self.submitted.push_back(end),
            Some(Err(why)) => warn!("{why}: window skipped"),
            None => {}
        }
    }

    fn with_history(&self, window: Window) -> Window {
        Window { previous: self.history.list(), ..window }
    }

    /// Writes a window. Stops after the first error; the run continues.
    fn dump(&mut self, window: &Window) {
        let written = self.dump.as_mut().map_or(Ok(()), |dump| dump.write(window));
        if let Err(error) = written {
            warn!("window dump stopped: {}", error.in_one_line());
            self.dump = None;
        }
    }
}
