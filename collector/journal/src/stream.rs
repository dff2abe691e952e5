//! The bytes of entries in a journal: streams of deflate, so that each entry is short where it is like those before.
//!
//! A payload is the version of the format, whether the entry begins a stream, and what deflate has made of it until a sync
//! flush.

use std::io::{self, Write};
use std::mem;

use flate2::Compression;
use flate2::write::{DeflateDecoder, DeflateEncoder};
use phasemeter_outbox::{Disk, Journal};

/// The version of the format.
const FORMAT: u8 = 2;

/// Whether an entry begins a stream.
const CONTINUES: u8 = 0;
const BEGINS: u8 = 1;

/// Entries of a stream: those of a minute. To find the last entry, its stream is decompressed, and no other one.
const ENTRIES: u32 = 120;

/// The most that an entry can be, decompressed: a thousand times what half a second of 8 GPUs is.
const MAX_BYTES: usize = 8 << 20;

/// A journal that is appended to: each process begins a stream, and another one each minute.
#[derive(Debug)]
pub(crate) struct Stream {
    journal: Journal<Box<dyn Disk + Send>>,
    encoder: Encoder,
}

impl Stream {
    /// Begins a stream at the end of a journal.
    pub(crate) fn begin(journal: Journal<Box<dyn Disk + Send>>) -> Self {
        Self { journal, encoder: Encoder::begin() }
    }

    /// Appends an entry. The journal is of no use after an error.
    pub(crate) fn append(&mut self, plain: &[u8]) -> io::Result<()> {
        self.journal.append(&self.encoder.encode(plain)?)
    }

    /// Makes all that was appended durable. The journal is of no use after an error.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.journal.sync()
    }

    /// The bytes of the journal.
    pub(crate) const fn bytes(&self) -> u64 {
        self.journal.bytes()
    }
}

#[derive(Debug)]
struct Encoder {
    deflate: DeflateEncoder<Vec<u8>>,
    /// Entries that the stream still has space for.
    left: u32,
}

impl Encoder {
    fn begin() -> Self {
        let deflate = DeflateEncoder::new(Vec::new(), Compression::default());
        Self { deflate, left: 0 }
    }

    /// The payload of an entry.
    fn encode(&mut self, plain: &[u8]) -> io::Result<Vec<u8>> {
        if plain.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let begins = self.left == 0;
        if begins {
            // The end of the stream before is not kept.
            drop(self.deflate.reset(Vec::new())?);
            self.left = ENTRIES;
        }
        self.left -= 1;
        // After a flush, nothing waits before it.
        self.deflate.get_mut().extend([FORMAT, if begins { BEGINS } else { CONTINUES }]);
        self.deflate.write_all(plain)?;
        self.deflate.flush()?;
        Ok(mem::take(self.deflate.get_mut()))
    }
}

/// Whether a stream begins with this payload.
pub(crate) fn begins(payload: &[u8]) -> bool {
    payload.starts_with(&[FORMAT, BEGINS])
}

/// Reads payloads, from the first one of a journal on.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    inflate: Option<DeflateDecoder<Plain>>,
}

impl Decoder {
    /// The entry of the next payload; `None` if it is not one of this version, which follows those before.
    pub(crate) fn decode(&mut self, payload: &[u8]) -> Option<&[u8]> {
        let (&[FORMAT, place], bytes) = payload.split_first_chunk()? else { return None };
        match place {
            BEGINS => self.inflate = Some(DeflateDecoder::new(Plain::default())),
            CONTINUES => {}
            _ => return None,
        }
        let inflate = self.inflate.as_mut()?;
        inflate.get_mut().0.clear();
        inflate.write_all(bytes).and_then(|()| inflate.flush()).ok()?;
        Some(&inflate.get_ref().0)
    }
}

/// What one entry is, decompressed.
#[derive(Debug, Default)]
struct Plain(Vec<u8>);

impl Write for Plain {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Guarantee: entries return as they were, those of several processes one behind the other too, from the first one of
        /// a stream on; one whose stream is not there from the first one on does not return.
        #[test]
        fn entries_return_in_order(
            streams in prop::collection::vec(
                prop::collection::vec(prop::collection::vec(0_u8..9, 0..300), 1..300),
                1..3,
            ),
        ) {
            let payloads: Vec<Vec<_>> = streams
                .iter()
                .map(|entries| {
                    let mut encoder = Encoder::begin();
                    entries.iter().map(|entry| encoder.encode(entry).unwrap()).collect()
                })
                .collect();
            let mut all = Decoder::default();
            let mut of_stream = Decoder::default();
            for (payload, entry) in payloads.iter().flatten().zip(streams.iter().flatten()) {
                prop_assert_eq!(all.decode(payload), Some(&entry[..]));
                if begins(payload) {
                    of_stream = Decoder::default();
                } else {
                    prop_assert!(Decoder::default().decode(payload).is_none());
                }
                prop_assert_eq!(of_stream.decode(payload), Some(&entry[..]));
            }
            let begun = payloads.iter().flatten().filter(|payload| begins(payload)).count();
            let streams = streams.iter().map(|entries| entries.len().div_ceil(120));
            prop_assert_eq!(begun, streams.sum::<usize>());
        }
    }

    /// Guarantee: an entry like those before is a fraction of the first one; one that is too long is neither written nor
    /// decompressed.
    #[test]
    fn entries_are_short_and_bounded() {
        let entry: Vec<u8> =
            (0..=u8::MAX).map(|byte| byte.wrapping_mul(byte) ^ (byte >> 3)).collect();
        let mut encoder = Encoder::begin();
        let (first, second) = (encoder.encode(&entry).unwrap(), encoder.encode(&entry).unwrap());
        assert!(second.len() * 8 < first.len(), "{} after {}", second.len(), first.len());
        let longest = vec![0; MAX_BYTES];
        assert_eq!(
            Decoder::default().decode(&Encoder::begin().encode(&longest).unwrap()),
            Some(&longest[..])
        );
        assert!(encoder.encode(&vec![0; MAX_BYTES + 1]).is_err());
        let mut bomb = DeflateEncoder::new(vec![FORMAT, BEGINS], Compression::default());
        bomb.write_all(&vec![0; MAX_BYTES + 1]).unwrap();
        bomb.flush().unwrap();
        assert_eq!(Decoder::default().decode(bomb.get_ref()), None);
    }
}
