//! Whether a backend accepts requests: an export of nothing per signal, by the transports of delivery.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::StartError;
use super::config::Config;
use super::operations::{Attempt, ResponseStatus};
use super::response::ExportResponse;
use super::transport::Transport;
use crate::signal::{BySignal, Signal};

/// The shortest part of a header's value that can be a secret, in bytes.
const SECRET_BYTES: usize = 6;

/// How the backend of a signal answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Where the request was sent, as [`Target`](super::Target) is displayed: without secrets.
    pub target: String,
    /// The answer, as delivery takes it.
    pub answer: ProbeAnswer,
    /// The status of the response; `None` if there was none.
    pub status: Option<ResponseStatus>,
    /// From the start of the connection to the answer.
    pub took: Duration,
}

/// What delivery does with such an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeAnswer {
    /// The backend has what is sent.
    Accepted,
    /// It has it not, and the same request is sent again; why.
    Retried(String),
    /// It has it not, and the request is dropped; why.
    Dropped(String),
}

/// Sends an empty request to the target of each signal, once, all at the same time. A signal without target has no
/// result. Waits for each answer for `patience`, or as long as delivery does, if that is less.
///
/// # Errors
/// Returns an error if the operating system refuses a file descriptor.
pub fn probe(config: &Config, patience: Duration) -> Result<BySignal<Option<Probe>>, StartError> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let mut probes = BySignal::each(|_| None);
    runtime.block_on(async {
        let mut attempts = JoinSet::new();
        for signal in Signal::ALL {
            if let Some(target) = config.target(signal).cloned() {
                let mut transport = Transport::new(signal, &target);
                attempts.spawn(async move {
                    let began = Instant::now();
                    let patience = patience.min(target.timeout);
                    let attempt = timeout(patience, transport.send(Bytes::new())).await;
                    let (answer, status) = attempt.map_or_else(
                        |_| (ProbeAnswer::Retried(format!("no answer within {patience:?}")), None),
                        |attempt| answer(attempt, &target.headers),
                    );
                    let took = began.elapsed();
                    (signal, Probe { target: target.to_string(), answer, status, took })
                });
            }
        }
        while let Some(attempt) = attempts.join_next().await {
            if let Ok((signal, probe)) = attempt {
                *probes.get_mut(signal) = Some(probe);
            }
        }
    });
    // A pending DNS lookup must not delay the caller.
    runtime.shutdown_background();
    Ok(probes)
}

/// What delivery would do after this attempt.
fn answer(attempt: Attempt, headers: &HeaderMap) -> (ProbeAnswer, Option<ResponseStatus>) {
    let answer = match attempt.response {
        ExportResponse::Accepted { .. } => ProbeAnswer::Accepted,
        ExportResponse::Retry { reason, .. } => ProbeAnswer::Retried(hide(reason, headers)),
        ExportResponse::Rejected { reason } | ExportResponse::Unreadable { reason } => {
            ProbeAnswer::Dropped(hide(reason, headers))
        }
    };
    (answer, attempt.end.status)
}

/// A backend's message without values of headers, which it may repeat.
fn hide(mut reason: String, headers: &HeaderMap) -> String {
    for value in headers.values().filter(|value| value.is_sensitive()) {
        let value = String::from_utf8_lossy(value.as_bytes());
        let whole_and_parts = std::iter::once(&*value).chain(value.split_whitespace());
        for secret in whole_and_parts.filter(|part| part.len() >= SECRET_BYTES) {
            reason = reason.replace(secret, "…");
        }
    }
    reason
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn values_of_headers_are_not_repeated() {
        let mut headers = HeaderMap::new();
        for (name, value) in [("authorization", "Bearer abcdefgh"), ("x-tenant", "7")] {
            let mut value = HeaderValue::from_static(value);
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let reason = "401: Bearer abcdefgh; abcdefgh of tenant 7".to_owned();
        assert_eq!(hide(reason, &headers), "401: …; … of tenant 7");
    }
}
