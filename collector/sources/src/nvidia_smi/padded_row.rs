//! A row with the bytes after it, so that it is read in blocks of fixed size up to its end.
//!
//! Must not depend on columns.

/// Bytes that are searched for commas at once.
pub(super) const BLOCK: usize = 64;

/// A row without its line ending, and what follows it in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct PaddedRow<'a> {
    bytes: &'a [u8],
    len: usize,
}

impl<'a> PaddedRow<'a> {
    /// The first `len` of these bytes. It is read faster if at least [`BLOCK`] more follow.
    #[inline]
    pub(super) const fn new(bytes: &'a [u8], len: usize) -> Self {
        Self { bytes, len }
    }

    /// Its length.
    #[inline]
    pub(super) const fn len(self) -> usize {
        self.len
    }

    /// The row alone.
    #[inline]
    pub(super) fn row(self) -> &'a [u8] {
        self.cell(0, self.len)
    }

    /// The bytes from `start` to `end`.
    #[inline]
    pub(super) fn cell(self, start: usize, end: usize) -> &'a [u8] {
        self.bytes.get(start..end).unwrap_or_default()
    }

    /// The byte at an offset, which may be after the row.
    #[inline]
    pub(super) fn byte(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    /// The commas and the end of the row in the [`BLOCK`] bytes from `at` on, a bit each, the first
    /// one lowest.
    #[inline]
    pub(super) fn separators(self, at: usize) -> u64 {
        let bytes = self.bytes.get(at..).unwrap_or_default();
        let commas = bytes.first_chunk().map_or_else(|| commas(&copy(bytes)), commas);
        match self.len.saturating_sub(at) {
            left if left < BLOCK => commas & ((1 << left) - 1) | 1 << left,
            _ => commas,
        }
    }

    /// The eight bytes before `end`, the last one highest.
    #[inline]
    pub(super) fn word_before(self, end: usize) -> Option<u64> {
        let word = self.bytes.get(..end)?.last_chunk()?;
        Some(u64::from_le_bytes(*word))
    }
}

/// A bit for each comma. Compiles to vector instructions.
#[inline]
fn commas(block: &[u8; BLOCK]) -> u64 {
    // The product with this has the lowest bits of eight bytes in its highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let commas = block.map(|byte| u8::from(byte == b','));
    let (words, _) = commas.as_chunks();
    let bits = words.iter().map(|word| u64::from_le_bytes(*word).wrapping_mul(GATHER) >> 56);
    bits.rev().fold(0, |commas, bits| commas << 8 | bits)
}

/// The last bytes of a stream as a block.
#[cold]
fn copy(bytes: &[u8]) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    block.iter_mut().zip(bytes).for_each(|(copy, byte)| *copy = *byte);
    block
}

impl<'a> From<&'a [u8]> for PaddedRow<'a> {
    fn from(row: &'a [u8]) -> Self {
        Self::new(row, row.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Every comma and the end of the row have their bits, and nothing else has.
        #[test]
        fn separators_are_those_of_the_row(
            bytes in proptest::collection::vec(b'+'..b'/', 0..200),
            (len, at) in (0_usize..200, 0_usize..200),
        ) {
            let row = PaddedRow::new(&bytes, len.min(bytes.len()));
            prop_assume!(at <= row.len());
            let separates = |at: usize| at == row.len() || row.row().get(at) == Some(&b',');
            let bits = (0..BLOCK).filter(|bit| separates(at + bit));
            prop_assert_eq!(row.separators(at), bits.fold(0, |mask, bit| mask | 1_u64 << bit));
        }
    }
}
