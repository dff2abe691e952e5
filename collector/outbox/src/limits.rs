//! How much an outbox keeps.

use std::time::Duration;

/// Limits. Beyond one of them the oldest segment is dropped, and its requests are counted as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all segments.
    pub bytes: u64,
    /// Requests of all streams: each takes about 100 bytes of memory.
    pub requests: usize,
    /// Age of a request.
    pub age: Duration,
    /// Bytes of a segment. A larger request has one for itself.
    pub segment_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 256 << 20,
            requests: 1 << 17,
            age: Duration::from_secs(7 * 24 * 3600),
            segment_bytes: 1 << 20,
        }
    }
}
