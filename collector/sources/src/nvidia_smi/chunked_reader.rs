//! A stream that gives its bytes in pieces of any size, to show that readers do not care.

use std::io::{Cursor, Read, Result};

pub(super) struct ChunkedReader {
    bytes: Cursor<Vec<u8>>,
    sizes: Vec<usize>,
}

impl ChunkedReader {
    /// ChunkedReader of these sizes, over and over.
    pub(super) fn new(bytes: impl Into<Vec<u8>>, sizes: Vec<usize>) -> Self {
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
