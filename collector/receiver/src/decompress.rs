//! Decompression of bodies, limited in memory.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::budget::Reservation;
use super::error::RequestError;

/// The step in which output is reserved and written.
const STEP: usize = 64 << 10;

/// Maximum window of a zstd frame, which is allocated at once: what all decoders should support.
const MAX_WINDOW: u64 = 8 << 20;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// The names of all, for responses.
    pub(super) const NAMES: &str = "identity,gzip,zstd";

    /// By its name in a header; none means identity.
    pub(super) fn named(name: Option<&str>) -> Result<Self, RequestError> {
        match name.unwrap_or("identity").trim().to_ascii_lowercase().as_str() {
            "identity" | "" => Ok(Self::Identity),
            "gzip" | "x-gzip" => Ok(Self::Gzip),
            "zstd" => Ok(Self::Zstd),
            _ => Err(RequestError::Encoding),
        }
    }

    /// The decompressed body, of at most `limit` bytes. The reservation grows with it.
    pub(super) fn decompress(
        self,
        body: Vec<u8>,
        limit: usize,
        reservation: &mut Reservation,
    ) -> Result<Vec<u8>, RequestError> {
        match self {
            Self::Identity => Ok(body),
            Self::Gzip => read(MultiGzDecoder::new(&body[..]), body.len(), limit, reservation),
            Self::Zstd if body.is_empty() => Err(RequestError::malformed("invalid zstd")),
            Self::Zstd => read(ZstdFrames::new(&body), body.len(), limit, reservation),
        }
    }
}

/// The frames of a zstd body, one after another, without those that are to be skipped.
struct ZstdFrames<'a> {
    rest: &'a [u8],
    /// One for all: it keeps its window.
    decoder: FrameDecoder,
    is_in_frame: bool,
}

impl<'a> ZstdFrames<'a> {
    fn new(body: &'a [u8]) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { rest: body, decoder, is_in_frame: false }
    }

    /// Begins the next frame; returns whether there is one.
    fn begin(&mut self) -> io::Result<bool> {
        use FrameDecoderError::ReadFrameHeaderError as Header;
        while !self.rest.is_empty() {
            match self.decoder.reset(&mut self.rest) {
                Ok(()) => return Ok(true),
                Err(Header(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                    let length = usize::try_from(length).ok();
                    let rest = length.and_then(|length| self.rest.get(length..));
                    self.rest = rest.ok_or(io::ErrorKind::UnexpectedEof)?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl Read for ZstdFrames<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame {
                self.is_in_frame = self.begin()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
            let Self { rest, decoder, .. } = self;
            while decoder.can_collect() == 0 && !decoder.is_finished() {
                let block = decoder.decode_blocks(&mut *rest, BlockDecodingStrategy::UptoBlocks(1));
                block.map_err(io::Error::other)?;
            }
            let length = decoder.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            self.is_in_frame = false;
        }
    }
}

/// Reads everything. While both forms are in memory, both are reserved.
fn read(
    mut decoder: impl Read,
    compressed: usize,
    limit: usize,
    reservation: &mut Reservation,
) -> Result<Vec<u8>, RequestError> {
    let mut body = Vec::new();
    loop {
        if !reservation.cover(compressed + body.len() + STEP) {
            return Err(RequestError::Exhausted);
        }
        let step = decoder.by_ref().take(STEP as u64).read_to_end(&mut body);
        match step {
            Err(_) => return Err(RequestError::malformed("the body cannot be decompressed")),
            Ok(_) if body.len() > limit => return Err(RequestError::TooLarge { limit }),
            Ok(0) => return Ok(body),
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Budget;
    use super::{Encoding, RequestError};
    use flate2::Compression;
    use flate2::bufread::GzEncoder;
    use std::io::Read;

    fn gzip(body: &[u8]) -> Vec<u8> {
        let mut smaller = Vec::new();
        GzEncoder::new(body, Compression::best()).read_to_end(&mut smaller).unwrap();
        smaller
    }

    fn zstd(body: &[u8]) -> Vec<u8> {
        use ruzstd::encoding::{CompressionLevel, compress_to_vec};
        compress_to_vec(body, CompressionLevel::Fastest)
    }

    #[test]
    fn body_is_decompressed_to_the_same_bytes() {
        let body: Vec<u8> = (0..200_000_u32).flat_map(|i| (i / 7).to_le_bytes()).collect();
        let budget = Budget::new(16 << 20);
        for (encoding, compressed) in [
            (Encoding::Identity, body.clone()),
            (Encoding::Gzip, gzip(&body)),
            (Encoding::Zstd, zstd(&body)),
        ] {
            let mut reservation = budget.begin().unwrap();
            let read = encoding.decompress(compressed, body.len(), &mut reservation);
            assert!(read.unwrap() == body, "{encoding:?}");
        }
    }

    #[test]
    fn bomb_is_rejected_at_the_limit() {
        let body = vec![0; 64 << 20];
        for (encoding, compressed) in [(Encoding::Gzip, gzip(&body)), (Encoding::Zstd, zstd(&body))]
        {
            let mut reservation = Budget::new(16 << 20).begin().unwrap();
            let read = encoding.decompress(compressed.clone(), 1 << 20, &mut reservation);
            assert!(matches!(read, Err(RequestError::TooLarge { .. })), "{encoding:?}");
            let mut reservation = Budget::new(1 << 18).begin().unwrap();
            let read = encoding.decompress(compressed, 1 << 20, &mut reservation);
            assert!(matches!(read, Err(RequestError::Exhausted)), "{encoding:?}");
        }
    }

    /// Guarantee: of a body of several frames or members all are read, and what is behind them is an error.
    #[test]
    fn all_frames_are_read_and_garbage_is_rejected() {
        let budget = Budget::new(16 << 20);
        let read = |encoding: Encoding, body: Vec<u8>| {
            encoding.decompress(body, 1 << 20, &mut budget.begin().unwrap())
        };
        let skipped = [&0x184d_2a53_u32.to_le_bytes()[..], &3_u32.to_le_bytes(), b"any"].concat();
        let [a, b] = [zstd(b"one, "), zstd(b"two")];
        for body in
            [[&a[..], &b].concat(), [&skipped[..], &a, &skipped, &zstd(b""), &b, &skipped].concat()]
        {
            assert_eq!(read(Encoding::Zstd, body).unwrap(), b"one, two");
        }
        let members = [gzip(b"one, "), gzip(b"two")].concat();
        assert_eq!(read(Encoding::Gzip, members).unwrap(), b"one, two");
        let cut = &skipped[..skipped.len() - 1];
        for (encoding, body) in [
            (Encoding::Zstd, [&a[..], b"garbage"].concat()),
            (Encoding::Zstd, [&a[..], &b[..b.len() - 1]].concat()),
            (Encoding::Zstd, [&a[..], cut].concat()),
            (Encoding::Zstd, Vec::new()),
            (Encoding::Gzip, [&gzip(b"one")[..], b"garbage"].concat()),
            (Encoding::Gzip, Vec::new()),
        ] {
            let read = read(encoding, body);
            assert!(matches!(read, Err(RequestError::Malformed { .. })), "{encoding:?}: {read:?}");
        }
    }

    #[test]
    fn truncated_or_unknown_encoding_is_rejected() {
        let budget = Budget::new(16 << 20);
        for (encoding, mut body) in
            [(Encoding::Gzip, gzip(b"spans")), (Encoding::Zstd, zstd(b"spans"))]
        {
            body.truncate(body.len() - 3);
            let mut reservation = budget.begin().unwrap();
            let read = encoding.decompress(body, 1 << 20, &mut reservation);
            assert!(matches!(read, Err(RequestError::Malformed { .. })), "{encoding:?}");
        }
        assert!(matches!(Encoding::named(Some("snappy")), Err(RequestError::Encoding)));
        assert_eq!(Encoding::named(Some("GZIP")).unwrap(), Encoding::Gzip);
        assert_eq!(Encoding::named(None).unwrap(), Encoding::Identity);
    }
}
