//! Notices of a cloud that it will interrupt this machine, from its metadata service.
//!
//! ```text
//! Watch ─Request→ HTTP client ─Response→ Watch ─Notice→
//! ```
//!
//! [`Watch`] decides what to request next, and reads the answers; each cloud's file has its requests and
//! answers.

mod aws;
mod azure;
mod gcp;

use std::collections::VecDeque;
use std::str::FromStr;
use std::time::Duration;

use phasemeter_meter::units::Timestamp;

/// Time between two requests for the same, unless the service holds the request until there is a change.
/// EC2 recommends it.
const INTERVAL: Duration = Duration::from_secs(5);

/// How long a service may take to answer at once.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Notices that are remembered, so that each is reported once.
const MAX_REMEMBERED: usize = 64;

/// Maximum size of an answer in bytes.
pub const MAX_RESPONSE: usize = 64 << 10;

/// A cloud whose metadata service has notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cloud {
    /// Amazon EC2: spot interruptions and rebalance recommendations.
    Aws,
    /// Google Compute Engine: preemptions.
    Gcp,
    /// Azure: scheduled events.
    Azure,
}

impl Cloud {
    /// All clouds.
    pub const ALL: [Self; 3] = [Self::Aws, Self::Gcp, Self::Azure];

    /// The link-local address of the metadata service of each of them.
    pub const METADATA_SERVICE: &str = "http://169.254.169.254";

    /// The name, as in the attribute `cloud.provider`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aws => "aws",
            Self::Gcp => "gcp",
            Self::Azure => "azure",
        }
    }
}

impl FromStr for Cloud {
    type Err = ParseCloudError;

    fn from_str(name: &str) -> Result<Self, ParseCloudError> {
        Self::ALL.into_iter().find(|cloud| cloud.name() == name).ok_or(ParseCloudError)
    }
}

/// The text is not the name of such a cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected aws, gcp or azure")]
pub struct ParseCloudError;

/// What a notice announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The machine is deleted.
    Terminate,
    /// It is stopped.
    Stop,
    /// Its memory is saved, and it is stopped.
    Hibernate,
    /// It is taken back, stopped or deleted.
    Preempt,
    /// It restarts.
    Reboot,
    /// It moves to other hardware, and restarts.
    Redeploy,
    /// It pauses for some seconds.
    Freeze,
    /// It is at an elevated risk of an interruption.
    Rebalance,
}

impl Action {
    /// The name in events and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Terminate => "terminate",
            Self::Stop => "stop",
            Self::Hibernate => "hibernate",
            Self::Preempt => "preempt",
            Self::Reboot => "reboot",
            Self::Redeploy => "redeploy",
            Self::Freeze => "freeze",
            Self::Rebalance => "rebalance",
        }
    }

    /// Whether the command ends: unsaved work is lost.
    #[must_use]
    pub const fn ends_command(self) -> bool {
        !matches!(self, Self::Freeze | Self::Rebalance)
    }
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// What will happen.
    pub action: Action,
    /// When it will happen at the earliest, by the clock of the cloud; `None` if unknown or at once.
    pub due: Option<Timestamp>,
    /// By which the same notice is recognized.
    key: String,
}

/// A method of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`.
    Get,
    /// `PUT`.
    Put,
}

/// A request to a metadata service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// How long to wait before it is sent.
    pub after: Duration,
    /// How long to wait for the answer.
    pub timeout: Duration,
    /// Its method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// Its status.
    pub status: u16,
    /// Its header `ETag`.
    pub etag: Option<&'a str>,
    /// Its body.
    pub body: &'a [u8],
}

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// An unexpected status.
    #[error("{path}: status {status}; {hint}")]
    Status {
        /// What was requested.
        path: &'static str,
        /// The status.
        status: u16,
        /// What it may mean.
        hint: &'static str,
    },
    /// Unexpected content.
    #[error("{path}: invalid answer: expected {expected}")]
    Content {
        /// What was requested.
        path: &'static str,
        /// What a valid answer is.
        expected: &'static str,
    },
}

/// The conversation with the metadata service of a cloud, without an end.
#[derive(Clone, Debug)]
pub struct Watch {
    service: Service,
    /// Keys of notices, oldest first.
    seen: VecDeque<String>,
}

#[derive(Clone, Debug)]
enum Service {
    Aws(aws::Service),
    Gcp(gcp::Service),
    Azure(azure::Service),
}

/// What an answer contains.
type Notices = Vec<Result<Notice, ResponseError>>;

impl Watch {
    /// Begins a conversation.
    #[must_use]
    pub fn new(cloud: Cloud) -> Self {
        let service = match cloud {
            Cloud::Aws => Service::Aws(aws::Service::default()),
            Cloud::Gcp => Service::Gcp(gcp::Service::default()),
            Cloud::Azure => Service::Azure(azure::Service::default()),
        };
        Self { service, seen: VecDeque::new() }
    }

    /// The next request.
    #[must_use]
    pub fn request(&self) -> Request {
        match &self.service {
            Service::Aws(service) => service.request(),
            Service::Gcp(service) => service.request(),
            Service::Azure(service) => service.request(),
        }
    }

    /// Takes the answer to it, and returns notices that are new, and errors.
    pub fn answer(&mut self, answer: Response<'_>) -> Notices {
        let mut notices = match &mut self.service {
            Service::Aws(service) => service.answer(answer),
            Service::Gcp(service) => service.answer(answer),
            Service::Azure(service) => service.answer(answer),
        };
        notices.retain(|notice| match notice {
            Ok(notice) => self.is_new(&notice.key),
            Err(_) => true,
        });
        notices
    }

    /// Takes that there was no answer. The next request is a little later.
    pub const fn unanswered(&mut self) {
        match &mut self.service {
            Service::Aws(service) => service.unanswered(),
            Service::Gcp(service) => service.unanswered(),
            Service::Azure(service) => service.unanswered(),
        }
    }

    fn is_new(&mut self, key: &str) -> bool {
        if self.seen.iter().any(|seen| seen == key) {
            return false;
        }
        if self.seen.len() == MAX_REMEMBERED {
            self.seen.pop_front();
        }
        self.seen.push_back(key.to_owned());
        true
    }
}

/// Text of one line of visible ASCII, as tokens, tags and names are.
fn word(text: &[u8]) -> Option<String> {
    const MAX: usize = 1_024;
    let text = std::str::from_utf8(text).ok()?.trim();
    let is_word =
        (1..=MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
    is_word.then(|| text.to_owned())
}
