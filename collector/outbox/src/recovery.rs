//! Reads what a process left, whatever state it is in.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use crate::disk::Disk;
use crate::error::OpenError;
use crate::head::{self, Found, Head, Mark};
use crate::lane::Lane;
use crate::losses::{Losses, Reason};
use crate::place::{Pending, Place};
use crate::record::Records;
use crate::segment::{self, HEADER_BYTES, Header, Segment, VERSION};
use crate::stream::Stream;

/// The state of an outbox on disk.
pub(crate) struct Recovered {
    pub(crate) head: Head,
    /// Whether a slot of the head is valid.
    pub(crate) has_head: bool,
    pub(crate) lanes: [Lane; Stream::COUNT],
    /// With what is missing.
    pub(crate) losses: Losses,
}

/// Reads all files. Nothing is changed.
pub(crate) fn recover(disk: &impl Disk) -> Result<Recovered, OpenError> {
    let names = disk.names()?;
    let found = match names.iter().any(|name| name == head::NAME) {
        true => Head::find(&disk.read(head::NAME)?),
        false => Found::Nothing,
    };
    let (head, has_head) = match found {
        Found::Head(head) => (head, true),
        Found::Nothing => (Head::default(), false),
        Found::Newer(version) => return Err(OpenError::Newer(version)),
    };
    let mut firsts = [const { Vec::new() }; Stream::COUNT];
    for (stream, first) in names.iter().filter_map(|name| segment::parse(name)) {
        firsts[stream.index()].push(first);
    }
    let mut losses = head.losses;
    let mut lanes = head.marks.map(Recovery::new);
    for stream in Stream::ALL {
        let (lane, firsts) = (&mut lanes[stream.index()], &mut firsts[stream.index()]);
        firsts.sort_unstable();
        for first in firsts.iter() {
            match disk.read(&segment::name(stream, *first)) {
                Ok(bytes) => lane.read(stream, *first, &bytes)?,
                // What it had is missing, and is counted so.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error.into()),
            }
        }
        losses.add(stream, Reason::Unreadable, lane.finish());
    }
    Ok(Recovered { head, has_head, lanes: lanes.map(|lane| lane.lane), losses })
}

/// One stream while it is read.
struct Recovery {
    lane: Lane,
    head: u64,
    /// From here on, what is durable and not found is missing.
    cursor: u64,
    missing: u64,
}

impl Recovery {
    fn new(mark: Mark) -> Self {
        let (segments, pending) = (VecDeque::new(), BTreeMap::new());
        let Mark { head, committed, counted } = mark;
        let next = head.max(committed.saturating_add(1));
        let (is_open, written) = (false, None);
        let lane = Lane { segments, pending, next, committed, counted, is_open, written };
        Self { lane, head, cursor: head.max(counted.saturating_add(1)), missing: 0 }
    }

    fn read(&mut self, stream: Stream, first: u64, bytes: &[u8]) -> Result<(), OpenError> {
        match Header::decode(bytes, stream, first) {
            Some(header) if header.version > VERSION => {
                return Err(OpenError::Newer(header.version));
            }
            Some(header) => {
                self.count_missing(header.committed);
                // Numbers between were given to what was never stored.
                self.cursor = self.cursor.max(first);
                self.lane.committed = self.lane.committed.max(header.committed);
            }
            None => {}
        }
        let mut segment = Segment {
            first,
            last: first.saturating_sub(1),
            bytes: bytes.len() as u64,
            oldest_at: u64::MAX,
            newest_at: 0,
            is_damaged: false,
        };
        let body = bytes.get(HEADER_BYTES..).unwrap_or_default();
        for (offset, record) in Records::new(body, segment::salt(stream, first)) {
            let is_next = record.sequence > segment.last && record.sequence >= first;
            let Some(length) = u32::try_from(record.payload.len()).ok().filter(|_| is_next) else {
                continue;
            };
            segment.last = record.sequence;
            segment.oldest_at = segment.oldest_at.min(record.stored_at);
            segment.newest_at = segment.newest_at.max(record.stored_at);
            if record.sequence < self.head {
                continue;
            }
            let (sequence, items, stored_at) = (record.sequence, record.items, record.stored_at);
            let pending = Pending { sequence, items, stored_at, length };
            let offset = (HEADER_BYTES + offset) as u64;
            self.lane.pending.insert(sequence, Place { pending, segment: first, offset });
        }
        // The name is taken, even if nothing is in it.
        let used = segment.last.max(first);
        self.lane.next = self.lane.next.max(used.saturating_add(1));
        self.lane.segments.push_back(segment);
        Ok(())
    }

    /// Counts what is durable up to this number and was not found.
    fn count_missing(&mut self, committed: u64) {
        if committed < self.cursor {
            return;
        }
        let found = self.lane.pending.range(self.cursor..=committed).count() as u64;
        let missing = (committed - self.cursor).saturating_add(1).saturating_sub(found);
        if missing > 0
            && let Some(damaged) = self.lane.segments.back_mut()
        {
            damaged.is_damaged = true;
        }
        self.missing = self.missing.saturating_add(missing);
        self.cursor = committed.saturating_add(1);
    }

    /// The number of requests that are missing.
    fn finish(&mut self) -> u64 {
        self.count_missing(self.lane.committed);
        self.lane.counted = self.lane.counted.max(self.lane.committed);
        self.missing
    }
}
