//! Other output of `nvidia-smi`, converted to CSV as it is read, a line for a line; and the names of files
//! that cannot be read.

mod dmon;
mod foreign;
mod xml;

use std::io::{self, Cursor, Read};

use dmon::DmonConverter;
pub use foreign::Foreign;
use xml::XmlConverter;

/// Bytes by which a format is recognized.
const HEAD: u64 = 8 << 10;

/// Bytes that are converted at once.
const CHUNK: usize = 16 << 10;

/// Converts text to CSV, in parts of any size.
trait Convert {
    /// Appends what a part of the text is in CSV.
    fn feed(&mut self, part: &[u8], out: &mut Vec<u8>);

    /// Appends what remains at the end.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// The CSV that a text is, or is converted to.
///
/// # Errors
/// Returns what it is if it cannot be read.
pub(super) fn to_csv(mut text: Box<dyn Read + Send>) -> Result<Box<dyn Read + Send>, Foreign> {
    let mut head = Vec::new();
    // What was read before an error is kept.
    let failed = text.by_ref().take(HEAD).read_to_end(&mut head).err();
    let beginning = String::from_utf8_lossy(&head).into_owned();
    let rest: Box<dyn Read + Send> = match failed {
        Some(error) => Box::new(Failed(Some(error))),
        None => text,
    };
    let whole = Cursor::new(head).chain(rest);
    if let Some(foreign) = foreign::recognize(&beginning) {
        return Err(foreign);
    }
    Ok(if dmon::is_dmon(&beginning) {
        Box::new(Converted::new(whole, DmonConverter::default()))
    } else if xml::is_xml(&beginning) {
        Box::new(Converted::new(whole, XmlConverter::default()))
    } else {
        Box::new(whole)
    })
}

/// Fails once.
struct Failed(Option<io::Error>);

impl Read for Failed {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// A text as CSV.
struct Converted<R, C> {
    text: R,
    converter: C,
    /// Converted, but not yet returned.
    out: Cursor<Vec<u8>>,
    at_end: bool,
}

impl<R: Read, C: Convert> Converted<R, C> {
    fn new(text: R, converter: C) -> Self {
        Self { text, converter, out: Cursor::default(), at_end: false }
    }
}

impl<R: Read, C: Convert> Read for Converted<R, C> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.out.read(buffer)?;
            if read > 0 || buffer.is_empty() || self.at_end {
                return Ok(read);
            }
            let mut part = [0; CHUNK];
            let length = self.text.read(&mut part)?;
            let mut out = std::mem::take(self.out.get_mut());
            out.clear();
            if length == 0 {
                self.at_end = true;
                self.converter.end(&mut out);
            } else {
                self.converter.feed(part.get(..length).unwrap_or_default(), &mut out);
            }
            self.out = Cursor::new(out);
        }
    }
}

#[cfg(test)]
fn converted(mut converter: impl Convert, text: &str, part: usize) -> String {
    let mut out = Vec::new();
    text.as_bytes().chunks(part).for_each(|part| converter.feed(part, &mut out));
    converter.end(&mut out);
    String::from_utf8(out).unwrap_or_default()
}
