//! Reads a report from a stream, and computes the digest of its bytes.

use std::io::{self, BufReader, Read};

use sha2::Digest as _;

use crate::error::ReadError;
use crate::report::Report;
use crate::validate::validate;

/// Size of the read buffer.
const BUFFER: usize = 64 << 10;

/// The path of the whole.
const THE_REPORT: &str = "the report";

/// The SHA-256 of a report.
pub type Sha256 = [u8; 32];

/// Its first half.
pub type Digest = [u8; 16];

/// A reader that computes the digest of what is read.
struct Hashing<R> {
    input: R,
    hash: sha2::Sha256,
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.hash.update(&buffer[..length]);
        Ok(length)
    }
}

/// Reads and validates a report.
///
/// # Errors
/// Returns an error if it cannot be read, a field is missing or malformed, or its sums do not match.
pub fn read(file: &str, input: impl Read) -> Result<(Report, Digest), ReadError> {
    let (report, hash) = read_whole(file, input)?;
    let mut digest = Digest::default();
    digest.copy_from_slice(&hash[..16]);
    Ok((report, digest))
}

/// The same, with its whole SHA-256.
///
/// # Errors
/// Returns an error as [`read`] does.
pub fn read_whole(file: &str, input: impl Read) -> Result<(Report, Sha256), ReadError> {
    let mut hashing = Hashing { input, hash: sha2::Sha256::new() };
    let report = {
        let mut json =
            serde_json::Deserializer::from_reader(BufReader::with_capacity(BUFFER, &mut hashing));
        let report: Report =
            serde_path_to_error::deserialize(&mut json).map_err(|error| rejected(file, error))?;
        json.end().map_err(|error| json_error(file, "the end".to_owned(), error))?;
        report
    };
    validate(file, &report)?;
    Ok((report, hashing.hash.finalize().into()))
}

fn rejected(file: &str, error: serde_path_to_error::Error<serde_json::Error>) -> ReadError {
    let field = match error.path().to_string() {
        top if top == "." => THE_REPORT.to_owned(),
        field => field,
    };
    json_error(file, field, error.into_inner())
}

fn json_error(file: &str, field: String, error: serde_json::Error) -> ReadError {
    let file = file.to_owned();
    if error.is_io() {
        return ReadError::Unreadable { file, source: error.into() };
    }
    // At the first token.
    if error.is_syntax() && field == THE_REPORT {
        return ReadError::NotAReport { file };
    }
    let problem = match (error.is_eof(), error.line(), error.column()) {
        (true, 1, 0) => "is empty".to_owned(),
        (true, line, column) => format!("ends too early, at line {line} column {column}"),
        _ => error.to_string(),
    };
    ReadError::Field { file, field, problem }
}
