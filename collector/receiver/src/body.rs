//! Reads the body of a request, limited in size, memory and time.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use super::budget::Reservation;
use super::error::RequestError;
use super::limits::Limits;

/// A body of which the first bytes have arrived, or that has none. Until then a request holds nothing that others
/// need.
pub(super) struct PendingBody {
    body: Incoming,
    first: Option<Bytes>,
    started: Instant,
    /// Its maximum size.
    limit: usize,
}

impl PendingBody {
    /// Waits for the first bytes of a body of at most `limit` bytes.
    pub(super) async fn begin(
        body: Incoming,
        limit: usize,
        limits: &Limits,
    ) -> Result<Self, RequestError> {
        // The size that `content-length` announces.
        if body.size_hint().lower() > limit as u64 {
            return Err(RequestError::TooLarge { limit: limits.request_bytes });
        }
        let mut begun = Self { body, first: None, started: Instant::now(), limit };
        begun.first = begun.next(begun.started + limits.body_timeout).await?;
        Ok(begun)
    }

    /// Reads the body. Its bytes are reserved as they arrive, so what a client only announces costs nothing.
    pub(super) async fn read(
        mut self,
        limits: &Limits,
        reservation: &mut Reservation,
    ) -> Result<Vec<u8>, RequestError> {
        let limit = self.limit;
        let mut bytes = Vec::new();
        let mut next = self.first.take();
        while let Some(data) = next {
            if bytes.len() + data.len() > limit {
                return Err(RequestError::TooLarge { limit: limits.request_bytes });
            }
            if !reservation.cover(bytes.len() + data.len()) {
                return Err(RequestError::Exhausted);
            }
            bytes.extend_from_slice(&data);
            let at_rate = bytes.len() as u64 * 1_000 / limits.min_rate.max(1) as u64;
            let deadline = self.started + limits.body_timeout + Duration::from_millis(at_rate);
            next = self.next(deadline).await?;
        }
        Ok(bytes)
    }

    /// The next bytes, which are some; `None` at the end.
    async fn next(&mut self, deadline: Instant) -> Result<Option<Bytes>, RequestError> {
        loop {
            let frame = match timeout_at(deadline, self.body.frame()).await {
                Err(_) => return Err(RequestError::Timeout),
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) => return Err(RequestError::malformed("the body was cut off")),
                Ok(Some(Ok(frame))) => frame,
            };
            // Trailers of a request have no meaning.
            if let Some(data) = frame.into_data().ok().filter(|data| !data.is_empty()) {
                return Ok(Some(data));
            }
        }
    }
}
