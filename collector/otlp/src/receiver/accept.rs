//! Accepts a request that was read, in parts that hold its memory. Must not depend on the transport.

use super::budget::Reservation;
use super::error::RequestError;
use super::inspect::{Inspected, Part, Rejected, inspect};
use super::limits::Limits;
use super::received::Received;
use crate::signal::Signal;

/// What is accepted of the protobuf of a request, in parts without malformed elements, and what is not.
pub(super) fn accept(
    signal: Signal,
    protobuf: Vec<u8>,
    reservation: Reservation,
    limits: &Limits,
) -> Result<(Vec<Received>, Option<Rejected>), RequestError> {
    let Inspected { parts, rejected } = inspect(signal, protobuf, limits)?;
    let (bodies, items): (Vec<_>, Vec<_>) =
        parts.into_iter().map(|Part { body, items }| (body, items)).unzip();
    let bodies = reservation.divide(bodies).ok_or(RequestError::Exhausted)?;
    let received = |(body, items)| Received { signal, items, body };
    Ok((bodies.into_iter().zip(items).map(received).collect(), rejected))
}
