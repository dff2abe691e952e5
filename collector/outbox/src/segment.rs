//! Segments: a header, and records with consecutive sequence numbers.
//!
//! The name is the stream and the first sequence number: `1-00000000000004d2.log`. The header has the version
//! of the format, and up to where the stream was durable when the segment was begun: what is missing below was
//! lost, what is missing above was never stored.

use crate::bytes::Reader;
use crate::stream::Stream;

/// The version of the format of segments and of the head.
pub(crate) const VERSION: u32 = 1;

const MAGIC: [u8; 8] = *b"PMOUTBOX";
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 32;
const SUFFIX: &str = ".log";
/// Ends the name of a damaged segment whose readable requests are settled.
const DAMAGED: &str = ".damaged";

/// The header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: u32,
    /// The last sequence number that was durable before.
    pub(crate) committed: u64,
}

impl Header {
    pub(crate) fn encode(self, stream: Stream, first: u64) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let (magic, rest) = bytes.split_at_mut(MAGIC.len());
        magic.copy_from_slice(&MAGIC);
        rest[..4].copy_from_slice(&self.version.to_le_bytes());
        rest[4..12].copy_from_slice(&self.committed.to_le_bytes());
        let crc = salt(stream, first) ^ crc32fast::hash(&rest[..12]);
        rest[12..16].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` if it is damaged or not complete.
    pub(crate) fn decode(bytes: &[u8], stream: Stream, first: u64) -> Option<Self> {
        let fields = bytes.get(..HEADER_BYTES)?.strip_prefix(&MAGIC)?;
        let mut reader = Reader(fields);
        let header = Self { version: reader.u32(), committed: reader.u64() };
        let crc = salt(stream, first) ^ crc32fast::hash(fields.get(..12)?);
        (reader.u32() == crc).then_some(header)
    }
}

/// What the checksums of a segment begin with: a record of another one is not valid.
pub(crate) fn salt(stream: Stream, first: u64) -> u32 {
    crc32fast::hash(name(stream, first).as_bytes())
}

/// The name of a segment.
pub(crate) fn name(stream: Stream, first: u64) -> String {
    format!("{}-{first:016x}{SUFFIX}", stream.index())
}

/// The name under which a damaged segment is kept.
pub(crate) fn damaged_name(stream: Stream, first: u64) -> String {
    format!("{}{DAMAGED}", name(stream, first))
}

/// The stream and the first sequence number of a name; `None` if it is not one of a segment.
pub(crate) fn parse(text: &str) -> Option<(Stream, u64)> {
    let (stream, first) = text.strip_suffix(SUFFIX)?.split_once('-')?;
    let stream = *Stream::ALL.get(stream.parse::<usize>().ok()?)?;
    let first = u64::from_str_radix(first, 16).ok()?;
    (name(stream, first) == text).then_some((stream, first))
}

/// A segment on disk.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Its first sequence number.
    pub(crate) first: u64,
    /// Its last sequence number; below the first if it has no record.
    pub(crate) last: u64,
    pub(crate) bytes: u64,
    /// When its oldest and its newest request were stored, in nanoseconds since 1970.
    pub(crate) oldest_at: u64,
    pub(crate) newest_at: u64,
    /// Whether something that was stored in it cannot be read.
    pub(crate) is_damaged: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_header_round_trip() {
        let stream = Stream::ALL[1];
        assert_eq!(name(stream, 1234), "1-00000000000004d2.log");
        assert_eq!(parse(&name(stream, 1234)), Some((stream, 1234)));
        for other in ["head", "lock", "3-0000000000000001.log", "1-1.log", "1-00000000000004D2.log"]
        {
            assert_eq!(parse(other), None, "{other}");
        }
        let header = Header { version: 7, committed: 1233 };
        let bytes = header.encode(stream, 1234);
        assert_eq!(Header::decode(&bytes, stream, 1234), Some(header));
        assert_eq!(Header::decode(&bytes, stream, 1235), None);
        assert_eq!(Header::decode(&bytes[..31], stream, 1234), None);
    }
}
