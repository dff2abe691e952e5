//! Reads the body of a request, limited in size, memory and time.
//!
//! Must not depend on what is in the body.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::{Instant, timeout_at};

use super::budget::Reservation;
use super::error::RequestError;
use super::limits::Limits;

/// Reads a body of at most `limit` bytes. Its bytes are reserved as they arrive, so what a client only
/// announces costs nothing.
pub(super) async fn read(
    mut body: Incoming,
    limit: usize,
    limits: &Limits,
    reservation: &mut Reservation,
) -> Result<Vec<u8>, RequestError> {
    // The size that `content-length` announces.
    if body.size_hint().lower() > limit as u64 {
        return Err(RequestError::TooLarge { limit });
    }
    let started = Instant::now();
    let mut bytes = Vec::new();
    loop {
        let at_rate = bytes.len() as u64 * 1_000 / limits.min_rate.max(1) as u64;
        let deadline = started + limits.body_timeout + Duration::from_millis(at_rate);
        let frame = match timeout_at(deadline, body.frame()).await {
            Err(_) => return Err(RequestError::Timeout),
            Ok(None) => return Ok(bytes),
            Ok(Some(Err(_))) => return Err(RequestError::malformed("the body was cut off")),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers of a request have no meaning.
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > limit {
            return Err(RequestError::TooLarge { limit });
        }
        if !reservation.cover(bytes.len() + data.len()) {
            return Err(RequestError::Exhausted);
        }
        bytes.extend_from_slice(&data);
    }
}
