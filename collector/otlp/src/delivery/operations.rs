//! Durations of export operations, by how they ended. An operation is the export of one request:
//! from the start of its first attempt to the end of its last one, with the delays between them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use phasemeter_meter::units::Nanos;

use super::response::ExportResponse;
use crate::duration_histogram::{Counts, Durations};

/// Maximum number of different ends, since a backend can return any status; beyond it, they are
/// counted as [`OperationEnd::OTHER`].
const MAX_ENDS: usize = 32;

/// How an operation ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationEnd {
    /// The `error.type` of the last attempt; `None` if the backend accepted everything.
    pub error_type: Option<Cow<'static, str>>,
    /// The status of the last response; `None` if there was none.
    pub status: Option<ResponseStatus>,
}

/// The status of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResponseStatus {
    /// The status code of HTTP.
    Http(u16),
    /// The name of gRPC's status code, as in `UNAVAILABLE`.
    Grpc(&'static str),
}

impl OperationEnd {
    /// All ends beyond the first [`MAX_ENDS`].
    const OTHER: Self = Self { error_type: Some(Cow::Borrowed("_OTHER")), status: None };

    fn answered(response: &ExportResponse, status: ResponseStatus) -> Self {
        let error_type = match (response, status) {
            (ExportResponse::Accepted { rejected: 0, .. }, _) => None,
            (ExportResponse::Accepted { .. }, _) => Some("rejected".into()),
            (ExportResponse::Unreadable { .. }, _) => Some("invalid_response".into()),
            (_, ResponseStatus::Http(code)) => Some(code.to_string().into()),
            (_, ResponseStatus::Grpc(name)) => Some(name.into()),
        };
        Self { error_type, status: Some(status) }
    }
}

/// The `error.type` if the connection failed.
pub(super) const CONNECTION_ERROR: &str = "connection_error";

/// The result of one attempt, and its end if it is the last of an operation.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub(super) response: ExportResponse,
    pub(super) end: OperationEnd,
}

impl Attempt {
    /// Without a response, since the connection failed.
    #[must_use]
    pub fn failed(reason: &str) -> Self {
        let response = ExportResponse::Retry { after: None, reason: reason.to_owned() };
        Self::unanswered(response, CONNECTION_ERROR)
    }

    /// Whether the backend accepted the request, at least in part.
    #[must_use]
    pub const fn is_accepted(&self) -> bool {
        matches!(self.response, ExportResponse::Accepted { .. })
    }

    /// What the backend, or this machine, says about it: one line, empty if nothing.
    #[must_use]
    pub fn message(&self) -> &str {
        match &self.response {
            ExportResponse::Accepted { message: text, .. }
            | ExportResponse::Rejected { reason: text }
            | ExportResponse::Unreadable { reason: text }
            | ExportResponse::Retry { reason: text, .. } => text,
        }
    }

    /// With a response of this status.
    pub(super) fn answered(response: ExportResponse, status: ResponseStatus) -> Self {
        let end = OperationEnd::answered(&response, status);
        Self { response, end }
    }

    /// Without a response, for this reason.
    pub(super) const fn unanswered(response: ExportResponse, error_type: &'static str) -> Self {
        let end = OperationEnd { error_type: Some(Cow::Borrowed(error_type)), status: None };
        Self { response, end }
    }
}

/// The operations of one signal.
#[derive(Debug, Default)]
pub(super) struct Operations(Mutex<BTreeMap<OperationEnd, Box<Durations>>>);

impl Operations {
    pub(super) fn record(&self, end: OperationEnd, took: Nanos) {
        let mut ends = self.lock();
        let is_counted = ends.len() < MAX_ENDS || ends.contains_key(&end);
        let end = if is_counted { end } else { OperationEnd::OTHER };
        ends.entry(end).or_default().add(took);
    }

    /// The durations by end.
    pub(super) fn counts(&self) -> Vec<(OperationEnd, Counts)> {
        let counts = |durations: &Durations| Counts::of(std::iter::once(durations));
        self.lock().iter().map(|(end, durations)| (end.clone(), counts(durations))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<OperationEnd, Box<Durations>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_success_is_an_error() {
        let accepted = |rejected| ExportResponse::Accepted { rejected, message: "why".to_owned() };
        let end = |response: &ExportResponse, status| {
            let OperationEnd { error_type, status } = OperationEnd::answered(response, status);
            (error_type.unwrap_or_default().into_owned(), status)
        };
        let (ok, http) = (ResponseStatus::Grpc("OK"), ResponseStatus::Http(413));
        assert_eq!(end(&accepted(0), ok), (String::new(), Some(ok)));
        assert_eq!(end(&accepted(2), ok), ("rejected".to_owned(), Some(ok)));
        let rejected = ExportResponse::Rejected { reason: String::new() };
        assert_eq!(end(&rejected, http), ("413".to_owned(), Some(http)));
        let unreadable = ExportResponse::unreadable("200 OK", "<html>");
        let kind = "invalid_response".to_owned();
        assert_eq!(
            end(&unreadable, ResponseStatus::Http(200)),
            (kind, Some(ResponseStatus::Http(200)))
        );
    }

    #[test]
    fn number_of_ends_is_bounded() {
        let operations = Operations::default();
        for code in 0..1_000 {
            let status = Some(ResponseStatus::Http(code));
            operations.record(OperationEnd { error_type: None, status }, Nanos(1));
        }
        let counts = operations.counts();
        assert_eq!(counts.len(), MAX_ENDS + 1);
        assert_eq!(counts.iter().map(|(_, counts)| counts.total()).sum::<u64>(), 1_000);
    }
}
