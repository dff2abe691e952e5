//! Limits of the receiver, and the reasons for their defaults.
//!
//! Must not depend on how they are enforced.

use std::time::Duration;

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request, as sent and after decompression: what gRPC servers accept by
    /// default, so that what passes here passes there.
    pub request_bytes: usize,
    /// Maximum memory of a decoded request. A few bytes can decode to an empty span of hundreds.
    pub decoded_bytes: usize,
    /// Maximum size of all requests from their first byte until they are delivered or discarded.
    /// Beyond it, requests are rejected and the client retries: nothing that was accepted is dropped.
    pub bytes_in_flight: usize,
    /// Maximum number of requests that are being read, from the first bytes of their bodies on.
    pub concurrent_requests: usize,
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of connections without an accepted request so far: a share of all. For a new one, the
    /// oldest of them is closed.
    pub newcomers: usize,
    /// How long a connection may be open without an accepted request.
    pub newcomer_timeout: Duration,
    /// Maximum number of concurrent requests of one HTTP/2 connection.
    pub streams_per_connection: u32,
    /// How long the headers of a request may take, including a TLS handshake.
    pub header_timeout: Duration,
    /// How long a body may take, in addition to the time that it takes at [`Limits::min_rate`].
    pub body_timeout: Duration,
    /// Minimum rate of a body in bytes per second, after [`Limits::body_timeout`].
    pub min_rate: usize,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// The delay that a rejected client is asked for.
    pub retry_after: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            decoded_bytes: 48 << 20,
            bytes_in_flight: 16 << 20,
            concurrent_requests: 256,
            connections: 256,
            newcomers: 64,
            newcomer_timeout: Duration::from_secs(10),
            streams_per_connection: 64,
            header_timeout: Duration::from_secs(5),
            body_timeout: Duration::from_secs(5),
            min_rate: 64 << 10,
            idle_timeout: Duration::from_secs(600),
            retry_after: Duration::from_secs(1),
        }
    }
}
