//! Accepted requests, on their way from the receiver to the forwarder.

use bytes::Bytes;
use prost::{DecodeError, Message};

use crate::request::{EncodedRequest, Request};
use crate::signal::Signal;

/// An accepted request. Its bytes count as in flight until the last reference to them is dropped; a
/// clone shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub(super) signal: Signal,
    pub(super) items: u64,
    pub(super) body: Bytes,
}

impl Received {
    /// The signal.
    #[must_use]
    pub const fn signal(&self) -> Signal {
        self.signal
    }

    /// Number of spans, data points or log records.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// The request as protobuf: the bytes that were received, after decompression.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// Decodes the request. The result takes several times the memory of the body and is not counted as
    /// in flight, so decode one request at a time.
    ///
    /// # Errors
    /// Never returns an error in practice: the receiver has decoded every element once.
    pub fn decode(&self) -> Result<Request, DecodeError> {
        let body = self.body.clone();
        Ok(match self.signal {
            Signal::Traces => Request::Traces(Message::decode(body)?),
            Signal::Metrics => Request::Metrics(Message::decode(body)?),
            Signal::Logs => Request::Logs(Message::decode(body)?),
        })
    }

    /// The request to forward, with the same bytes.
    #[must_use]
    pub fn into_encoded(self) -> EncodedRequest {
        EncodedRequest::new(self.signal, self.items, self.body)
    }
}
