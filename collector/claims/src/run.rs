//! What a run does with claims: it sends the requests that claim time, and keeps which of them are stored.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;

use phasemeter_engine::pipeline::{BilledUntil, EarlierRuns, Finished, Pipeline};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::delivery::{DataDirectory, Receipt, RequestSender};
use phasemeter_otlp::encode::Outgoing;
use phasemeter_otlp::{EncodedRequest, Request};
use phasemeter_sources::clock::{Clock, wall_time};
use tracing::warn;

use crate::earlier::Earlier;
use crate::file::{ClaimsError, ClaimsFile, Writing};
use crate::format::{Content, InstantFormat, Restored, State};
use crate::ledger::Ledger;

/// Requests that claim time and have not left.
pub type HeldRequests = Rc<RefCell<Vec<Outgoing>>>;

/// The file is written once more than a segment of the outbox was sent since the last time, or after this time. Each write also
/// writes what other files have begun to write.
const EVERY: Nanos = Nanos::from_secs(60);

/// The minimum difference of the wall clock that counts as set. Wall time is kept in whole seconds.
const MIN_STEP: Nanos = Nanos::from_secs(2);

/// The claims of this run and those of earlier ones.
#[derive(Debug)]
pub struct Claims {
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
    /// Bytes that were sent since the file was written, of how many at most, and when that was.
    bytes: u64,
    max_bytes: u64,
    written: Nanos,
    timer: Clock,
}

impl Claims {
    /// Reads what earlier runs have claimed in this data directory, which no other process uses. Before what they have left is
    /// delivered. `start` gets what writes the file; `timer`: by which it is due.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn open(
        data: &DataDirectory,
        timer: Clock,
        boot_id: Option<String>,
        start: impl FnOnce(Writing) -> io::Result<()>,
    ) -> Result<Self, ClaimsError> {
        let earlier = Earlier::read(data)?;
        let file = ClaimsFile::open(data, earlier.instance(), start)?;
        Ok(Self {
            file,
            earlier,
            is_lost: false,
            format: InstantFormat { clock: None, boot_id },
            ledger: Ledger::default(),
            began: None,
            held: HeldRequests::default(),
            receipts: Vec::new(),
            bytes: 0,
            max_bytes: data.limits().segment_bytes,
            written: timer.awake(),
            timer,
        })
    }

    /// The requests that the sink leaves.
    #[must_use]
    pub fn held(&self) -> HeldRequests {
        Rc::clone(&self.held)
    }

    /// Begins a run that measures by this clock, now. Returns a note if the wall clock was set since the
    /// last run.
    pub fn begin(&mut self, clock: Clock) -> Option<String> {
        let now = clock.now();
        self.format.clock = Some(clock);
        let note = self.restore(now, WallOffset::default());
        let is_first = self.ledger.until.is_empty();
        self.began = self.began.or(Some(now)).filter(|_| is_first);
        self.write(WallOffset::default());
        note
    }

    /// A run goes on by this clock, made again until an instant. Its GPUs are known. Returns a note as [`Self::begin`] does.
    pub fn go_on(
        &mut self,
        clock: Clock,
        pipeline: &mut Pipeline<'_>,
        until: Timestamp,
    ) -> Option<String> {
        self.format.clock = Some(clock);
        let note = self.restore(clock.now(), pipeline.wall());
        self.ledger.go_on(until, pipeline.take_joined());
        self.began = self.began.filter(|_| self.ledger.until.is_empty());
        self.write(pipeline.wall());
        note
    }

    /// Begins a run whose readings have times of other machines.
    pub fn begin_reported(&mut self) {
        self.restore(wall_time(), WallOffset::default());
    }

    /// Restores what earlier runs have claimed. `offset`: the wall time of the run.
    fn restore(&mut self, now: Timestamp, offset: WallOffset) -> Option<String> {
        let restored = match self.earlier.restore(&self.format, now, offset) {
            Ok(restored) => restored,
            Err(problem) => {
                self.file.set_aside(problem);
                self.is_lost = true;
                return None;
            }
        };
        let Restored { until, began, newest } = restored;
        (self.ledger, self.began) = (Ledger::new(until), began);
        let (at, wall) = newest.map(|(at, wall)| (offset.wall(at), wall))?;
        let (back, forward) = (wall.since(at), at.since(wall));
        let (way, by) = if back > forward { ("back", back) } else { ("forward", forward) };
        let seconds = by.as_secs_f64();
        let note = format!(
            "system clock set {way} by {seconds:.1} s since an earlier run; lengths did not change"
        );
        (by >= MIN_STEP).then_some(note).inspect(|note| warn!("{note}"))
    }

    /// The instance ID of all runs with this file: a new one, unless it has one.
    pub fn instance(&mut self) -> String {
        self.file.instance()
    }

    /// Until when earlier runs have billed GPUs, by their keys.
    #[must_use]
    pub const fn billed(&self) -> &BilledUntil {
        &self.ledger.until
    }

    /// What earlier runs have billed.
    #[must_use]
    pub fn earlier(&self) -> EarlierRuns {
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
    pub fn step(&mut self, pipeline: &mut Pipeline<'_>, sender: Option<&RequestSender>) {
        self.settle();
        let others = self.began.filter(|_| !self.earlier.is_missing());
        for (gpu, at) in pipeline.take_joined() {
            self.ledger.begin(gpu, at, others);
            self.began = None;
        }
        self.send(pipeline.wall(), sender);
        self.write_if_due(pipeline.wall(), false);
    }

    /// Sends the last claims of a run, to be kept once they [have settled](Self::have_settled): nothing is stored of a run that
    /// has delivered all.
    pub fn finish(&mut self, run: &Finished, gpus: &[GpuIdentity], sender: Option<&RequestSender>) {
        let is_exported = !self.held.borrow().is_empty();
        self.send(run.wall, sender);
        if !is_exported && sender.is_none() {
            // The report has the time.
            for (gpu, identity) in run.gpus.iter().zip(gpus) {
                if let Some((_, end)) = gpu.meter.span() {
                    self.ledger.report(identity.key().to_owned(), end);
                }
            }
        }
    }

    /// Whether all requests that claim time are stored, or have an outcome.
    pub fn have_settled(&mut self) -> bool {
        self.settle();
        self.receipts.is_empty()
    }

    /// Writes the file, even if that is not due. Returns whether it has what is claimed, or will: not while other claims are being
    /// written.
    pub fn write(&mut self, wall: WallOffset) -> bool {
        self.write_if_due(wall, true)
    }

    /// Whether the file has what it was to have, or was refused it.
    #[must_use]
    pub fn are_written(&self) -> bool {
        self.file.is_written()
    }

    fn send(&mut self, wall: WallOffset, sender: Option<&RequestSender>) {
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
            // Compressed, they are fewer.
            let bytes = |it: &EncodedRequest| (it.body().len() + it.note().len()) as u64;
            self.bytes += encoded.iter().map(bytes).sum::<u64>();
            let sent = |sender: &RequestSender| {
                encoded.into_iter().filter_map(|it| sender.enqueue_with_receipt(it)).collect()
            };
            // A file has what was written, and a signal without an exporter claims nothing.
            self.receipts.push((id, sender.map(sent).unwrap_or_default()));
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

    fn write_if_due(&mut self, wall: WallOffset, now: bool) -> bool {
        let state = State { until: self.ledger.stored_until(), began: self.began, wall };
        let at = self.timer.awake();
        let is_due = now
            || self.bytes >= self.max_bytes
            || at - self.written >= EVERY
            || self.file.is_new(&state);
        let is_written = is_due && self.file.write(state, &self.format);
        if is_written {
            (self.bytes, self.written) = (0, at);
        }
        is_written
    }
}
