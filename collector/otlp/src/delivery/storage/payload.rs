//! What is stored of a request: its protobuf as gzip, and its note, if it has one, as another gzip behind it, which no reader of
//! the request reads. Its length stands in the header of the first, so that a note is read without its request.

use std::io::{self, Read};

use bytes::Bytes;
use flate2::bufread::GzDecoder;
use flate2::{Compression, GzBuilder};
use phasemeter_outbox::DataDirectory;

use crate::request::EncodedRequest;

/// The longest request that is read back.
const MAX_BYTES: u64 = 256 << 20;

/// The notes of the requests that ended runs have stored last, delivered ones too. To be called before any is
/// [taken over](super::Storage::begin): with that, delivered ones are removed.
///
/// # Errors
/// Returns an error if the disk refuses.
pub fn stored_notes(data: &DataDirectory) -> io::Result<Vec<Bytes>> {
    let mut notes = Vec::new();
    data.read_newest(|payload| notes.extend(note(payload)))?;
    Ok(notes)
}

/// What is stored of a request.
pub(super) fn of(request: &EncodedRequest) -> io::Result<Vec<u8>> {
    if request.note().is_empty() {
        return gzip(request.body(), GzBuilder::new());
    }
    let note = gzip(request.note(), GzBuilder::new())?;
    let length = u32::try_from(note.len()).map_err(io::Error::other)?;
    let header = GzBuilder::new().extra(length.to_le_bytes());
    Ok([gzip(request.body(), header)?, note].concat())
}

fn gzip(bytes: &[u8], header: GzBuilder) -> io::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    header.buf_read(bytes, Compression::default()).read_to_end(&mut compressed)?;
    Ok(compressed)
}

/// The request.
pub(super) fn body(payload: &[u8]) -> io::Result<Bytes> {
    let mut body = Vec::new();
    GzDecoder::new(payload).take(MAX_BYTES).read_to_end(&mut body)?;
    Ok(body.into())
}

/// The note; `None` if there is none, or it is damaged.
fn note(payload: &[u8]) -> Option<Bytes> {
    let request = GzDecoder::new(payload);
    let length = u32::from_le_bytes(request.header()?.extra()?.try_into().ok()?);
    let (_, note) = payload.split_at(payload.len().checked_sub(usize::try_from(length).ok()?)?);
    body(note).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::Signal;

    /// Guarantee: a note is stored with its request, and not a part of it; a request without one has none.
    #[test]
    fn note_is_behind_the_request() {
        let request = EncodedRequest::new(Signal::Metrics, 1, "request".into());
        let plain = of(&request).unwrap();
        assert_eq!((body(&plain).unwrap(), note(&plain)), ("request".into(), None));
        let noted = of(&request.with_note("note".into())).unwrap();
        assert_eq!((body(&noted).unwrap(), note(&noted)), ("request".into(), Some("note".into())));
        assert_eq!(note(&noted[..noted.len() - 1]), None);
    }
}
