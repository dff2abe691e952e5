//! Azure: scheduled events.
//!
//! Events of all machines of an availability or scale set arrive at each of them, so the machine's own
//! name is requested first.

use std::time::{Duration, UNIX_EPOCH};

use phasemeter_meter::units::Timestamp;
use serde_json::Value;

use super::{
    Action, INTERVAL, Method, Notice, Notices, Request, Response, ResponseError, TIMEOUT, word,
};

const NAME: &str = "/metadata/instance/compute/name";
const NAME_QUERY: &str = "?api-version=2021-02-01&format=text";
const EVENTS: &str = "/metadata/scheduledevents";
const EVENTS_QUERY: &str = "?api-version=2020-07-01";

/// The first request enables the service, which may take two minutes.
const ENABLE: Duration = Duration::from_secs(120);

/// The conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    /// This machine's name, once known.
    name: Option<String>,
    after: Duration,
}

impl Service {
    pub(super) fn request(&self) -> Request {
        let path = match self.name {
            None => format!("{NAME}{NAME_QUERY}"),
            Some(_) => format!("{EVENTS}{EVENTS_QUERY}"),
        };
        Request {
            after: self.after,
            timeout: ENABLE + TIMEOUT,
            method: Method::Get,
            path,
            headers: vec![("Metadata", "true".to_owned())],
        }
    }

    pub(super) fn answer(&mut self, answer: Response<'_>) -> Notices {
        let Response { status, body, .. } = answer;
        self.after = INTERVAL;
        let path = if self.name.is_none() { NAME } else { EVENTS };
        if status != 200 {
            let hint = "is this an Azure virtual machine?";
            return vec![Err(ResponseError::Status { path, status, hint })];
        }
        let Some(name) = &self.name else {
            self.name = word(body);
            if self.name.is_some() {
                self.after = Duration::ZERO;
                return Vec::new();
            }
            return vec![Err(ResponseError::Content {
                path,
                expected: "the name of this machine",
            })];
        };
        let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let Some(events) = value["Events"].as_array() else {
            return vec![Err(ResponseError::Content { path, expected: "JSON with a list Events" })];
        };
        let own = events.iter().filter(|event| concerns(event, name) && !is_over(event));
        own.map(notice).collect()
    }

    pub(super) const fn unanswered(&mut self) {
        self.after = INTERVAL;
    }
}

/// Whether an event is about the machine of this name.
fn concerns(event: &Value, name: &str) -> bool {
    let resources = event["Resources"].as_array();
    let resources = resources.into_iter().flatten().filter_map(Value::as_str);
    resources.into_iter().any(|resource| resource.eq_ignore_ascii_case(name))
}

fn is_over(event: &Value) -> bool {
    matches!(event["EventStatus"].as_str(), Some("Completed" | "Canceled"))
}

fn notice(event: &Value) -> Result<Notice, ResponseError> {
    let action = match event["EventType"].as_str() {
        Some("Preempt") => Action::Preempt,
        Some("Terminate") => Action::Terminate,
        Some("Reboot") => Action::Reboot,
        Some("Redeploy") => Action::Redeploy,
        Some("Freeze") => Action::Freeze,
        _ => {
            let expected = "the event type Preempt, Terminate, Reboot, Redeploy or Freeze";
            return Err(ResponseError::Content { path: EVENTS, expected });
        }
    };
    // Empty once the event has started.
    let due = event["NotBefore"].as_str().and_then(http_date);
    let id = event["EventId"].as_str().unwrap_or_default();
    Ok(Notice { action, due, key: format!("{} {id}", action.name()) })
}

/// `Mon, 19 Sep 2016 18:29:47 GMT`.
fn http_date(text: &str) -> Option<Timestamp> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Timestamp::from_nanos(since.as_nanos().try_into().ok()?)
}
