//! The head: up to where each stream is settled, what is known to be durable, and what was lost.
//!
//! Two slots, each in a sector of its own, written in full when the file is created and then in turn: a torn
//! write damages one, and the other has the state before.

use crate::bytes::Reader;
use crate::losses::{Losses, Reason};
use crate::segment::VERSION;
use crate::stream::Stream;

/// The name of the file.
pub(crate) const NAME: &str = "head";

const MAGIC: [u8; 8] = *b"PMOUTHED";
/// The distance of the slots.
pub(crate) const SLOT_BYTES: u64 = 512;
/// Bytes of a slot that are used.
const USED: usize = 24 + Stream::COUNT * STREAM_BYTES;
const STREAM_BYTES: usize = 24 + Reason::ALL.len() * 8;

/// The state of one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// All requests before this number are settled.
    pub(crate) head: u64,
    /// The last number that is durable.
    pub(crate) committed: u64,
    /// What is missing up to this number was counted.
    pub(crate) counted: u64,
}

/// The contents of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) generation: u64,
    pub(crate) marks: [Mark; Stream::COUNT],
    pub(crate) losses: Losses,
}

impl Default for Head {
    fn default() -> Self {
        let mark = Mark { head: 1, committed: 0, counted: 0 };
        Self { generation: 0, marks: [mark; Stream::COUNT], losses: Losses::default() }
    }
}

/// What a file has.
#[derive(Debug)]
pub(crate) enum Found {
    /// The newest slot that is valid.
    Head(Head),
    /// No slot is valid.
    Nothing,
    /// A newer version has written it.
    Newer(u32),
}

impl Head {
    /// Where this generation is written.
    pub(crate) const fn offset(&self) -> u64 {
        (self.generation % 2) * SLOT_BYTES
    }

    /// A slot: `magic | version | crc | generation | marks and losses of each stream`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = self.generation.to_le_bytes().to_vec();
        for (stream, mark) in Stream::ALL.into_iter().zip(&self.marks) {
            let losses = Reason::ALL.map(|reason| self.losses.of(stream, reason));
            for number in [mark.head, mark.committed, mark.counted].into_iter().chain(losses) {
                body.extend_from_slice(&number.to_le_bytes());
            }
        }
        let crc = checksum(&body);
        [&MAGIC[..], &VERSION.to_le_bytes(), &crc.to_le_bytes(), &body].concat()
    }

    /// The whole file: both slots with this state.
    pub(crate) fn file(&self) -> Vec<u8> {
        let mut bytes = self.encode();
        bytes.resize(usize::try_from(SLOT_BYTES).unwrap_or(usize::MAX), 0);
        bytes.repeat(2)
    }

    pub(crate) fn find(bytes: &[u8]) -> Found {
        let slots = bytes.chunks(usize::try_from(SLOT_BYTES).unwrap_or(usize::MAX));
        let mut newest = Found::Nothing;
        for slot in slots.take(2) {
            match (Self::decode(slot), &newest) {
                (Found::Newer(version), _) => return Found::Newer(version),
                (Found::Head(found), Found::Head(known)) if found.generation < known.generation => {
                }
                (Found::Head(found), _) => newest = Found::Head(found),
                (Found::Nothing, _) => {}
            }
        }
        newest
    }

    fn decode(slot: &[u8]) -> Found {
        let Some(fields) = slot.strip_prefix(&MAGIC) else { return Found::Nothing };
        let mut reader = Reader(fields);
        let (version, crc) = (reader.u32(), reader.u32());
        let is_valid = slot.get(MAGIC.len() + 8..USED).is_some_and(|body| checksum(body) == crc);
        if version > VERSION && !is_valid {
            return Found::Newer(version);
        }
        if !is_valid || version != VERSION {
            return Found::Nothing;
        }
        let mut head = Self { generation: reader.u64(), ..Self::default() };
        for (stream, mark) in Stream::ALL.into_iter().zip(&mut head.marks) {
            let (head_number, committed) = (reader.u64(), reader.u64());
            *mark = Mark { head: head_number, committed, counted: reader.u64() };
            for reason in Reason::ALL {
                head.losses.add(stream, reason, reader.u64());
            }
        }
        Found::Head(head)
    }
}

/// It begins with the version, so that a damaged version is not taken for a newer one.
fn checksum(body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(VERSION);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_valid_slot_counts() {
        let mut old = Head { generation: 4, ..Head::default() };
        old.losses.add(Stream::ALL[1], Reason::Expired, 3);
        let new = Head { generation: 5, ..old };
        let mut file = old.file();
        let start = usize::try_from(new.offset()).unwrap();
        file[start..start + USED].copy_from_slice(&new.encode());
        let found = |file: &[u8]| match Head::find(file) {
            Found::Head(head) => head.generation,
            other => panic!("{other:?}"),
        };
        assert_eq!(found(&file), 5);
        file[start + 9] ^= 4;
        assert_eq!(found(&file), 4, "a damaged version is not a newer one");
        file[start + 9] ^= 4;
        file[start + USED - 1] ^= 1;
        assert_eq!(found(&file), 4, "a torn write leaves the state before");
        file[USED - 1] ^= 1;
        assert!(matches!(Head::find(&file), Found::Nothing));
        assert!(matches!(Head::find(b""), Found::Nothing));
        file[8] = 9;
        assert!(matches!(Head::find(&file), Found::Newer(9)));
    }
}
