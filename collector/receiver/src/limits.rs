//! Limits of the receiver, and the reasons for their defaults.

use std::time::Duration;

/// Limits of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of a request, as sent and after decompression: what a Collector accepts by default.
    pub request_bytes: usize,
    /// Size of the parts in which a larger request is decoded and passed on: a quarter of what gRPC servers accept by
    /// default, so that what passes here passes there.
    pub part_bytes: usize,
    /// Maximum memory of a decoded part. A few bytes can decode to an empty span of hundreds.
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

impl Limits {
    /// The maximum size of a request, unless it is configured.
    pub const REQUEST_BYTES: usize = 20 << 20;

    /// The least that a request may have, however little memory there is.
    const MIN_REQUEST_BYTES: usize = 1 << 20;

    /// Limits for requests of at most this many bytes, and of a quarter of the memory that the process may have, if
    /// that is limited.
    #[must_use]
    pub fn for_requests(request_bytes: usize, memory: Option<u64>) -> Self {
        let quarter = memory.map_or(usize::MAX, |it| usize::try_from(it / 4).unwrap_or(usize::MAX));
        let request_bytes = request_bytes.min(quarter.max(Self::MIN_REQUEST_BYTES));
        let defaults = Self::default();
        Self {
            request_bytes,
            decoded_bytes: defaults.decoded_bytes.min(quarter.max(Self::MIN_REQUEST_BYTES)),
            bytes_in_flight: in_flight(request_bytes),
            ..defaults
        }
    }
}

/// One request of the maximum size is in memory twice while it is read: compressed or as JSON, and as protobuf. There
/// is space for smaller ones beside it.
const fn in_flight(request_bytes: usize) -> usize {
    2 * request_bytes + (8 << 20)
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_bytes: Self::REQUEST_BYTES,
            part_bytes: 1 << 20,
            decoded_bytes: 48 << 20,
            bytes_in_flight: in_flight(Self::REQUEST_BYTES),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_a_quarter_of_limited_memory_at_most() {
        let mib = |mebibytes: usize| mebibytes << 20;
        let of = |memory: Option<u64>| Limits::for_requests(mib(20), memory);
        assert_eq!(of(None), Limits::default());
        assert_eq!(of(Some(1 << 40)), Limits::default());
        let Limits { request_bytes, decoded_bytes, bytes_in_flight, .. } = of(Some(64 << 20));
        assert_eq!([request_bytes, decoded_bytes, bytes_in_flight], [16, 16, 40].map(mib));
        assert_eq!(of(Some(1)).request_bytes, mib(1));
        assert_eq!(Limits::for_requests(mib(4), Some(1 << 30)).request_bytes, mib(4));
        assert_eq!(Limits::for_requests(mib(4), None).bytes_in_flight, mib(16));
    }
}
