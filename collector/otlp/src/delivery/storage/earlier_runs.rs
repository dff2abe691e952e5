//! What earlier runs have left in a data directory.

use std::io;

use phasemeter_outbox::{
    DataDirectory, Disk, Loss, OpenError, Outbox, Reason, RunDirectory, Stream,
};
use tracing::warn;

/// Maximum number of runs that are taken over at a time: each takes file descriptors.
const MAX_RUNS: usize = 64;

/// The outbox of a run, which this process has locked.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) outbox: Outbox<Box<dyn Disk + Send>>,
    pub(super) directory: RunDirectory,
}

/// Requests of an earlier run that are lost, and were not counted by that.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost {
    pub(super) stream: Stream,
    pub(super) requests: u64,
    /// 0 if the bytes are missing.
    pub(super) items: u64,
    pub(super) reason: Reason,
}

/// Runs that ended, oldest first.
#[derive(Debug, Default)]
pub(super) struct EarlierRuns {
    pub(super) runs: Vec<Run>,
    /// The number of those with another label.
    pub(super) others: usize,
    /// What was dropped of them now, as too old or too much, or found to be missing.
    pub(super) lost: Vec<Lost>,
    /// Whether newer ones were left, since these are [`MAX_RUNS`].
    pub(super) are_more: bool,
}

impl EarlierRuns {
    /// Takes over the oldest with one of these labels, of these as many of the newest as one run may store. Of others,
    /// what is too old is removed.
    pub(super) fn take(data: &DataDirectory, labels: &[String]) -> io::Result<Self> {
        let now = data.now();
        let mut earlier = Self::default();
        for directory in data.ended()? {
            if earlier.runs.len() == MAX_RUNS {
                earlier.are_more = true;
                break;
            }
            let is_ours = labels.iter().any(|label| label == directory.label());
            let path = directory.path().display().to_string();
            match Outbox::open(directory.disk(), data.limits()) {
                Ok(outbox) => earlier.add(Run { outbox, directory }, is_ours, now),
                Err(error @ OpenError::Newer(_)) => warn!("{path}: {error}"),
                Err(error @ OpenError::Disk(_)) => warn!("{path}: not delivered: {error}"),
            }
        }
        earlier.limit(data.limits().bytes);
        Ok(earlier)
    }

    fn add(&mut self, mut run: Run, is_ours: bool, now: u64) {
        let path = run.directory.path().display().to_string();
        let mut lost: Vec<Lost> = Stream::ALL.map(|stream| missing(&run.outbox, stream)).into();
        if let Err(error) = run.outbox.checkpoint(now) {
            warn!("{path}: {error}");
        }
        lost.extend(run.outbox.take_dropped().into_iter().map(Lost::from));
        if is_ours {
            self.lost.extend(lost.into_iter().filter(|it| it.requests > 0));
        }
        let lost = run.outbox.losses().total();
        if lost > 0 && is_ours {
            warn!(lost, "{path}: {lost} requests of an earlier run were lost");
        }
        match (run.outbox.is_empty(), is_ours) {
            (true, _) => run.close(),
            (false, true) => self.runs.push(run),
            (false, false) => self.others += 1,
        }
    }

    /// A process that is killed all the time must not fill the disk.
    fn limit(&mut self, most: u64) {
        let mut bytes: u64 = self.runs.iter().map(|run| run.outbox.bytes()).sum();
        while bytes > most && self.runs.len() > 1 {
            let mut oldest = self.runs.remove(0);
            bytes = bytes.saturating_sub(oldest.outbox.bytes());
            let all = oldest.lose_all();
            let lost = all.len();
            self.lost.extend(all);
            let path = oldest.directory.path().display();
            warn!(lost, "{path}: {lost} requests of an earlier run dropped: the outbox is full");
            oldest.close();
        }
    }
}

impl Run {
    fn lose_all(&mut self) -> Vec<Lost> {
        let mut lost = Vec::new();
        for stream in Stream::ALL {
            let pending: Vec<_> = self.outbox.pending(stream).collect();
            for it in pending {
                let (items, reason) = (it.items, Reason::Full);
                self.outbox.lose(stream, it.sequence, reason);
                lost.push(Lost { stream, requests: 1, items, reason });
            }
        }
        lost
    }

    /// Removes the directory if nothing is left in it.
    pub(super) fn close(self) {
        let Self { outbox, directory } = self;
        if outbox.is_empty() {
            let path = directory.path().display().to_string();
            drop(outbox);
            directory.remove().unwrap_or_else(|error| warn!("{path}: {error}"));
        }
    }
}

impl From<Loss> for Lost {
    fn from(Loss { stream, items, reason, .. }: Loss) -> Self {
        Self { stream, requests: 1, items, reason }
    }
}

fn missing<D: Disk>(outbox: &Outbox<D>, stream: Stream) -> Lost {
    let requests = outbox.found_missing(stream);
    Lost { stream, requests, items: 0, reason: Reason::Unreadable }
}
