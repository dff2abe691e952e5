//! The sessions of all reports, to find reports that occur twice and time that is billed twice.
//!
//! Takes at most 64 bytes per session, however many reports there are.

use phasemeter_meter::units::Timestamp;
use sha2::{Digest as _, Sha256};

use crate::read::Digest;

/// Time of one GPU, or of a part of it, that a report bills.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Session {
    /// Digest of what identifies the GPU.
    gpu: u64,
    from: Timestamp,
    to: Timestamp,
    /// Digest of the holder whose part it is; 0 if it is all of the GPU.
    part: u32,
    /// Index of the report.
    report: u32,
}

impl Session {
    /// Whether both bill the same, if they are of one GPU and one time: parts of two holders differ.
    fn conflicts(&self, other: &Self) -> bool {
        self.part == 0 || other.part == 0 || self.part == other.part
    }
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

    /// Adds time of a GPU, or of the part of a holder, both by their digests.
    pub(crate) fn add(
        &mut self,
        (gpu, holder): (u64, Option<u64>),
        (from, to): (Timestamp, Timestamp),
        report: usize,
    ) {
        if self.sessions.len() == self.sessions.capacity() {
            // Doubling would take more than the limit.
            self.sessions.reserve_exact(self.sessions.len() / 8 + 64);
        }
        let report = u32::try_from(report).unwrap_or(u32::MAX);
        let part = holder.map_or(0, |digest| ((digest >> 32) as u32).max(1));
        self.sessions.push(Session { gpu, from, to, part, report });
    }

    /// The first time that two reports bill of all of a GPU, or of the part of one holder, if any.
    pub(crate) fn overlap(mut self) -> Option<Overlap> {
        self.sessions.sort_unstable();
        // Those of the GPU that have not ended. Without an overlap, they are of different holders.
        let mut open: Vec<Session> = Vec::new();
        for session in self.sessions {
            open.retain(|it| it.gpu == session.gpu && session.from < it.to);
            if let Some(before) = open.iter().find(|it| it.conflicts(&session)) {
                let mut reports = [before.report, session.report].map(|report| report as usize);
                reports.sort_unstable();
                return Some(Overlap { reports, at: session.from });
            }
            open.push(session);
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

/// The digest of what identifies a GPU or a holder.
pub(crate) fn identity_digest(identity: &[&str]) -> u64 {
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
            let digest = identity_digest(&[&report.to_string()]);
            let mut key = Digest::default();
            key[..8].copy_from_slice(&digest.to_le_bytes());
            assert!(sessions.add_report(key));
            assert!(!sessions.add_report(key), "a second time");
            let time = (at(report), at(report + 1));
            sessions.add((digest, None), time, usize::try_from(report).unwrap());
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
        sessions.add((1, None), (at(0), at(10)), 0);
        sessions.add((1, None), (at(10), at(20)), 1);
        sessions.add((2, None), (at(0), at(10)), 2);
        sessions.add((1, None), (at(19), at(21)), 3);
        let overlap = Overlap { reports: [1, 3], at: at(19) };
        assert_eq!(sessions.overlap(), Some(overlap));
    }

    /// Scenario: the parts of two holders of a GPU at one time; then another part of one of them, or all of the GPU.
    #[test]
    fn parts_of_different_holders_do_not_overlap() {
        let with = |gpu: u64, holder: Option<u64>, from: u64| {
            let mut sessions = Sessions::default();
            sessions.add((1, Some(7 << 32)), (at(0), at(10)), 0);
            sessions.add((1, Some(8 << 32)), (at(2), at(8)), 1);
            sessions.add((gpu, holder), (at(from), at(12)), 2);
            sessions.overlap().map(|it| (it.reports, it.at))
        };
        assert_eq!(with(1, Some(9 << 32), 9), None);
        assert_eq!(with(1, Some(8 << 32), 8), None);
        assert_eq!(with(2, None, 9), None);
        assert_eq!(with(1, None, 10), None);
        assert_eq!(with(1, Some(7 << 32), 9), Some(([0, 2], at(9))));
        assert_eq!(with(1, Some(8 << 32), 7), Some(([1, 2], at(7))));
        assert_eq!(with(1, None, 9), Some(([0, 2], at(9))));
    }
}
