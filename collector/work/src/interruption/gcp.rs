//! Google Compute Engine: preemption of spot and preemptible machines.
//!
//! The service holds a request until the value differs from the one with the given tag.

use std::time::Duration;

use super::{
    Action, INTERVAL, Method, Notice, Notices, Request, Response, ResponseError, TIMEOUT, word,
};

const PREEMPTED: &str = "/computeMetadata/v1/instance/preempted";

/// How long the service holds a request.
const HOLD: Duration = Duration::from_secs(60);

/// Before the next request, should the service not hold it. A change meanwhile has another tag.
const PAUSE: Duration = Duration::from_secs(1);

/// The tag of no value: the first request is answered at once.
const NO_TAG: &str = "NONE";

/// The longest tag that is sent back. Those of the service have 16 digits.
const MAX_TAG: usize = 128;

/// The conversation.
#[derive(Clone, Debug)]
pub(super) struct Service {
    /// The tag of the last value.
    tag: String,
    after: Duration,
}

impl Default for Service {
    fn default() -> Self {
        Self { tag: NO_TAG.to_owned(), after: Duration::ZERO }
    }
}

impl Service {
    pub(super) fn request(&self) -> Request {
        let (hold, tag) = (HOLD.as_secs(), &self.tag);
        Request {
            after: self.after,
            timeout: HOLD + TIMEOUT,
            method: Method::Get,
            path: format!("{PREEMPTED}?wait_for_change=true&timeout_sec={hold}&last_etag={tag}"),
            headers: vec![("Metadata-Flavor", "Google".to_owned())],
        }
    }

    pub(super) fn answer(&mut self, answer: Response<'_>) -> Notices {
        let Response { status, etag, body } = answer;
        if status != 200 {
            self.unanswered();
            let hint = "is this a Compute Engine instance?";
            return vec![Err(ResponseError::Status { path: PREEMPTED, status, hint })];
        }
        self.after = PAUSE;
        let is_tag = |tag: &String| {
            tag.len() <= MAX_TAG && tag.bytes().all(|byte| byte.is_ascii_alphanumeric())
        };
        let tag = etag.and_then(|tag| word(tag.as_bytes())).filter(is_tag);
        self.tag = tag.unwrap_or_else(|| NO_TAG.to_owned());
        match body.trim_ascii() {
            b"FALSE" => Vec::new(),
            b"TRUE" => {
                let key = "preempted".to_owned();
                vec![Ok(Notice { action: Action::Preempt, due: None, key })]
            }
            _ => {
                self.unanswered();
                vec![Err(ResponseError::Content { path: PREEMPTED, expected: "TRUE or FALSE" })]
            }
        }
    }

    pub(super) const fn unanswered(&mut self) {
        self.after = INTERVAL;
    }
}
