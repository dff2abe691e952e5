//! OTLP in a file: one JSON export request per line, as the Collector's file exporter writes it.

use std::io::{self, Write};

use crate::json;
use crate::request::Request;

/// Writes requests to a file.
#[derive(Debug)]
pub struct OtlpFile<W>(W);

impl<W: Write> OtlpFile<W> {
    /// Writes to `out`, which should be buffered.
    pub const fn new(out: W) -> Self {
        Self(out)
    }

    /// Writes one line.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        json::write(request, &mut self.0)?;
        self.0.write_all(b"\n")
    }

    /// Flushes the file.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}
