//! Amazon EC2: interruptions of spot instances and rebalance recommendations, by version 2 of the
//! instance metadata service.
//!
//! A token is requested first, and again if it is rejected.

use std::time::Duration;

use phasemeter_meter::instant::Instant;
use serde_json::Value;

use super::{
    Action, INTERVAL, Method, Notice, Notices, Request, Response, ResponseError, TIMEOUT, word,
};

const TOKEN: &str = "/latest/api/token";
const ACTION: &str = "/latest/meta-data/spot/instance-action";
const REBALANCE: &str = "/latest/meta-data/events/recommendations/rebalance";

/// How long a token is valid: the maximum, six hours.
const TOKEN_SECONDS: &str = "21600";

/// The conversation.
#[derive(Clone, Debug, Default)]
pub(super) struct Service {
    token: String,
    next: Next,
    after: Duration,
}

#[derive(Clone, Copy, Debug, Default)]
enum Next {
    #[default]
    Token,
    Action,
    Rebalance,
}

impl Service {
    pub(super) fn request(&self) -> Request {
        let (method, path, header) = match self.next {
            Next::Token => {
                let lifetime = ("X-aws-ec2-metadata-token-ttl-seconds", TOKEN_SECONDS.to_owned());
                (Method::Put, TOKEN, lifetime)
            }
            Next::Action => (Method::Get, ACTION, self.authorization()),
            Next::Rebalance => (Method::Get, REBALANCE, self.authorization()),
        };
        Request {
            after: self.after,
            timeout: TIMEOUT,
            method,
            path: path.to_owned(),
            headers: vec![header],
        }
    }

    fn authorization(&self) -> (&'static str, String) {
        ("X-aws-ec2-metadata-token", self.token.clone())
    }

    pub(super) fn answer(&mut self, answer: Response<'_>) -> Notices {
        let Response { status, body, .. } = answer;
        match (self.next, status) {
            (Next::Token, 200) => match word(body) {
                Some(token) => {
                    *self = Self { token, next: Next::Action, after: Duration::ZERO };
                    Vec::new()
                }
                None => {
                    self.start_over(ResponseError::Content { path: TOKEN, expected: "a token" })
                }
            },
            (Next::Token, _) => {
                let hint = "is this an EC2 instance with access to its metadata?";
                self.start_over(ResponseError::Status { path: TOKEN, status, hint })
            }
            // The token has expired.
            (_, 401) => {
                self.unanswered();
                Vec::new()
            }
            (Next::Action, 200) => self.then(Next::Rebalance, Some(action(body))),
            (Next::Action, 404) => self.then(Next::Rebalance, None),
            (Next::Action, _) => self.then(Next::Rebalance, Some(Err(unexpected(ACTION, status)))),
            (Next::Rebalance, 200) => self.then(Next::Action, Some(rebalance(body))),
            (Next::Rebalance, 404) => self.then(Next::Action, None),
            (Next::Rebalance, _) => {
                self.then(Next::Action, Some(Err(unexpected(REBALANCE, status))))
            }
        }
    }

    pub(super) const fn unanswered(&mut self) {
        self.next = Next::Token;
        self.after = INTERVAL;
    }

    fn start_over(&mut self, error: ResponseError) -> Notices {
        self.unanswered();
        vec![Err(error)]
    }

    fn then(&mut self, next: Next, found: Option<Result<Notice, ResponseError>>) -> Notices {
        self.next = next;
        self.after = if matches!(next, Next::Action) { INTERVAL } else { Duration::ZERO };
        found.into_iter().collect()
    }
}

const fn unexpected(path: &'static str, status: u16) -> ResponseError {
    ResponseError::Status { path, status, hint: "expected 200, or 404 if there is no notice" }
}

/// `{"action": "stop", "time": "2017-09-18T08:22:00Z"}`.
fn action(body: &[u8]) -> Result<Notice, ResponseError> {
    let expected = "JSON with the action terminate, stop or hibernate";
    let error = ResponseError::Content { path: ACTION, expected };
    let Ok(value) = serde_json::from_slice::<Value>(body) else { return Err(error) };
    let action = match value["action"].as_str() {
        Some("terminate") => Action::Terminate,
        Some("stop") => Action::Stop,
        Some("hibernate") => Action::Hibernate,
        _ => return Err(error),
    };
    // A notice without a readable time still counts.
    let time = value["time"].as_str().unwrap_or_default();
    let due = time.parse().ok().map(|Instant(due)| due);
    Ok(Notice { action, due, key: format!("{} {time}", action.name()) })
}

/// `{"noticeTime": "2020-10-27T08:22:00Z"}`.
fn rebalance(body: &[u8]) -> Result<Notice, ResponseError> {
    let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let expected = "JSON with a noticeTime";
    let time = value["noticeTime"].as_str();
    let time = time.ok_or(ResponseError::Content { path: REBALANCE, expected })?;
    Ok(Notice { action: Action::Rebalance, due: None, key: format!("rebalance {time}") })
}
