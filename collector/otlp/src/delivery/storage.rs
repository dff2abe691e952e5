//! Like `storage` of the Collector's `sending_queue`: a request is on disk from before it is sent until it is
//! accepted or rejected for good, as gzip of its protobuf.
//!
//! This run has an outbox of its own. Those that ended before, for the same destinations, are delivered first.

mod earlier_runs;
mod payload;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use phasemeter_outbox::{DataDirectory, Loss, Outbox, ReadError, Reason, Stream};
use tokio::time::Instant;
use tracing::{info, warn};

use self::earlier_runs::{EarlierRuns, Lost, Run};
pub use self::payload::stored_notes;
use super::config::Config;
use crate::request::EncodedRequest;
use crate::signal::Signal;

/// The time between checkpoints that come with a request that is stored: each sync also writes what other files have begun to
/// write, so that those at one time write less.
const CHECKPOINT: Duration = Duration::from_secs(5);
/// The time between checkpoints at most, which bounds what is sent twice after a crash.
const LATE_CHECKPOINT: Duration = Duration::from_secs(15);
/// After an error of the disk, requests are kept in memory for so long before the next try.
const PAUSE: Duration = Duration::from_secs(60);
/// The minimum time between two reports of dropped requests.
const REPORT: Duration = Duration::from_secs(60);
/// Whose requests are stored. A run delivers only what one of its kind has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// Phasemeter's own. If the limits are reached, the oldest are dropped.
    Own,
    /// Those of other programs. If the limits are reached, new ones wait in memory, and their senders with them.
    PassedOn,
}

impl StorageKind {
    const ALL: [Self; 2] = [Self::Own, Self::PassedOn];

    const fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::PassedOn => "passed on",
        }
    }
}

/// Where a request is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    run: usize,
    pub(super) sequence: u64,
}

/// The disk has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskFailed;

/// A stored request that an earlier run has left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) bytes: u64,
    pub(super) location: Location,
}

/// Stored requests of this run and of those before it.
#[derive(Debug)]
pub struct Storage {
    /// Holds the lock.
    data: Arc<DataDirectory>,
    /// Oldest first; with [`Self::stores`], the last one is that of this run.
    runs: Vec<Run>,
    /// What of them was lost when they were taken over.
    lost: Vec<Lost>,
    stores: Option<StorageKind>,
    others: usize,
    are_more: bool,
    checked: Instant,
    /// Until when the disk is not tried again.
    paused: Option<Instant>,
    /// Whether an error was logged since the disk worked.
    is_failing: bool,
    /// Requests that were dropped, and when that was logged last.
    dropped: u64,
    reported: Option<Instant>,
}

impl Storage {
    /// Takes over what earlier runs of this kind have left for the destinations of a configuration, and makes
    /// an outbox for this run.
    ///
    /// # Errors
    /// Returns an error if the disk refuses. What earlier runs have left is then as it was.
    pub fn begin(
        data: &Arc<DataDirectory>,
        config: &Config,
        kind: StorageKind,
    ) -> io::Result<Self> {
        let label = label(config, kind);
        let directory = data.begin(&label)?;
        let opened = Outbox::open(directory.disk(), data.limits());
        let outbox = opened.map_err(io::Error::other)?;
        let mut storage = Self::left_for(data, &[label])?;
        storage.runs.push(Run { outbox, directory });
        storage.stores = Some(kind);
        Ok(storage)
    }

    /// Takes over what earlier runs have left for the destinations of a configuration, to deliver that alone.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn left(data: &Arc<DataDirectory>, config: &Config) -> io::Result<Self> {
        Self::left_for(data, &StorageKind::ALL.map(|kind| label(config, kind)))
    }

    fn left_for(data: &Arc<DataDirectory>, labels: &[String]) -> io::Result<Self> {
        let EarlierRuns { runs, others, are_more, lost } = EarlierRuns::take(data, labels)?;
        let (data, checked, is_failing) = (Arc::clone(data), Instant::now(), false);
        let (stores, paused, reported, dropped) = (None, None, None, 0);
        Ok(Self {
            data,
            runs,
            lost,
            stores,
            others,
            are_more,
            checked,
            paused,
            is_failing,
            dropped,
            reported,
        })
    }

    /// The number of runs that have left requests for other destinations, or were of another kind.
    #[must_use]
    pub const fn others(&self) -> usize {
        self.others
    }

    /// Whether more runs have left requests than are taken over at a time.
    #[must_use]
    pub const fn has_more(&self) -> bool {
        self.are_more
    }

    /// Whether new requests are stored.
    pub(super) const fn stores(&self) -> bool {
        self.stores.is_some()
    }

    /// What earlier runs have left, in order per signal.
    pub(super) fn pending(&self) -> Vec<Left> {
        let mut left = Vec::new();
        for (run, Run { outbox, .. }) in self.runs.iter().enumerate() {
            for signal in Signal::ALL {
                left.extend(outbox.pending(stream(signal)).map(|it| {
                    let location = Location { run, sequence: it.sequence };
                    Left { signal, items: it.items, bytes: it.length.into(), location }
                }));
            }
        }
        left
    }

    /// Signal, requests and items of what was lost of earlier runs when they were taken over, and why.
    pub(super) fn lost_before(&self) -> impl Iterator<Item = (Signal, u64, u64, Reason)> {
        self.lost.iter().map(|lost| (signal(lost.stream), lost.requests, lost.items, lost.reason))
    }

    /// Whether the disk has failed lately, and is not tried again yet.
    pub(super) fn is_paused(&self) -> bool {
        self.paused.is_some_and(|until| Instant::now() < until)
    }

    /// Tries the disk again the next time, however lately it has failed.
    pub(super) fn resume(&mut self) {
        self.paused = None;
    }

    /// Stores requests at once; `None` for those that stay in memory. They are durable when this returns. It fails if
    /// the disk does; then all stay in memory, and can be stored once it works again.
    pub(super) fn store(
        &mut self,
        requests: &[EncodedRequest],
    ) -> Result<Vec<Option<Location>>, DiskFailed> {
        if self.is_paused() {
            return Err(DiskFailed);
        }
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        match self.try_store(requests) {
            Ok(stored) => {
                let path = self.data.path().display();
                if std::mem::take(&mut self.is_failing) {
                    info!("{path}: requests are stored again");
                }
                self.paused = None;
                Ok(stored)
            }
            Err(error) => {
                self.fail(&error);
                Err(DiskFailed)
            }
        }
    }

    fn try_store(&mut self, requests: &[EncodedRequest]) -> io::Result<Vec<Option<Location>>> {
        let (kind, run) = (self.stores, self.runs.len().wrapping_sub(1));
        let Some(Run { outbox, .. }) = self.runs.last_mut().filter(|_| kind.is_some()) else {
            return Ok(vec![None; requests.len()]);
        };
        let now = self.data.now();
        let mut stored = Vec::with_capacity(requests.len());
        let mut failed = Ok(());
        for request in requests {
            let payload = payload::of(request)?;
            if kind == Some(StorageKind::PassedOn) && !outbox.fits(payload.len() as u64) {
                stored.push(None);
                continue;
            }
            match outbox.append(stream(request.signal()), request.items(), &payload, now) {
                Ok(sequence) => stored.push(Some(Location { run, sequence })),
                Err(error) => {
                    failed = Err(error);
                    break;
                }
            }
        }
        if let Err(error) = failed.and_then(|()| outbox.commit()) {
            // All of them leave from memory, also those in a segment that was committed when the next one began.
            for (request, location) in requests.iter().zip(&stored) {
                if let Some(location) = location {
                    outbox.settle(stream(request.signal()), location.sequence);
                }
            }
            return Err(error);
        }
        Ok(stored)
    }

    /// The encoded request that was stored, or why it is lost.
    pub(super) fn read(&mut self, signal: Signal, location: Location) -> Result<Bytes, Reason> {
        let run = self.runs.get_mut(location.run).ok_or(Reason::Unreadable)?;
        let Run { outbox, directory } = run;
        let read = outbox.read(stream(signal), location.sequence).and_then(|payload| {
            let body = payload::body(&payload);
            body.map_err(|error| ReadError::Unreadable(error.to_string()))
        });
        read.map_err(|error| match error {
            // It was dropped while it was in flight.
            ReadError::Gone => Reason::Full,
            // It stays on disk.
            ReadError::Disk(_) => {
                let path = directory.path().display();
                warn!("{path}: {error}; the next run sends the request");
                Reason::Unreadable
            }
            ReadError::Unreadable(_) => {
                warn!("{}: a stored request is lost: {error}", directory.path().display());
                outbox.lose(stream(signal), location.sequence, Reason::Unreadable);
                Reason::Unreadable
            }
        })
    }

    /// A request needs no further attempt.
    pub(super) fn settle(&mut self, signal: Signal, location: Location) {
        if let Some(Run { outbox, .. }) = self.runs.get_mut(location.run) {
            outbox.settle(stream(signal), location.sequence);
        }
    }

    /// Notes on disk what is settled, if that is due. `has_stored`: something was stored just now.
    pub(super) fn checkpoint(&mut self, has_stored: bool) {
        let now = Instant::now();
        let since = now.duration_since(self.checked);
        let has_settled = || self.runs.iter().any(|run| run.outbox.has_settled());
        let is_due =
            since >= LATE_CHECKPOINT || (has_stored && since >= CHECKPOINT && has_settled());
        if is_due && !self.is_paused() {
            self.checked = now;
            self.checkpoint_now();
        }
    }

    fn checkpoint_now(&mut self) {
        let now = self.data.now();
        let mut noted = self.runs.iter_mut().map(|run| run.outbox.checkpoint(now));
        if let Some(error) = noted.find_map(Result::err) {
            self.fail(&error);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.paused = Some(Instant::now() + PAUSE);
        if !std::mem::replace(&mut self.is_failing, true) {
            let path = self.data.path().display();
            warn!("{path}: {error}; requests wait in memory until it works again");
        }
    }

    /// Requests that were dropped since the last call.
    pub(super) fn take_dropped(&mut self) -> Vec<(Signal, Location, Reason)> {
        let mut dropped = Vec::new();
        for (run, Run { outbox, .. }) in self.runs.iter_mut().enumerate() {
            let losses = outbox.take_dropped().into_iter();
            dropped.extend(losses.map(|Loss { stream, sequence, reason, .. }| {
                (signal(stream), Location { run, sequence }, reason)
            }));
        }
        self.dropped += dropped.len() as u64;
        let is_due = |last: Instant| last.elapsed() >= REPORT;
        if self.dropped > 0 && self.reported.is_none_or(is_due) {
            let (path, requests) = (self.data.path().display(), self.dropped);
            warn!(requests, "{path}: {requests} stored requests dropped: too many, or too old");
            (self.dropped, self.reported) = (0, Some(Instant::now()));
        }
        dropped
    }

    /// Notes what is settled, and removes the directories of runs that have nothing left.
    pub(super) fn close(&mut self) {
        self.checkpoint_now();
        self.runs.drain(..).for_each(Run::close);
        self.stores = None;
    }
}

/// What the directory of a run says of it.
fn label(config: &Config, kind: StorageKind) -> String {
    let mut label = format!("{}\n", kind.name());
    for signal in Signal::ALL {
        let target = config.target(signal).map_or("none".to_owned(), ToString::to_string);
        label += &format!("{}: {target}\n", signal.name());
    }
    label
}

const fn stream(signal: Signal) -> Stream {
    match signal {
        Signal::Traces => Stream::ALL[0],
        Signal::Metrics => Stream::ALL[1],
        Signal::Logs => Stream::ALL[2],
    }
}

const fn signal(stream: Stream) -> Signal {
    match stream.index() {
        0 => Signal::Traces,
        1 => Signal::Metrics,
        _ => Signal::Logs,
    }
}
