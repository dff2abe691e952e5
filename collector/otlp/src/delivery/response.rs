//! What a backend's answer means for the request: it is accepted, refused for good, or to be sent
//! again. gRPC and HTTP say it in different words and mean the same three things.

use std::error::Error;
use std::time::Duration;

use hyper_util::client::legacy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;

/// How much of a backend's words is kept.
const MESSAGE_CHARS: usize = 300;

/// What came of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ExportResponse {
    /// The backend has it.
    Accepted {
        /// Items that it has not taken all the same.
        rejected: u64,
        /// Why; or, with none rejected, a warning. Empty where it had nothing to say.
        message: String,
    },
    /// The backend will never take it.
    Refused {
        /// In its words.
        reason: String,
    },
    /// It may go better next time.
    Retry {
        /// How long the backend asked to be left alone.
        after: Option<Duration>,
        /// What went wrong.
        reason: String,
    },
}

impl ExportResponse {
    /// Accepted, all or in part. The responses of the three signals are the same message on the
    /// wire, so that one type reads them all.
    pub(super) fn accepted(response: ExportTraceServiceResponse) -> Self {
        let partial = response.partial_success.unwrap_or_default();
        Self::Accepted {
            rejected: u64::try_from(partial.rejected_spans).unwrap_or(0),
            message: printable(&partial.error_message),
        }
    }

    /// No answer, for a reason on this side of the backend: nobody listens, the line broke. Where
    /// somebody does listen, `hint` may say why the two did not understand each other.
    pub(super) fn unreachable(error: &(dyn Error + 'static), hint: Option<&str>) -> Self {
        // The client's own words say no more than that it failed.
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

/// An error and its causes in one line, without what is said twice.
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

/// Someone else's words, fit for one line of a terminal: no control characters, no end of it.
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
    fn a_backend_cannot_write_on_the_terminal() {
        assert_eq!(printable("no\x1b[2Jthing\n"), "no [2Jthing");
        let long = printable(&"x".repeat(10_000));
        assert_eq!(long.chars().count(), super::MESSAGE_CHARS + 1);
        assert!(long.ends_with('…'));
    }
}
