//! The sessions of all reports, to find reports that occur twice and time that is billed twice.
//!
//! Takes at most 64 bytes per session, however many reports there are.

use phasemeter_meter::units::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::read::Digest;

/// Time of one GPU that a report bills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    /// Digest of what identifies the GPU.
    gpu: u64,
    from: Timestamp,
    to: Timestamp,
    /// Index of the report.
    report: u32,
}

/// Two reports that bill the same time of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overlap {
    /// The indexes of the reports.
    pub(crate) reports: [usize; 2],
    /// The first instant that both bill.
    pub(crate) at: Timestamp,
}

/// All sessions so far.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    /// Open addressing: at most four fifths are in use. All zeros is a free slot.
    digests: Vec<Digest>,
    reports: usize,
}

impl Sessions {
    /// Adds a report. Returns false if it was added before.
    pub(crate) fn add_report(&mut self, digest: Digest) -> bool {
        if (self.reports + 1) * 5 > self.digests.len() * 4 {
            self.grow();
        }
        let slot = slot(&self.digests, &digest);
        let is_new = self.digests.get(slot).is_some_and(|known| *known != digest);
        if let Some(free) = self.digests.get_mut(slot).filter(|_| is_new) {
            *free = digest;
            self.reports += 1;
        }
        is_new
    }

    /// Adds time of a GPU, if it is identified.
    pub(crate) fn add(&mut self, gpu: u64, from: Timestamp, to: Timestamp, report: usize) {
        if self.sessions.len() == self.sessions.capacity() {
            // Doubling would take more than the limit.
            self.sessions.reserve_exact(self.sessions.len() / 8 + 64);
        }
        let report = u32::try_from(report).unwrap_or(u32::MAX);
        self.sessions.push(Session { gpu, from, to, report });
    }

    /// The first overlap of two sessions of a GPU, if any.
    pub(crate) fn overlap(mut self) -> Option<Overlap> {
        self.sessions.sort_unstable();
        let mut previous: Option<Session> = None;
        for session in self.sessions {
            let overlaps = |it: &Session| it.gpu == session.gpu && session.from < it.to;
            if let Some(before) = previous.filter(overlaps) {
                let reports = [before.report, session.report].map(|report| report as usize);
                return Some(Overlap { reports, at: session.from });
            }
            previous = Some(session);
        }
        None
    }

    fn grow(&mut self) {
        let slots = (self.digests.len() * 9 / 8).max(64) + 1;
        let known = std::mem::replace(&mut self.digests, vec![Digest::default(); slots]);
        for digest in known.into_iter().filter(|digest| *digest != Digest::default()) {
            let slot = slot(&self.digests, &digest);
            self.digests[slot] = digest;
        }
    }
}

/// The slot of this digest, or the free one where it belongs.
fn slot(digests: &[Digest], digest: &Digest) -> usize {
    let hash = u64::from_le_bytes(std::array::from_fn(|index| digest[index]));
    let slots = digests.len().max(1) as u64;
    let mut slot = usize::try_from(hash % slots).unwrap_or_default();
    while digests.get(slot).is_some_and(|known| known != digest && *known != Digest::default()) {
        slot = (slot + 1) % digests.len();
    }
    slot
}

/// The digest of what identifies a GPU.
pub(crate) fn gpu_digest(identity: &[&str]) -> u64 {
    let mut hash = Sha256::new();
    for field in identity {
        hash.update((field.len() as u64).to_le_bytes());
        hash.update(field.as_bytes());
    }
    let hash = hash.finalize();
    u64::from_le_bytes(std::array::from_fn(|index| hash[index]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_millis(second * 1_000).unwrap()
    }

    #[test]
    fn session_takes_at_most_64_bytes() {
        let mut sessions = Sessions::default();
        for report in 0..100_000_u64 {
            let digest = gpu_digest(&[&report.to_string()]);
            let mut key = Digest::default();
            key[..8].copy_from_slice(&digest.to_le_bytes());
            assert!(sessions.add_report(key));
            assert!(!sessions.add_report(key), "a second time");
            sessions.add(digest, at(report), at(report + 1), usize::try_from(report).unwrap());
            if report > 1_000 {
                let bytes = sessions.sessions.capacity() * size_of::<Session>()
                    + sessions.digests.capacity() * size_of::<Digest>();
                assert!(bytes <= 64 * sessions.sessions.len(), "{bytes} bytes");
            }
        }
        assert_eq!(sessions.overlap(), None);
    }

    #[test]
    fn overlap_names_both_reports() {
        let mut sessions = Sessions::default();
        sessions.add(1, at(0), at(10), 0);
        sessions.add(1, at(10), at(20), 1);
        sessions.add(2, at(0), at(10), 2);
        sessions.add(1, at(19), at(21), 3);
        let overlap = Overlap { reports: [1, 3], at: at(19) };
        assert_eq!(sessions.overlap(), Some(overlap));
    }
}
