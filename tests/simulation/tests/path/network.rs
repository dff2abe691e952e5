//! A network that loses requests and responses, and a backend that accepts and refuses them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::pending;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Attempt, Transport};
use phasemeter_simulation::{Machine, Rng};
use prost::Message;
use tokio::time::sleep;

use crate::Bug;

/// The backend of a seed.
#[derive(Debug)]
pub(crate) struct Backend {
    rng: Rng,
    /// In percent, how often an attempt reaches it, and it is well.
    pub(crate) health: u64,
    /// Whether it refuses nothing.
    pub(crate) is_kind: bool,
    /// The requests that it has.
    pub(crate) arrived: BTreeMap<(Signal, Bytes), u64>,
    /// Those that it refused for good, or in part: it has nothing of them.
    pub(crate) refused: BTreeSet<(Signal, Bytes)>,
    pub(crate) attempts: u64,
    tried: BTreeMap<(Signal, Bytes), u64>,
}

/// Where a worker sends to. Clones lead to the same backend.
#[derive(Clone)]
pub(crate) struct Link {
    pub(crate) signal: Signal,
    pub(crate) machine: Machine,
    pub(crate) backend: Arc<Mutex<Backend>>,
    pub(crate) bug: Option<Bug>,
}

/// What becomes of an attempt.
enum Fate {
    Arrives,
    ArrivesUnanswered,
    Lost,
    NotConnected,
    Status(u16, Option<u64>),
    ArrivesWithStatus(u16),
    Refused(u16),
    InPart,
    NotOtlp,
}

impl Backend {
    pub(crate) fn new(rng: Rng) -> Self {
        Self {
            rng,
            health: 100,
            is_kind: false,
            arrived: BTreeMap::new(),
            refused: BTreeSet::new(),
            attempts: 0,
            tried: BTreeMap::new(),
        }
    }

    fn fate(&mut self) -> Fate {
        if !self.rng.percent(self.health) {
            return match self.rng.below(6) {
                0 => Fate::Lost,
                1 => Fate::ArrivesUnanswered,
                2 => Fate::NotConnected,
                3 => Fate::Status(429, Some(self.rng.below(20))),
                4 => Fate::Status([502, 503, 504][self.rng.index(3)], None),
                _ => Fate::ArrivesWithStatus([502, 503, 504][self.rng.index(3)]),
            };
        }
        match self.rng.below(100) {
            0 if !self.is_kind => Fate::Refused([400, 401, 404, 413, 500][self.rng.index(5)]),
            1 if !self.is_kind => Fate::InPart,
            2 if !self.is_kind => Fate::NotOtlp,
            _ => Fate::Arrives,
        }
    }

    fn receive(&mut self, signal: Signal, body: &Bytes) {
        *self.arrived.entry((signal, body.clone())).or_default() += 1;
    }
}

fn answer(status: u16, after: Option<u64>, body: impl Into<Bytes>) -> Attempt {
    let response = http::Response::builder().status(status);
    let response = match after {
        Some(seconds) => response.header("retry-after", seconds),
        None => response,
    };
    let (parts, ()) = response.body(()).unwrap().into_parts();
    Attempt::of_http(&parts, &body.into())
}

impl Link {
    fn backend(&self) -> MutexGuard<'_, Backend> {
        self.backend.lock().unwrap()
    }
}

impl Transport for Link {
    async fn send(&mut self, mut body: Bytes) -> Attempt {
        let latency = 1 + self.backend().rng.below(80);
        sleep(Duration::from_millis(latency)).await;
        let has_failed = self.machine.operate();
        let fate = {
            let mut backend = self.backend();
            backend.attempts += 1;
            let key = (self.signal, body.clone());
            let tried = backend.tried.entry(key.clone()).or_default();
            *tried += 1;
            if self.bug == Some(Bug::ChangedResend) && *tried > 1 {
                // An unknown field.
                body = [&body[..], &[0xf8, 0x7f, 0]].concat().into();
            }
            match has_failed {
                Err(_) => Fate::Lost,
                Ok(true) if backend.rng.percent(50) => Fate::ArrivesUnanswered,
                Ok(true) => Fate::Lost,
                Ok(false) if backend.refused.contains(&key) => Fate::Refused(400),
                Ok(false) => backend.fate(),
            }
        };
        let refuse = |this: &Self| {
            let key = (this.signal, body.clone());
            let mut backend = this.backend();
            // What it has, it has.
            if !backend.arrived.contains_key(&key) {
                backend.refused.insert(key);
            }
        };
        match fate {
            Fate::Lost => pending().await,
            Fate::ArrivesUnanswered => {
                self.backend().receive(self.signal, &body);
                pending().await
            }
            Fate::Arrives => {
                self.backend().receive(self.signal, &body);
                answer(200, None, Bytes::new())
            }
            Fate::NotConnected => Attempt::failed("connection refused"),
            Fate::Status(429, _) if self.bug == Some(Bug::RefusalAccepted) => {
                answer(200, None, Bytes::new())
            }
            Fate::Status(status, after) => answer(status, after, "busy"),
            Fate::ArrivesWithStatus(status) => {
                self.backend().receive(self.signal, &body);
                answer(status, None, "late")
            }
            Fate::Refused(status) => {
                refuse(self);
                answer(status, None, "no")
            }
            Fate::InPart => {
                refuse(self);
                let partial = ExportTracePartialSuccess {
                    rejected_spans: 1,
                    error_message: "not that".to_owned(),
                };
                let response = ExportTraceServiceResponse { partial_success: Some(partial) };
                answer(200, None, response.encode_to_vec())
            }
            Fate::NotOtlp => {
                refuse(self);
                answer(200, None, "<html>log in</html>")
            }
        }
    }

    fn reset(&mut self) {}

    fn jitter(&mut self) -> u32 {
        u32::try_from(self.backend().rng.number() >> 32).unwrap()
    }
}
