//! Test reader that returns its bytes in chunks of given sizes.

use std::io::{Cursor, Read, Result};

pub(crate) struct ChunkedReader {
    bytes: Cursor<Vec<u8>>,
    sizes: Vec<usize>,
}

impl ChunkedReader {
    /// Repeats these chunk sizes.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>, sizes: Vec<usize>) -> Self {
        Self { bytes: Cursor::new(bytes.into()), sizes }
    }
}

impl Read for ChunkedReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        self.sizes.rotate_left(1);
        let size = self.sizes[0].min(buffer.len());
        self.bytes.read(&mut buffer[..size])
    }
}
