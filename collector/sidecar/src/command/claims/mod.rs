//! Keeps until when the time of GPUs is claimed, in the data directory, so that after a restart every second is claimed once, in
//! a sum or as a gap.
//!
//! A request that claims time is stored with what it claims, a note, by delivery. What notes say is in a file, too, since they are
//! removed once their requests are delivered.

mod earlier;
mod file;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use phasemeter_claims::{Content, InstantFormat, Ledger, Restored, State};
use phasemeter_engine::pipeline::{BilledUntil, EarlierRuns, Finished, Pipeline};
use phasemeter_environment::host;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::Request;
use phasemeter_otlp::delivery::{DataDirectory, Receipt};
use phasemeter_otlp::encode::Outgoing;
use phasemeter_sources::clock::{Clock, wall_time};
use tracing::warn;

use self::earlier::Earlier;
pub(super) use self::earlier::keep_notes;
use self::file::{ClaimsFile, wait_until};
use super::delivery::Delivery;
use super::error::CommandError;

/// Requests that claim time and have not left.
pub(super) type HeldRequests = Rc<RefCell<Vec<Outgoing>>>;

/// The file is written once so many bytes were sent since the last time, as gzip less than a segment of the outbox, or after
/// this time. Each write also writes what other files have begun to write.
const BYTES: usize = 4 << 20;
const EVERY: Duration = Duration::from_secs(60);

/// The minimum difference of the wall clock that counts as set. Wall time is kept in whole seconds.
const MIN_STEP: Nanos = Nanos::from_secs(2);

/// The claims of this run and those of earlier ones.
#[derive(Debug)]
pub(super) struct Claims {
    file: ClaimsFile,
    earlier: Earlier,
    /// Whether it is not known what earlier runs have claimed.
    is_lost: bool,
    format: InstantFormat,
    ledger: Ledger,
    /// When the first run began, until a GPU is found.
    began: Option<Timestamp>,
    held: HeldRequests,
    /// Those of claims that are not stored yet.
    receipts: Vec<(u64, Vec<Receipt>)>,
    /// Bytes that were sent since the file was written, and when that was.
    bytes: usize,
    written: Instant,
}

impl Claims {
    /// Reads what earlier runs have claimed in this data directory, which no other process uses. Before what they have left is
    /// delivered.
    pub(super) fn open(data: &DataDirectory) -> Result<Self, CommandError> {
        let earlier = Earlier::read(data)?;
        let file = ClaimsFile::open(earlier::path(data), earlier.instance())?;
        let (ledger, held, receipts) = (Ledger::default(), HeldRequests::default(), Vec::new());
        let format = InstantFormat { clock: None, boot_id: host::boot_id() };
        let (is_lost, began, bytes, written) = (false, None, 0, Instant::now());
        Ok(Self { file, earlier, is_lost, format, ledger, began, held, receipts, bytes, written })
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
        self.write(WallOffset::default(), true);
        note
    }

    /// The run goes on, made again until an instant. Its GPUs are known.
    pub(super) fn go_on(&mut self, pipeline: &mut Pipeline<'_>, until: Timestamp) {
        self.ledger.go_on(until, pipeline.take_joined());
        self.began = self.began.filter(|_| self.ledger.until.is_empty());
    }

    /// Begins a run whose readings have times of other machines.
    pub(super) fn begin_reported(&mut self) {
        self.restore(wall_time());
    }

    /// Restores what earlier runs have claimed.
    fn restore(&mut self, now: Timestamp) -> Option<String> {
        let restored = match self.earlier.restore(&self.format, now) {
            Ok(restored) => restored,
            Err(problem) => {
                self.file.set_aside(problem);
                self.is_lost = true;
                return None;
            }
        };
        let Restored { until, began, newest } = restored;
        (self.ledger, self.began) = (Ledger::new(until), began);
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
        if self.is_lost {
            EarlierRuns::Lost
        } else if self.earlier.is_missing() && until.is_empty() {
            EarlierRuns::None
        } else {
            // A run that was killed before it had found a GPU would have billed all of them.
            EarlierRuns::Billed { until, others: self.began }
        }
    }

    /// Sends what claims time. Call it after each change of the pipeline.
    pub(super) fn step(&mut self, pipeline: &mut Pipeline<'_>, delivery: Option<&Delivery>) {
        self.settle();
        for (gpu, at) in pipeline.take_joined() {
            self.ledger.begin(gpu, at);
            self.began = None;
        }
        self.send(pipeline.wall(), delivery);
        self.write(pipeline.wall(), false);
    }

    /// Sends the last claims of a run, and keeps them: nothing is stored of a run that has delivered all.
    pub(super) fn finish(
        &mut self,
        run: &Finished,
        gpus: &[GpuIdentity],
        delivery: Option<&Delivery>,
    ) {
        let is_exported = !self.held.borrow().is_empty();
        self.send(run.wall, delivery);
        if !is_exported && delivery.is_none() {
            // The report has the time.
            for (gpu, identity) in run.gpus.iter().zip(gpus) {
                if let Some((_, end)) = gpu.meter.span() {
                    self.ledger.begin(identity.key().to_owned(), end);
                }
            }
        }
        wait_until(|| {
            self.settle();
            self.receipts.is_empty()
        });
        self.write_last(run.wall);
    }

    /// Keeps the claims of a run that has ended.
    pub(super) fn conclude(mut self, run: &Finished) {
        self.settle();
        self.write_last(run.wall);
    }

    fn write_last(&mut self, wall: WallOffset) {
        self.file.wait();
        self.write(wall, true);
        self.file.wait();
    }

    fn send(&mut self, wall: WallOffset, delivery: Option<&Delivery>) {
        for Outgoing { requests, claims } in self.held.take() {
            let Some((kind, mut claims)) = claims else { continue };
            claims.retain(|claim| self.ledger.until.contains_key(&claim.gpu));
            let id = self.ledger.add(kind, &claims);
            let until = claims.into_iter().map(|claim| (claim.gpu, claim.to)).collect();
            let note = Content::new(None, &State { until, began: None, wall }, &self.format);
            let mut encoded: Vec<_> = requests.iter().map(Request::encode).collect();
            // Once the last one is stored, all are.
            if let Some(last) = encoded.pop() {
                encoded.push(last.with_note(note.to_json().into()));
            }
            self.bytes += encoded.iter().map(|request| request.body().len()).sum::<usize>();
            let sent = |delivery: &Delivery| {
                encoded.into_iter().filter_map(|it| delivery.send_encoded(it)).collect()
            };
            // A file has what was written, and a signal without an exporter claims nothing.
            self.receipts.push((id, delivery.map(sent).unwrap_or_default()));
        }
    }

    /// Notes the claims whose requests are stored, or have an outcome.
    fn settle(&mut self) {
        let ledger = &mut self.ledger;
        let is_settled = |receipt: &Receipt| receipt.is_stored() || receipt.outcome().is_some();
        self.receipts.retain(|(id, receipts)| {
            let is_open = !receipts.iter().all(is_settled);
            if !is_open {
                ledger.store(*id);
            }
            is_open
        });
    }

    /// Writes the file if that is due, or now.
    fn write(&mut self, wall: WallOffset, now: bool) {
        let state = State { until: self.ledger.stored_until(), began: self.began, wall };
        let is_due = now
            || self.bytes >= BYTES
            || self.written.elapsed() >= EVERY
            || self.file.is_new(&state);
        if is_due && self.file.write(state, &self.format) {
            (self.bytes, self.written) = (0, Instant::now());
        }
    }
}
