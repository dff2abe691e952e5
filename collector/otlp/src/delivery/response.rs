//! What a response means for its request: accepted, rejected for good, to be retried, or not readable.
//! gRPC and HTTP encode the same results differently.

use std::error::Error;
use std::time::Duration;

use hyper_util::client::legacy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;

/// Maximum length of a backend's message.
const MESSAGE_CHARS: usize = 300;

/// The result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportResponse {
    /// The backend accepted the request.
    Accepted {
        /// Items that it rejected.
        rejected: u64,
        /// The reason; without rejected items, a warning. Can be empty.
        message: String,
    },
    /// The backend rejected the request for good.
    Rejected {
        /// The backend's message.
        reason: String,
    },
    /// A success, but not one of OTLP, as of a proxy or a login page: whether the backend has the
    /// request is unknown, and it must not be retried.
    Unreadable {
        /// What was returned instead.
        reason: String,
    },
    /// The request can be retried.
    Retry {
        /// The delay that the backend asked for.
        after: Option<Duration>,
        /// The error.
        reason: String,
    },
}

impl ExportResponse {
    /// Whether the backend rejected the request for good.
    pub(super) const fn is_rejection(&self) -> bool {
        matches!(self, Self::Rejected { .. })
    }

    /// Accepted, at least in part. The responses of the three signals are identical on the wire, so
    /// one type decodes them all.
    pub(super) fn accepted(response: ExportTraceServiceResponse) -> Self {
        let partial = response.partial_success.unwrap_or_default();
        match u64::try_from(partial.rejected_spans) {
            Ok(rejected) => Self::Accepted { rejected, message: printable(&partial.error_message) },
            Err(_) => Self::unreadable("OK", "a negative number of rejected items"),
        }
    }

    /// A success of this status with something else than a response of OTLP.
    pub(super) fn unreadable(status: &str, body: &str) -> Self {
        Self::Unreadable { reason: format!("{status}, but no OTLP response: {}", printable(body)) }
    }

    /// No response, for a local reason: nothing listens, or the connection failed. If something
    /// does listen, `hint` may explain the mismatch.
    pub(super) fn unreachable(error: &(dyn Error + 'static), hint: Option<&str>) -> Self {
        // The client's own message only repeats that it failed.
        let client = error.downcast_ref::<legacy::Error>();
        let mut reason = chain(client.and_then(Error::source).unwrap_or(error));
        if let Some(hint) = hint
            && client.is_some_and(|error| !error.is_connect())
        {
            reason = format!("{reason} ({hint})");
        }
        Self::Retry { after: None, reason }
    }
}

/// An error and its sources in one line, without repetition.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    printable(&text)
}

/// A foreign message made fit for one line of a terminal: without control characters, truncated.
pub(super) fn printable(text: &str) -> String {
    let mut characters = text.trim().chars();
    let start = characters.by_ref().take(MESSAGE_CHARS);
    let mut line: String = start.map(|c| if c.is_control() { ' ' } else { c }).collect();
    if characters.next().is_some() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn backend_message_has_no_control_characters() {
        assert_eq!(printable("no\x1b[2Jthing\n"), "no [2Jthing");
        let long = printable(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), super::MESSAGE_CHARS + 1);
        assert!(long.ends_with('…'));
    }
}
