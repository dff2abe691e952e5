//! The outbox: stores requests, gives them back until they are settled, and drops the oldest beyond its limits.

use std::io;

use crate::disk::Disk;
use crate::error::{OpenError, ReadError};
use crate::head::{self, Head, Mark};
use crate::lane::Lane;
use crate::limits::Limits;
use crate::losses::{Loss, Losses, Reason};
use crate::place::{Pending, Place};
use crate::record::{self, MAX_PAYLOAD, Record};
use crate::recovery::{Recovered, recover};
use crate::segment::{self, Header, Segment, VERSION};
use crate::stream::Stream;

/// Requests on a disk. All methods block on it.
#[derive(Debug)]
pub struct Outbox<D> {
    disk: D,
    limits: Limits,
    lanes: [Lane; Stream::COUNT],
    /// As it is on disk.
    head: Head,
    losses: Losses,
    dropped: Vec<Loss>,
    /// Whether a name was made since the last commit.
    has_new_name: bool,
}

impl<D: Disk> Outbox<D> {
    /// Opens an outbox, or makes one of an empty directory. What was stored is pending again. What is found
    /// to be missing is counted as [`Reason::Unreadable`].
    ///
    /// # Errors
    /// Returns an error if the disk refuses, or if a newer version has written it. Then nothing was changed.
    /// Damage is not an error.
    pub fn open(disk: D, limits: Limits) -> Result<Self, OpenError> {
        let Recovered { head, lanes, losses, has_head } = recover(&disk)?;
        let (dropped, has_new_name) = (Vec::new(), false);
        let mut outbox = Self { disk, limits, lanes, head, losses, dropped, has_new_name };
        if !has_head {
            outbox.write_new_head()?;
        }
        Ok(outbox)
    }

    fn write_new_head(&mut self) -> io::Result<()> {
        match self.disk.create(head::NAME) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.disk.write_at(head::NAME, 0, &self.head.file())?;
        self.disk.sync(head::NAME)?;
        self.disk.sync_directory()
    }

    /// Requests of a stream that are not settled, in order.
    pub fn pending(&self, stream: Stream) -> impl Iterator<Item = Pending> {
        self.lane(stream).pending.values().map(|place| place.pending)
    }

    /// Whether everything is settled.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.pending.is_empty())
    }

    /// Whether more has changed since the last checkpoint than that new requests are durable.
    #[must_use]
    pub fn has_settled(&self) -> bool {
        let settled = |mark: &Mark| (mark.head, mark.counted);
        let is_other = |(lane, noted): (&Lane, &Mark)| settled(&lane.mark()) != settled(noted);
        self.losses != self.head.losses || self.lanes.iter().zip(&self.head.marks).any(is_other)
    }

    /// Bytes of all segments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lanes.iter().map(Lane::bytes).sum()
    }

    /// Requests that were lost since the outbox was made, in any process.
    #[must_use]
    pub const fn losses(&self) -> &Losses {
        &self.losses
    }

    /// The number of requests of a stream that were found to be missing, and are not noted as that on disk yet.
    #[must_use]
    pub fn found_missing(&self, stream: Stream) -> u64 {
        let unreadable = |losses: &Losses| losses.of(stream, Reason::Unreadable);
        unreadable(&self.losses).saturating_sub(unreadable(&self.head.losses))
    }

    /// The requests that were dropped since the last call.
    pub fn take_dropped(&mut self) -> Vec<Loss> {
        std::mem::take(&mut self.dropped)
    }

    /// The disk.
    pub const fn disk(&self) -> &D {
        &self.disk
    }

    /// Writes a request, and returns its number. It survives a power loss once [`Self::commit`] has returned.
    /// If there is no space, the oldest segments are dropped. `now` is in nanoseconds since 1970.
    ///
    /// # Errors
    /// Returns an error if the disk refuses or the request is too large. Then nothing that was written since
    /// the last commit is stored, and the numbers of all that are void.
    pub fn append(
        &mut self,
        stream: Stream,
        items: u64,
        payload: &[u8],
        now: u64,
    ) -> io::Result<u64> {
        self.try_append(stream, items, payload, now).inspect_err(|_| self.abandon())
    }

    fn try_append(
        &mut self,
        stream: Stream,
        items: u64,
        payload: &[u8],
        now: u64,
    ) -> io::Result<u64> {
        let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= MAX_PAYLOAD);
        let length = length.ok_or(io::ErrorKind::FileTooLarge)?;
        let size = record::HEADER_BYTES as u64 + u64::from(length);
        self.make_space(size + segment::HEADER_BYTES as u64)?;
        if !self.lane(stream).takes(size, self.limits.segment_bytes) {
            // What the new segment says of the old one must be true.
            self.try_commit()?;
            self.begin_segment(stream, now)?;
        }
        let lane = &mut self.lanes[stream.index()];
        let segment = lane.segments.back_mut().ok_or(io::ErrorKind::NotFound)?;
        let sequence = lane.next;
        lane.next += 1;
        lane.written.get_or_insert(sequence);
        let record = Record { sequence, items, stored_at: now, payload };
        let bytes = record.encode(segment::salt(stream, segment.first));
        let (name, offset) = (segment::name(stream, segment.first), segment.bytes);
        self.disk.write_at(&name, offset, &bytes.ok_or(io::ErrorKind::FileTooLarge)?)?;
        (segment.last, segment.bytes) = (sequence, offset + size);
        segment.newest_at = segment.newest_at.max(now);
        let pending = Pending { sequence, items, stored_at: now, length };
        lane.pending.insert(sequence, Place { pending, segment: segment.first, offset });
        Ok(sequence)
    }

    fn begin_segment(&mut self, stream: Stream, now: u64) -> io::Result<()> {
        let lane = &mut self.lanes[stream.index()];
        lane.close();
        let first = lane.next;
        let (name, header) = (
            segment::name(stream, first),
            Header { version: VERSION, committed: lane.committed }.encode(stream, first),
        );
        let made = self.disk.create(&name).and_then(|()| self.disk.write_at(&name, 0, &header));
        // The name may be taken now.
        lane.next += u64::from(made.is_err());
        made?;
        self.has_new_name = true;
        let bytes = segment::HEADER_BYTES as u64;
        let (last, oldest_at) = (first.saturating_sub(1), now);
        let is_damaged = false;
        let segment = Segment { first, last, bytes, oldest_at, newest_at: now, is_damaged };
        lane.segments.push_back(segment);
        lane.is_open = true;
        Ok(())
    }

    /// Makes durable what was written. One call covers all streams.
    ///
    /// # Errors
    /// Returns an error if the disk refuses, like [`Self::append`].
    pub fn commit(&mut self) -> io::Result<()> {
        self.try_commit().inspect_err(|_| self.abandon())
    }

    fn try_commit(&mut self) -> io::Result<()> {
        for stream in Stream::ALL {
            let lane = self.lane(stream);
            if let Some(first) = lane.open_segment().filter(|_| lane.written.is_some()) {
                self.disk.sync(&segment::name(stream, first))?;
            }
        }
        if std::mem::take(&mut self.has_new_name) {
            self.disk.sync_directory()?;
        }
        self.lanes.iter_mut().for_each(Lane::commit);
        Ok(())
    }

    /// After an error of the disk, its files are not written again: a second sync can succeed without the
    /// data of the first.
    fn abandon(&mut self) {
        self.lanes.iter_mut().for_each(Lane::abandon);
    }

    /// The bytes of a request, as they were stored.
    ///
    /// # Errors
    /// Returns an error if it was settled or dropped, or if its bytes are damaged or cannot be read.
    pub fn read(&self, stream: Stream, sequence: u64) -> Result<Vec<u8>, ReadError> {
        let place = self.lane(stream).pending.get(&sequence).ok_or(ReadError::Gone)?;
        let name = segment::name(stream, place.segment);
        let length = usize::try_from(place.pending.length).unwrap_or(usize::MAX);
        let size = length.saturating_add(record::HEADER_BYTES);
        let read = self.disk.read_at(&name, place.offset, size);
        let bytes = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof => {
                ReadError::Unreadable(format!("{name}: {error}"))
            }
            _ => ReadError::Disk(error),
        })?;
        match Record::decode_one(&bytes, segment::salt(stream, place.segment)) {
            Some(record) if record.sequence == sequence => Ok(record.payload.to_vec()),
            _ => Err(ReadError::Unreadable(format!("{name}: damaged"))),
        }
    }

    /// A request needs no further attempt: it was accepted, or rejected for good.
    pub fn settle(&mut self, stream: Stream, sequence: u64) {
        self.lanes[stream.index()].remove(sequence, None);
    }

    /// A request cannot be delivered. It is counted if it was pending.
    pub fn lose(&mut self, stream: Stream, sequence: u64, reason: Reason) {
        if self.lanes[stream.index()].remove(sequence, Some(reason)).is_some() {
            self.losses.add(stream, reason, 1);
        }
    }

    /// Drops what is too old, notes what is settled, and then removes segments of which all is. After a
    /// crash, what was settled since the last checkpoint is pending again.
    ///
    /// # Errors
    /// Returns an error if the disk refuses. Then nothing was removed that is not noted.
    pub fn checkpoint(&mut self, now: u64) -> io::Result<()> {
        let age = u64::try_from(self.limits.age.as_nanos()).unwrap_or(u64::MAX);
        let oldest_allowed = now.saturating_sub(age);
        for stream in Stream::ALL {
            while self.lane(stream).is_expired(oldest_allowed) {
                self.drop_oldest(stream, Reason::Expired);
            }
        }
        self.persist_and_remove()
    }

    fn persist_and_remove(&mut self) -> io::Result<()> {
        let marks = self.lanes.each_ref().map(Lane::mark);
        if (marks, self.losses) != (self.head.marks, self.head.losses) {
            let (generation, losses) = (self.head.generation + 1, self.losses);
            let head = Head { generation, marks, losses };
            self.disk.write_at(head::NAME, head.offset(), &head.encode())?;
            self.disk.sync(head::NAME)?;
            self.head = head;
        }
        for (stream, lane) in Stream::ALL.into_iter().zip(&mut self.lanes) {
            while let Some(Segment { first, is_damaged, .. }) = lane.removable() {
                let name = segment::name(stream, *first);
                let removed = if *is_damaged {
                    self.disk.rename(&name, &segment::damaged_name(stream, *first))
                } else {
                    self.disk.remove(&name)
                };
                match removed {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => lane.segments.pop_front(),
                };
            }
        }
        Ok(())
    }

    /// Whether a request with a payload of this length can be stored without dropping another.
    #[must_use]
    pub fn fits(&self, length: u64) -> bool {
        let headers = (record::HEADER_BYTES + segment::HEADER_BYTES) as u64;
        self.has_space(length.saturating_add(headers))
    }

    fn has_space(&self, bytes: u64) -> bool {
        let requests: usize = self.lanes.iter().map(|lane| lane.pending.len()).sum();
        self.bytes().saturating_add(bytes) <= self.limits.bytes && requests < self.limits.requests
    }

    fn make_space(&mut self, bytes: u64) -> io::Result<()> {
        if !self.has_space(bytes) {
            self.persist_and_remove()?;
        }
        while !self.has_space(bytes) {
            let age = |stream: &Stream| Some(self.lane(*stream).segments.front()?.oldest_at);
            let fronts = Stream::ALL.into_iter().filter_map(|it| Some((age(&it)?, it)));
            let (_, stream) = fronts.min().ok_or(io::ErrorKind::StorageFull)?;
            self.drop_oldest(stream, Reason::Full);
            self.persist_and_remove()?;
        }
        Ok(())
    }

    fn drop_oldest(&mut self, stream: Stream, reason: Reason) {
        for place in self.lanes[stream.index()].drop_oldest() {
            let Pending { sequence, items, .. } = place.pending;
            self.losses.add(stream, reason, 1);
            self.dropped.push(Loss { stream, sequence, items, reason });
        }
    }

    fn lane(&self, stream: Stream) -> &Lane {
        &self.lanes[stream.index()]
    }
}
