//! Records: `mark | crc | length | items | sequence | time | payload`, numbers in little endian.
//!
//! The checksum covers all that follows it, and the segment that the record belongs to. After damage, reading
//! goes on at the next mark with a valid record behind it.

use crc32fast::Hasher;

use crate::bytes::Reader;

/// Begins each record. It is not UTF-8.
const MARK: [u8; 4] = [0xF5, b'P', b'M', b'R'];
/// Bytes before the payload.
pub(crate) const HEADER_BYTES: usize = 36;
/// Where the checksummed part begins.
const CHECKED: usize = 8;
/// The longest payload. A receiver accepts requests of up to 20 MiB.
pub(crate) const MAX_PAYLOAD: usize = 64 << 20;

/// A record of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its number in its stream.
    pub sequence: u64,
    /// The items in the request.
    pub items: u64,
    /// When it was stored, in nanoseconds since 1970.
    pub stored_at: u64,
    /// The request.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Its bytes in a segment; `None` if the payload is too long. `salt` is that of the segment.
    #[must_use]
    pub fn encode(&self, salt: u32) -> Option<Vec<u8>> {
        let length = u32::try_from(self.payload.len()).ok()?;
        if self.payload.len() > MAX_PAYLOAD {
            return None;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.payload.len());
        bytes.extend_from_slice(&MARK);
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&length.to_le_bytes());
        for number in [self.items, self.sequence, self.stored_at] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(self.payload);
        let crc = checksum(salt, bytes.get(CHECKED..)?);
        bytes.get_mut(MARK.len()..CHECKED)?.copy_from_slice(&crc.to_le_bytes());
        Some(bytes)
    }

    /// The record at the beginning of these bytes; `None` if it is damaged or not complete. `checked` is
    /// lowered by the bytes that were summed.
    fn decode(bytes: &'a [u8], salt: u32, checked: &mut usize) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let mut fields = Reader(header.strip_prefix(&MARK)?);
        let (crc, length) = (fields.u32(), usize::try_from(fields.u32()).ok()?);
        let (items, sequence, stored_at) = (fields.u64(), fields.u64(), fields.u64());
        let end = HEADER_BYTES.checked_add(length).filter(|_| length <= MAX_PAYLOAD)?;
        let covered = bytes.get(CHECKED..end)?;
        *checked = checked.checked_sub(covered.len())?;
        let payload = bytes.get(HEADER_BYTES..end)?;
        (checksum(salt, covered) == crc).then_some(Self { sequence, items, stored_at, payload })
    }

    /// The record that these bytes are, and nothing else.
    pub(crate) fn decode_one(bytes: &'a [u8], salt: u32) -> Option<Self> {
        let record = Self::decode(bytes, salt, &mut usize::MAX.clone())?;
        (record.length() == bytes.len()).then_some(record)
    }

    /// Bytes in a segment.
    pub(crate) const fn length(&self) -> usize {
        HEADER_BYTES + self.payload.len()
    }
}

fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    let mut hasher = Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

/// All readable records of a segment, with their offsets from the beginning of these bytes.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    offset: usize,
    salt: u32,
    /// Bytes that may still be summed, so that forged marks cost linear time only.
    checked: usize,
}

impl<'a> Records<'a> {
    /// Reads these bytes with the salt of their segment.
    #[must_use]
    pub const fn new(bytes: &'a [u8], salt: u32) -> Self {
        Self { bytes, offset: 0, salt, checked: bytes.len().saturating_mul(4) }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = (usize, Record<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.bytes.get(self.offset..)?;
            let mark = rest.windows(MARK.len()).position(|window| window == MARK)?;
            let start = self.offset + mark;
            match Record::decode(rest.get(mark..)?, self.salt, &mut self.checked) {
                Some(record) => {
                    self.offset = start + record.length();
                    return Some((start, record));
                }
                None => self.offset = start + 1,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(sequence: u64, payload: &[u8]) -> Record<'_> {
        Record { sequence, items: 7, stored_at: 9, payload }
    }

    #[test]
    fn record_round_trips_only_in_its_segment() {
        let bytes = record(3, b"payload").encode(1).unwrap();
        assert_eq!(Record::decode_one(&bytes, 1), Some(record(3, b"payload")));
        assert_eq!(Record::decode_one(&bytes, 2), None);
        assert_eq!(Record::decode_one(&[&bytes[..], b"x"].concat(), 1), None);
    }

    /// Whatever one byte is changed to, the other records are read, and no changed one is.
    #[test]
    fn damage_costs_the_record_that_it_hits() {
        let encode = |sequence| record(sequence, &[MARK, MARK].concat()).encode(1).unwrap();
        let (first, second) = (encode(1), encode(2));
        let whole = [first.clone(), second].concat();
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 0x40;
            let read: Vec<u64> = Records::new(&damaged, 1).map(|(_, it)| it.sequence).collect();
            let left = if position < first.len() { [2] } else { [1] };
            assert_eq!(read, left, "byte {position}");
        }
    }

    #[test]
    fn forged_marks_cost_linear_time() {
        let mut forged = Vec::new();
        for left in (0..20_000_u32).rev() {
            forged.extend_from_slice(&MARK);
            forged.extend_from_slice(&[0; 4]);
            forged.extend_from_slice(&(left * 12).saturating_sub(24).to_le_bytes());
        }
        let mut records = Records::new(&forged, 1);
        assert_eq!(records.by_ref().count(), 0);
        assert!(records.checked < HEADER_BYTES + forged.len(), "most was summed, and no more");
    }
}
