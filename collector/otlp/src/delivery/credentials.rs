//! Whether a refusal of headers is final. Those of a file may be about to be replaced: a token can expire before its file
//! changes, since a volume of Kubernetes follows its secret late.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::Instant;

use super::config::Headers;
use super::operations::{Attempt, OperationEnd, ResponseStatus};
use super::response::ExportResponse;

/// How long headers that are refused are waited for: the kubelet's period of synchronization, and the time that it
/// caches secrets for, a minute each by default.
const PATIENCE: Duration = Duration::from_secs(120);

/// The headers of one worker.
#[derive(Debug)]
pub(super) struct Credentials {
    headers: Headers,
    /// Those of the last attempt.
    last: Arc<HeaderMap>,
    /// When they were first refused.
    refused: Option<Instant>,
}

impl Credentials {
    pub(super) fn new(headers: Headers) -> Self {
        let last = headers.current();
        Self { headers, last, refused: None }
    }

    /// The headers of the next attempt.
    pub(super) fn current(&mut self) -> Arc<HeaderMap> {
        let current = self.headers.current();
        if !Arc::ptr_eq(&current, &self.last) {
            self.last = Arc::clone(&current);
            self.refused = None;
        }
        current
    }

    /// What an attempt means: until headers of a file have been refused for [`PATIENCE`], the request is sent again.
    pub(super) fn judge(&mut self, mut attempt: Attempt, now: Instant) -> Attempt {
        let may_change = self.headers.can_change && is_refusal(&attempt.end);
        match &mut attempt.response {
            ExportResponse::Accepted { .. } => self.refused = None,
            ExportResponse::Rejected { reason } if may_change => {
                let since = *self.refused.get_or_insert(now);
                if now.duration_since(since) < PATIENCE {
                    let reason = std::mem::take(reason);
                    attempt.response = ExportResponse::Retry { after: None, reason };
                }
            }
            _ => {}
        }
        attempt
    }
}

fn is_refusal(end: &OperationEnd) -> bool {
    match end.status {
        Some(ResponseStatus::Http(code)) => matches!(code, 401 | 403),
        Some(ResponseStatus::Grpc(name)) => matches!(name, "UNAUTHENTICATED" | "PERMISSION_DENIED"),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::config::{Config, Destination, HEADERS_FILE};
    use super::*;
    use crate::signal::Signal;

    fn answer(status: ResponseStatus) -> Attempt {
        let response = ExportResponse::Rejected { reason: "no".to_owned() };
        Attempt::answered(response, status)
    }

    fn credentials(file: Option<&str>) -> Credentials {
        let variable = |name: &str| file.filter(|_| name == HEADERS_FILE).map(ToOwned::to_owned);
        let config = Config::read(Destination::Default, variable).unwrap().unwrap();
        Credentials::new(config.target(Signal::Traces).unwrap().headers.clone())
    }

    #[test]
    fn refused_headers_of_a_file_are_waited_for_some_time_after_each_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("headers");
        fs::write(&path, "authorization=old").unwrap();
        let start = Instant::now();
        let refusals = [
            ResponseStatus::Http(401),
            ResponseStatus::Http(403),
            ResponseStatus::Grpc("UNAUTHENTICATED"),
            ResponseStatus::Grpc("PERMISSION_DENIED"),
        ];
        let (mut followed, mut fixed) = (credentials(path.to_str()), credentials(None));
        let is_retried = |credentials: &mut Credentials, status, seconds| {
            credentials.current();
            let now = start + Duration::from_secs(seconds);
            let judged = credentials.judge(answer(status), now);
            matches!(judged.response, ExportResponse::Retry { .. })
        };
        for status in refusals {
            assert!(!is_retried(&mut fixed, status, 0), "{status:?}: nothing can change");
            assert!(is_retried(&mut followed, status, 100));
            assert!(is_retried(&mut followed, status, 219));
            assert!(!is_retried(&mut followed, status, 220), "{status:?}: it does not change");
        }
        fs::write(&path, "authorization=newer").unwrap();
        assert!(is_retried(&mut followed, refusals[0], 230));
        assert!(!is_retried(&mut followed, ResponseStatus::Http(400), 231), "not its headers");
        assert!(!is_retried(&mut followed, refusals[0], 350));
        let accepted = ExportResponse::Accepted { rejected: 0, message: String::new() };
        followed.judge(Attempt::answered(accepted, ResponseStatus::Http(200)), start);
        assert!(is_retried(&mut followed, refusals[0], 360), "they were accepted meanwhile");
    }
}
