//! Opens a log and decodes its bytes to UTF-8.

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::read::MultiGzDecoder;

use crate::SourceError;
use crate::file_id::FileId;

/// The location of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file, or anything else that can be opened and read.
    File(PathBuf),
}

/// A path from the command line: `-` is standard input.
impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Self {
        if path.as_os_str() == "-" { Self::Stdin } else { Self::File(path) }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

/// An open log, not yet decoded.
pub(crate) struct OpenedLog {
    pub(crate) bytes: Box<dyn Read + Send>,
    id: FileId,
    /// Size in bytes; `None` if unknown.
    size: Option<u64>,
}

impl OpenedLog {
    /// The beginning of its text, of limited length, without consuming it.
    #[cfg(feature = "full")]
    pub(crate) fn peek(&mut self) -> io::Result<String> {
        const LENGTH: u64 = 8 << 10;
        let head = read_prefix(&mut self.bytes, LENGTH)?;
        let rest = std::mem::replace(&mut self.bytes, Box::new(io::empty()));
        self.bytes = Box::new(Cursor::new(head.clone()).chain(rest));
        let mut text = Vec::new();
        // The end of the head is not the end of what is compressed.
        let decoded = decode(Box::new(Cursor::new(head)));
        let _ = decoded.and_then(|decoded| decoded.take(LENGTH).read_to_end(&mut text));
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

/// Open logs, each a different file.
pub struct OpenedInputs(Vec<(Input, OpenedLog)>);

impl OpenedInputs {
    /// Opens logs.
    ///
    /// # Errors
    /// Returns an error if a log is unreadable or given twice.
    pub fn open(inputs: &[Input]) -> Result<Self, SourceError> {
        let mut opened = Vec::new();
        let mut files = HashMap::new();
        for input in inputs {
            let log = open(input)?;
            if let Some(first) = files.insert(log.id, input) {
                let (input, first) = (input.to_string(), first.to_string());
                return Err(SourceError::Duplicate { input, first });
            }
            opened.push((input.clone(), log));
        }
        Ok(Self(opened))
    }

    /// The size of all in bytes; `None` if unknown.
    pub(crate) fn size(&self) -> Option<u64> {
        let mut sizes = self.0.iter().map(|(_, log)| log.size);
        sizes.try_fold(0_u64, |sum, size| Some(sum.saturating_add(size?)))
    }

    #[cfg(feature = "full")]
    pub(crate) const fn count(&self) -> usize {
        self.0.len()
    }

    #[cfg(feature = "full")]
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Input, &mut OpenedLog)> {
        self.0.iter_mut().map(|(input, log)| (&*input, log))
    }

    pub(crate) fn into_each(self) -> impl Iterator<Item = (Input, OpenedLog)> {
        self.0.into_iter()
    }
}

/// Opens a log.
fn open(input: &Input) -> Result<OpenedLog, SourceError> {
    let opened = match input {
        Input::Stdin => io::stdin().as_fd().try_clone_to_owned().map(File::from),
        Input::File(path) => File::open(path),
    };
    let unreadable = |source| SourceError::Unreadable { input: input.to_string(), source };
    let file = opened.map_err(unreadable)?;
    let metadata = file.metadata().map_err(unreadable)?;
    if metadata.is_dir() {
        return Err(SourceError::Directory { input: input.to_string() });
    }
    let size = metadata.is_file().then_some(metadata.len());
    Ok(OpenedLog { bytes: Box::new(file), id: FileId::of(&metadata), size })
}

/// Decodes bytes to UTF-8 without a byte order mark: decompresses gzip, whatever the file's name,
/// and converts UTF-16 if it has a byte order mark.
///
/// # Errors
/// Returns an error if the first bytes cannot be read.
pub fn decode(mut bytes: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let magic = read_prefix(&mut bytes, 2)?;
    let is_gzip = magic == [0x1F, 0x8B];
    let bytes = Cursor::new(magic).chain(bytes);
    if is_gzip { text(MultiGzDecoder::new(bytes)) } else { text(bytes) }
}

fn text(mut bytes: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let prefix = read_prefix(&mut bytes, 3)?;
    Ok(match prefix.as_slice() {
        [0xEF, 0xBB, 0xBF] => Box::new(bytes),
        [0xFF, 0xFE, rest @ ..] => {
            Box::new(Utf16Decoder::new(Cursor::new(rest.to_vec()).chain(bytes), u16::from_le_bytes))
        }
        [0xFE, 0xFF, rest @ ..] => {
            Box::new(Utf16Decoder::new(Cursor::new(rest.to_vec()).chain(bytes), u16::from_be_bytes))
        }
        _ => Box::new(Cursor::new(prefix).chain(bytes)),
    })
}

/// The first `count` bytes, or fewer at the end.
fn read_prefix(bytes: &mut impl Read, count: u64) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    bytes.take(count).read_to_end(&mut first)?;
    Ok(first)
}

/// Whether the error means corrupt data, as opposed to a failed read.
pub(crate) fn is_corrupt(error: &io::Error) -> bool {
    let kinds = [ErrorKind::UnexpectedEof, ErrorKind::InvalidInput, ErrorKind::InvalidData];
    error.raw_os_error().is_none() && kinds.contains(&error.kind())
}

/// Counts the bytes read, for progress reports.
pub(crate) struct CountingReader<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R> CountingReader<R> {
    pub(crate) const fn new(inner: R, count: Arc<AtomicU64>) -> Self {
        Self { inner, count }
    }
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.count.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Converts UTF-16 to UTF-8. Invalid sequences become U+FFFD.
struct Utf16Decoder<R> {
    inner: R,
    unit: fn([u8; 2]) -> u16,
    /// Undecoded bytes: half a code unit or the first half of a surrogate pair remains for the next
    /// chunk.
    raw: Vec<u8>,
    /// Decoded text not yet returned.
    text: Cursor<Vec<u8>>,
}

impl<R: Read> Utf16Decoder<R> {
    /// Bytes read at once.
    const CHUNK: u64 = 16 << 10;

    fn new(inner: R, unit: fn([u8; 2]) -> u16) -> Self {
        Self { inner, unit, raw: Vec::new(), text: Cursor::default() }
    }

    /// Decodes the next chunk; at the end also the remaining bytes.
    fn refill(&mut self) -> io::Result<()> {
        let at_end = self.inner.by_ref().take(Self::CHUNK).read_to_end(&mut self.raw)? == 0;
        let mut units: Vec<u16> =
            self.raw.as_chunks().0.iter().map(|pair| (self.unit)(*pair)).collect();
        if !at_end && units.last().is_some_and(|unit| (0xD800..0xDC00).contains(unit)) {
            units.pop();
        }
        self.raw.drain(..units.len() * 2);
        let mut text: String = char::decode_utf16(units)
            .map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect();
        if at_end && !self.raw.is_empty() {
            self.raw.clear();
            text.push(char::REPLACEMENT_CHARACTER);
        }
        self.text = Cursor::new(text.into_bytes());
        Ok(())
    }
}

impl<R: Read> Read for Utf16Decoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.text.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.refill()?;
            if self.text.get_ref().is_empty() && self.raw.is_empty() {
                return Ok(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;

    fn decode(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        super::decode(Box::new(Cursor::new(bytes.to_vec())))?.read_to_end(&mut text)?;
        Ok(text)
    }

    fn utf16(text: &str, bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
        "\u{FEFF}".encode_utf16().chain(text.encode_utf16()).flat_map(bytes).collect()
    }

    fn zipped(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn short_stream_is_decoded() {
        for bytes in [&b""[..], b"a", b"ab", b"\xEF\xBB"] {
            assert_eq!(decode(bytes).unwrap(), bytes);
        }
        assert_eq!(decode(b"\xEF\xBB\xBFa").unwrap(), b"a");
        assert_eq!(decode(b"\xFF\xFE").unwrap(), b"");
        assert_eq!(decode(b"\xFF\xFEa").unwrap(), "\u{FFFD}".as_bytes());
    }

    #[test]
    fn unpaired_surrogate_is_replaced() {
        assert_eq!(decode(b"\xFF\xFEa\0\x00\xD8b\0").unwrap(), "a\u{FFFD}b".as_bytes());
        assert_eq!(decode(b"\xFF\xFEa\0\x00\xD8").unwrap(), "a\u{FFFD}".as_bytes());
    }

    #[test]
    fn gzip_members_are_concatenated_and_corruption_is_detected() {
        let two = [zipped(b"one, "), zipped(b"two")].concat();
        assert_eq!(decode(&two).unwrap(), b"one, two");
        assert!(is_corrupt(&decode(&two[..two.len() - 4]).unwrap_err()));
        assert!(is_corrupt(&decode(&[&two[..], b"trailing"].concat()).unwrap_err()));
        assert!(is_corrupt(&decode(b"\x1F\x8B\0\0\0\0\0\0\0\0\0\0\0").unwrap_err()));
        assert!(!is_corrupt(&io::Error::from_raw_os_error(5)));
    }

    proptest! {
        /// UTF-16 text of either byte order is decoded, compressed or not, and across chunks.
        #[test]
        fn utf16_is_decoded(text in "[a-z\u{e9}\u{1F600}]{0,40}", repeat in 0_usize..2_000) {
            let text = text.repeat(repeat);
            let (le, be) = (utf16(&text, u16::to_le_bytes), utf16(&text, u16::to_be_bytes));
            prop_assert_eq!(decode(&be).unwrap(), text.as_bytes());
            prop_assert_eq!(decode(&zipped(&le)).unwrap(), text.as_bytes());
        }
    }
}
