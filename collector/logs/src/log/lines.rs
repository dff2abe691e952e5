//! Splits a stream into lines with one buffer of fixed size.

use std::io::{self, ErrorKind, Read};

use memchr::memchr;

/// Maximum length of a row in bytes; longer lines are rejected.
pub(crate) const MAX_ROW: usize = 64 << 10;

/// Bytes of [`Lines::peek`].
pub(crate) const AHEAD: usize = 256;

/// One line without its ending, `\n` or `\r\n`. The last one may have none.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Line<'a> {
    Whole(&'a [u8]),
    TooLong,
}

/// The lines of a stream.
pub(crate) struct Lines {
    stream: Box<dyn Read + Send>,
    /// Twice the maximum row length, so that completing a row reads at least as much ahead; and
    /// [`AHEAD`].
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    number: u64,
    at_end: bool,
}

impl Lines {
    /// The lines of a stream, each at most `max_row` bytes long.
    pub(crate) fn new(stream: Box<dyn Read + Send>, max_row: usize) -> Self {
        let buffer = vec![0; 2 * max_row + AHEAD].into_boxed_slice();
        Self { stream, buffer, start: 0, end: 0, number: 0, at_end: false }
    }

    /// The number of the last returned line, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// The beginning of the next line with what follows it in memory, and how many of these bytes were
    /// read already.
    #[inline]
    pub(crate) fn peek(&self) -> Option<(&[u8; AHEAD], usize)> {
        let ahead = self.buffer.get(self.start..)?.first_chunk()?;
        Some((ahead, self.end - self.start))
    }

    /// Consumes the line that was peeked at, of this length with its ending.
    #[inline]
    pub(crate) const fn consume(&mut self, length: usize) {
        self.start += length;
        self.number += 1;
    }

    /// The next line; `None` at the end. After an error there are no more lines, and the
    /// interrupted line is discarded.
    #[inline]
    pub(crate) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        let (length, too_long) = match memchr(b'\n', self.ahead()) {
            Some(length) => (length, length > self.max_row()),
            None => match self.complete()? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        let start = self.start;
        self.start = (start + length + 1).min(self.end);
        self.number += 1;
        if too_long {
            return Ok(Some(Line::TooLong));
        }
        let line = self.buffer.get(start..start + length);
        let line = line.unwrap_or_default();
        Ok(Some(Line::Whole(line.strip_suffix(b"\r").unwrap_or(line))))
    }

    /// Reads until the line at `start` is complete; returns its length and whether it is too long.
    /// Lines that are too long are discarded.
    #[cold]
    fn complete(&mut self) -> io::Result<Option<(usize, bool)>> {
        let mut too_long = false;
        loop {
            let searched = self.ahead().len();
            if searched > self.max_row() {
                too_long = true;
                self.start = self.end;
                continue;
            }
            if !self.fill()? {
                return Ok((searched > 0 || too_long).then_some((searched, too_long)));
            }
            let new = self.ahead().get(searched..).unwrap_or_default();
            if let Some(at) = memchr(b'\n', new) {
                let length = searched + at;
                return Ok(Some((length, too_long || length > self.max_row())));
            }
        }
    }

    /// Reads once into the free space; false at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let capacity = 2 * self.max_row();
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while !self.at_end {
            let free = self.buffer.get_mut(self.end..capacity);
            match self.stream.read(free.unwrap_or_default()) {
                Ok(0) => self.at_end = true,
                Ok(read) => {
                    self.end = (self.end + read).min(capacity);
                    return Ok(true);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    self.at_end = true;
                    self.end = self.start;
                    return Err(error);
                }
            }
        }
        Ok(false)
    }

    /// Bytes read but not yet returned.
    fn ahead(&self) -> &[u8] {
        self.buffer.get(self.start..self.end).unwrap_or_default()
    }

    const fn max_row(&self) -> usize {
        (self.buffer.len() - AHEAD) / 2
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::chunked_reader::ChunkedReader;
    use super::*;

    const MAX: usize = 10;

    fn all(stream: impl Read + Send + 'static) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(Box::new(stream), MAX);
        let mut all = Vec::new();
        while let Some(line) = lines.next().unwrap() {
            all.push(match line {
                Line::Whole(line) => Some(line.to_vec()),
                Line::TooLong => None,
            });
            assert_eq!(lines.number(), all.len() as u64);
        }
        all
    }

    #[test]
    fn error_ends_stream_after_complete_lines() {
        struct Fails;
        impl Read for Fails {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(ErrorKind::UnexpectedEof.into())
            }
        }
        let mut lines = Lines::new(Box::new(b"one\ntw".chain(Fails)), MAX);
        let first = lines.next().unwrap();
        assert!(matches!(first, Some(Line::Whole(b"one"))));
        assert!(lines.next().is_err());
        assert!(lines.next().unwrap().is_none());
    }

    proptest! {
        /// The lines do not depend on how the bytes are chunked.
        #[test]
        fn lines_do_not_depend_on_chunks(
            parts in proptest::collection::vec("[ab]{0,25}\r?\n?", 0..20),
            sizes in proptest::collection::vec(1_usize..30, 1..5),
        ) {
            let text = parts.concat();
            let mut expected: Vec<&str> = text.split('\n').collect();
            if text.is_empty() || text.ends_with('\n') {
                expected.pop();
            }
            let expected: Vec<_> = expected
                .into_iter()
                .map(|line| (line.len() <= MAX).then(|| line.strip_suffix('\r').unwrap_or(line)))
                .map(|line| line.map(|line| line.as_bytes().to_vec()))
                .collect();
            prop_assert_eq!(all(ChunkedReader::new(text, sizes)), expected);
        }
    }
}
