//! Keeps which time of GPUs is claimed, in the data directory, so that after a restart every second is claimed once, in a sum
//! or as a gap.
//!
//! Requests that claim time are held until the file has them, and sent then. It has them until they are stored.

mod file;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;
use std::rc::Rc;

use phasemeter_claims::{InstantFormat, Ledger, Restored, State};
use phasemeter_engine::pipeline::{BilledUntil, EarlierRuns, Finished, Pipeline, PipelineError};
use phasemeter_environment::host;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{Receipt, RequestOutcome};
use phasemeter_otlp::encode::{Claim, Outgoing};
use phasemeter_otlp::{EncodedRequest, Request};
use phasemeter_sources::clock::{Clock, MAX_AHEAD, wall_time};
use tracing::warn;

use self::file::{ClaimsFile, Left};
use super::delivery::Delivery;
use super::error::CommandError;

/// Requests that claim time and are not stored yet.
pub(super) type HeldRequests = Rc<RefCell<Vec<Outgoing>>>;

/// The name of the file.
const FILE: &str = "claims.json";

/// The minimum difference of the wall clock that counts as set. Wall time is kept in whole seconds.
const MIN_STEP: Nanos = Nanos::from_secs(2);

/// The claims of this run and those that earlier runs have left.
#[derive(Debug)]
pub(super) struct Claims {
    file: ClaimsFile,
    left: Left,
    format: InstantFormat,
    ledger: Ledger,
    /// When the first run began, until a GPU is found.
    began: Option<Timestamp>,
    held: HeldRequests,
    /// Claims and their requests that leave once the text with this number is written.
    waiting: VecDeque<(u64, u64, Vec<EncodedRequest>)>,
    /// Those of claims that were sent.
    receipts: Vec<(u64, Vec<Receipt>)>,
}

impl Claims {
    /// Reads what earlier runs have left in this data directory, which no other process uses.
    pub(super) fn open(data: &Path) -> Result<Self, CommandError> {
        let (file, left) = ClaimsFile::open(&data.join(FILE))?;
        let (ledger, held) = (Ledger::default(), HeldRequests::default());
        let (waiting, receipts) = (VecDeque::new(), Vec::new());
        let format = InstantFormat { clock: None, boot_id: host::boot_id() };
        Ok(Self { file, left, format, ledger, began: None, held, waiting, receipts })
    }

    /// The requests that the sink leaves.
    pub(super) fn held(&self) -> HeldRequests {
        Rc::clone(&self.held)
    }

    /// Begins a run that measures by this clock, now. Returns a note if the wall clock was set since the
    /// last run.
    pub(super) fn begin(&mut self, clock: Clock) -> Option<String> {
        let now = clock.now();
        self.format.clock = Some(clock);
        let note = self.restore(now);
        let is_first = self.ledger.until.is_empty();
        self.began = self.began.or(Some(now)).filter(|_| is_first);
        self.write(WallOffset::default());
        note
    }

    /// The run that began at `since` goes on, made again `until` an instant. Its GPUs are known.
    pub(super) fn go_on(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        since: Timestamp,
        until: Timestamp,
    ) {
        self.ledger.go_on(since, until);
        for (gpu, at) in pipeline.take_joined() {
            self.ledger.until.entry(gpu).or_insert(at);
            self.began = None;
        }
    }

    /// Begins a run whose readings have times of other machines.
    pub(super) fn begin_reported(&mut self) {
        self.restore(wall_time());
    }

    /// Restores what earlier runs have left. If it is of a time that has not come, it is not known what they have
    /// billed: they would have billed all time until then.
    fn restore(&mut self, now: Timestamp) -> Option<String> {
        let Left::Content(content) = &self.left else { return None };
        let Restored { ledger, began, newest } = content.restore(&self.format)?;
        if let Some((at, _)) = newest.filter(|(at, _)| at.since(now) > MAX_AHEAD) {
            self.left = self.file.set_aside(at);
            return None;
        }
        (self.ledger, self.began) = (ledger, began);
        let (at, wall) = newest?;
        let (back, forward) = (wall.since(at), at.since(wall));
        let (way, by) = if back > forward { ("back", back) } else { ("forward", forward) };
        let seconds = by.as_secs_f64();
        let note = format!(
            "system clock set {way} by {seconds:.1} s since an earlier run; lengths did not change"
        );
        (by >= MIN_STEP).then_some(note).inspect(|note| warn!("{note}"))
    }

    /// The instance ID of all runs with this file: a new one, unless it has one.
    pub(super) fn instance(&mut self) -> String {
        self.file.instance()
    }

    /// Until when earlier runs have billed GPUs, by their keys.
    pub(super) const fn billed(&self) -> &BilledUntil {
        &self.ledger.until
    }

    /// What earlier runs have billed.
    pub(super) fn earlier(&self) -> EarlierRuns {
        let until = self.ledger.until.clone();
        match self.left {
            Left::Nothing => EarlierRuns::None,
            // A run that was killed before it had found a GPU would have billed all of them.
            Left::Content(_) => EarlierRuns::Billed { until, others: self.began },
            Left::Unreadable => EarlierRuns::Lost,
        }
    }

    /// Stores new claims, then sends their requests. Call it after each change of the pipeline.
    pub(super) fn step(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        gpus: &[GpuIdentity],
        delivery: Option<&Delivery>,
    ) -> Result<(), PipelineError> {
        self.settle();
        let place = |key: &str| gpus.iter().position(|gpu| gpu.key() == key);
        for Claim { gpu, from, to } in self.ledger.take_refused(|gpu| place(gpu).is_some()) {
            place(&gpu).into_iter().for_each(|gpu| pipeline.report_gap(gpu, (from, to), gpus));
        }
        pipeline.flush()?;
        for (gpu, at) in pipeline.take_joined() {
            self.ledger.begin(gpu, at);
            self.began = None;
        }
        self.send(pipeline.wall(), delivery);
        Ok(())
    }

    /// Stores and sends the last claims of a run.
    pub(super) fn finish(
        &mut self,
        run: &Finished,
        gpus: &[GpuIdentity],
        delivery: Option<&Delivery>,
    ) {
        self.settle();
        let is_exported = !self.held.borrow().is_empty();
        self.file.wait();
        self.send(run.wall, delivery);
        self.file.wait();
        self.release(delivery);
        if !is_exported && delivery.is_none() {
            // The report has the time.
            for (gpu, identity) in run.gpus.iter().zip(gpus) {
                if let Some((_, end)) = gpu.meter.span() {
                    self.ledger.begin(identity.key().to_owned(), end);
                }
            }
        }
        self.write(run.wall);
    }

    /// Stores what became of the last requests.
    pub(super) fn conclude(mut self, run: &Finished) {
        self.settle();
        self.write(run.wall);
        self.file.wait();
    }

    fn send(&mut self, wall: WallOffset, delivery: Option<&Delivery>) {
        for Outgoing { requests, claims } in self.held.take() {
            if let Some((kind, claims)) = claims {
                self.ledger.add(kind, claims, requests.iter().map(Request::encode).collect());
            }
        }
        if let Some(text) = self.write(wall) {
            let due = self.ledger.take_due(delivery.is_some()).into_iter();
            self.waiting.extend(due.map(|(id, requests)| (text, id, requests)));
        }
        self.release(delivery);
    }

    /// Sends what the file has.
    fn release(&mut self, delivery: Option<&Delivery>) {
        let file = &mut self.file;
        while let Some((_, id, requests)) =
            self.waiting.pop_front_if(|(text, ..)| file.has_written(*text))
        {
            let sent = |delivery: &Delivery| {
                requests.into_iter().filter_map(|it| delivery.send_encoded(it)).collect()
            };
            // A file has what was written, and a signal without an exporter claims nothing.
            self.receipts.push((id, delivery.map(sent).unwrap_or_default()));
        }
    }

    /// Settles the claims of which all requests have an outcome. Those that are stored need no other place.
    fn settle(&mut self) {
        let ledger = &mut self.ledger;
        self.receipts.retain(|(id, receipts)| {
            let outcomes: Option<Vec<_>> = receipts.iter().map(Receipt::outcome).collect();
            let Some(outcomes) = outcomes else {
                if receipts.iter().all(Receipt::is_stored) {
                    ledger.store(*id);
                }
                return true;
            };
            let worst = outcomes.into_iter().find(|outcome| *outcome != RequestOutcome::Accepted);
            ledger.settle(*id, worst.unwrap_or(RequestOutcome::Accepted));
            false
        });
    }

    /// The number of the text that has the claims, if it is written now.
    fn write(&mut self, wall: WallOffset) -> Option<u64> {
        let (until, open) = (self.ledger.until.clone(), self.ledger.open());
        self.file.write(State { until, open, began: self.began, wall }, &self.format)
    }
}
