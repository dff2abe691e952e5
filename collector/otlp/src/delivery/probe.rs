//! Whether a backend accepts requests: an export of nothing per signal, by the transports of delivery.

use std::time::{Duration, Instant};

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use tokio::runtime;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::client::StartError;
use super::config::{Config, Target};
use super::operations::{Attempt, ResponseStatus};
use super::response::ExportResponse;
use super::transport::{Connection, Transport};
use crate::signal::{BySignal, Signal};

/// The shortest part of a header's value or of a query that can be a secret, in bytes.
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
                let mut transport = Connection::new(signal, &target);
                attempts.spawn(async move {
                    let began = Instant::now();
                    let patience = patience.min(target.timeout);
                    let attempt = timeout(patience, transport.send(Bytes::new())).await;
                    let (answer, status) = attempt.map_or_else(
                        |_| (ProbeAnswer::Retried(format!("no answer within {patience:?}")), None),
                        |attempt| answer(attempt, &secrets(&target)),
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
fn answer(attempt: Attempt, secrets: &[String]) -> (ProbeAnswer, Option<ResponseStatus>) {
    let answer = match attempt.response {
        ExportResponse::Accepted { .. } => ProbeAnswer::Accepted,
        ExportResponse::Retry { reason, .. } => ProbeAnswer::Retried(hide(reason, secrets)),
        ExportResponse::Rejected { reason } | ExportResponse::Unreadable { reason } => {
            ProbeAnswer::Dropped(hide(reason, secrets))
        }
    };
    (answer, attempt.end.status)
}

/// What a request has that must not be shown: values of headers and the query of its URL, whole and in parts, the longest
/// first.
fn secrets(target: &Target) -> Vec<String> {
    let headers = target.headers.current();
    let values = headers.values().filter(|value| value.is_sensitive());
    let values = values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let mut secrets = Vec::new();
    for value in values {
        secrets.extend(value.split_whitespace().map(ToOwned::to_owned));
        secrets.push(value);
    }
    for parameter in target.endpoint.uri.query().iter().flat_map(|query| query.split('&')) {
        let value = parameter.split_once('=').map_or(parameter, |(_, value)| value);
        secrets.push(percent_decode_str(value).decode_utf8_lossy().into_owned());
        secrets.push(value.to_owned());
    }
    secrets.retain(|secret| secret.len() >= SECRET_BYTES);
    secrets.sort_unstable_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

/// A backend's message without secrets, which it may repeat, and which its end may cut.
fn hide(mut reason: String, secrets: &[String]) -> String {
    for secret in secrets {
        reason = reason.replace(secret, "…");
    }
    let Some(cut) = reason.strip_suffix('…') else { return reason };
    let begun = |secret: &String| {
        let ends = secret.char_indices().map(|(end, _)| end).filter(|end| *end >= SECRET_BYTES);
        let starts = ends.rev().filter_map(|end| secret.get(..end));
        starts.into_iter().find_map(|start| cut.strip_suffix(start)).map(str::len)
    };
    match secrets.iter().filter_map(begun).min() {
        Some(length) => format!("{}…", cut.get(..length).unwrap_or_default()),
        None => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::Destination;
    use super::*;

    #[test]
    fn secrets_are_not_repeated_also_if_they_are_cut() {
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => {
                Some("http://localhost:4318/?key=s%20cret-query&n=7".to_owned())
            }
            "OTEL_EXPORTER_OTLP_HEADERS" => {
                Some("authorization=Bearer%20abcdefgh,x-tenant=7".to_owned())
            }
            _ => None,
        };
        let (config, _) = Config::read_usable(Destination::Environment, variable);
        let secrets = secrets(config.unwrap().target(Signal::Traces).unwrap());
        for (reason, shown) in [
            ("401: Bearer abcdefgh; abcdefgh of tenant 7", "401: …; … of tenant 7"),
            ("404: /?key=s%20cret-query&n=7, s cret-query", "404: /?key=…&n=7, …"),
            ("401: token abcdefg…", "401: token …"),
            ("401: it was tried again and again…", "401: it was tried again and again…"),
        ] {
            assert_eq!(hide(reason.to_owned(), &secrets), shown);
        }
    }
}
