//! A journal: what a process has appended, in order, for the next one to read after a crash.
//!
//! It is one file of records. Each has the number of the last record that was durable when it was appended, and the number
//! of the opening in which it was: what is behind the first record that is missing was not durable, unless a later one
//! says so, and never counts again.

use std::io;
use std::ops::Range;

use thiserror::Error;

use crate::disk::Disk;
use crate::record::{Record, Records};

/// The name of the file.
pub const JOURNAL: &str = "journal";
/// The name of a file beside it: one byte per attempt to go on from it that has not succeeded.
pub const ATTEMPTS: &str = "attempts";

/// The checksum of its records begins with it, so that records of segments do not count.
const SALT: u32 = 0x4A52_4E4C;

/// A journal that is appended to.
#[derive(Debug)]
pub struct Journal<D> {
    disk: D,
    /// Where the next record begins, and its number.
    end: u64,
    next: u64,
    /// The number of the last record that is durable.
    durable: u64,
    /// The number of this opening.
    opening: u64,
    /// Whether there were records behind the first one that is missing.
    has_gap: bool,
}

/// The payloads of a journal, in order, in the bytes that were read: a copy of each would double them.
#[derive(Clone, Debug)]
pub struct Payloads {
    bytes: Vec<u8>,
    places: Vec<Range<usize>>,
}

impl Payloads {
    /// All, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.places.iter().map(|place| self.bytes.get(place.clone()).unwrap_or_default())
    }

    /// How many they are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.places.is_empty()
    }
}

/// A journal cannot be read. Nothing was changed.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// A record that was durable is missing.
    #[error("damaged: record {0} was stored and is missing")]
    Damaged(u64),
}

impl<D: Disk> Journal<D> {
    /// Begins a journal.
    ///
    /// # Errors
    /// Returns an error if there is one, or the disk refuses.
    pub fn create(mut disk: D) -> io::Result<Self> {
        disk.create(JOURNAL)?;
        disk.sync_directory()?;
        Ok(Self { disk, end: 0, next: 1, durable: 0, opening: 1, has_gap: false })
    }

    /// Continues a journal. Returns its payloads, in order: all that were durable, and maybe some that were not.
    ///
    /// # Errors
    /// Returns an error if one that was durable is missing, or the disk refuses.
    pub fn open(disk: D) -> Result<(Self, Payloads), JournalError> {
        let bytes = disk.read(JOURNAL)?;
        let (mut places, mut end, mut next, mut opening) = (Vec::new(), 0, 1, 0);
        let (mut newest, mut has_gap) = (0, false);
        for (offset, record) in Records::new(&bytes, SALT) {
            let Record { sequence, items: durable, stored_at: in_opening, payload } = record;
            newest = newest.max(in_opening);
            // Left by an opening whose last records were not durable.
            if in_opening < opening {
                continue;
            }
            if offset == end && sequence == next {
                (end, next, opening) = (end + record.length(), next + 1, in_opening);
                places.push(end - payload.len()..end);
            } else if durable >= next {
                return Err(JournalError::Damaged(next));
            } else {
                has_gap = true;
            }
        }
        let payloads = Payloads { bytes, places };
        let end = u64::try_from(end).unwrap_or(u64::MAX);
        // What was read may not be durable yet. What is behind a gap must not follow what is appended now.
        let mut journal = Self { disk, end, next, durable: 0, opening: newest + 1, has_gap };
        journal.sync()?;
        Ok((journal, payloads))
    }

    /// Appends a record. It is durable after the next [`Journal::sync`].
    ///
    /// # Errors
    /// Returns an error if it may not be written. The journal is of no use then.
    pub fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let record =
            Record { sequence: self.next, items: self.durable, stored_at: self.opening, payload };
        let bytes = record.encode(SALT).ok_or(io::ErrorKind::FileTooLarge)?;
        self.disk.write_at(JOURNAL, self.end, &bytes)?;
        self.end += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.next += 1;
        Ok(())
    }

    /// Makes all that was appended durable.
    ///
    /// # Errors
    /// Returns an error if it may not be. The journal is of no use then.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.durable + 1 < self.next {
            self.disk.sync(JOURNAL)?;
            self.durable = self.next - 1;
        }
        Ok(())
    }

    /// Whether there were records behind the first one that is missing when it was opened. A loss of power can leave
    /// that; without one it is damage.
    #[must_use]
    pub const fn has_gap(&self) -> bool {
        self.has_gap
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileDisk;

    /// Scenario: of two records that were not durable, a loss of power leaves the second. The next opening appends one that is as
    /// long as the first, and is killed.
    /// Guarantee: what was lost does not follow it.
    #[test]
    fn what_was_lost_does_not_come_back() {
        let home = tempfile::tempdir().unwrap();
        let disk = || FileDisk::new(home.path().to_owned());
        let read = |payloads: Payloads| payloads.iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        Journal::create(disk()).unwrap().append(b"first").unwrap();
        let (mut journal, _) = Journal::open(disk()).unwrap();
        let lost = journal.bytes();
        journal.append(b"lost").unwrap();
        journal.append(b"left").unwrap();
        disk().write_at(JOURNAL, lost, &[0; 20]).unwrap();
        let (mut journal, payloads) = Journal::open(disk()).unwrap();
        assert!(journal.has_gap());
        assert_eq!(read(payloads), [b"first"]);
        journal.append(b"then").unwrap();
        let (_, payloads) = Journal::open(disk()).unwrap();
        assert_eq!(read(payloads), [&b"first"[..], b"then"]);
    }
}
