//! Forwards requests to the backend in the order of their arrival, with the bytes that arrived.
//!
//! A thread of its own, so that metering delays nothing. Spans that are to be priced leave their request
//! here, and wait elsewhere. It ends with the receiver.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use phasemeter_otlp::delivery::{Client, RequestSender};
use phasemeter_otlp::{EncodedRequest, Signal};
use phasemeter_receiver::keep_resources;

use super::agents::AgentGpus;
use super::replicas::Replicas;
use super::span_filter::{FilteredSpans, SpanFilter};

/// Number of requests that may wait to be metered. If there are more, forwarding waits, and the
/// receiver asks clients to retry.
const WAITING: usize = 256;

/// A running forwarder.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<Client>,
    sender: RequestSender,
}

/// What is metered of a request.
#[derive(Debug)]
pub enum Metered {
    /// Metrics, which have been forwarded.
    Metrics(EncodedRequest),
    /// Spans. The chosen ones are not forwarded.
    Spans(FilteredSpans),
}

impl Forwarder {
    /// Forwards the requests of its resources among `replicas` to `client`, whose queue must hold all bytes in
    /// flight, except for the spans of the filter. They and metrics arrive in the returned channel; with a filter, it must
    /// not be dropped.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread.
    pub fn start(
        received: Receiver<EncodedRequest>,
        client: Client,
        filter: SpanFilter,
        replicas: Replicas,
    ) -> io::Result<(Self, Receiver<Metered>)> {
        let (metered, meters) = mpsc::sync_channel(WAITING);
        let sender = client.sender();
        let forward = move || {
            let mut metered = Some(metered);
            let mut agents = AgentGpus::default();
            for request in received {
                let (rest, part) = divide(request, &filter, &replicas);
                let rest = rest.and_then(|rest| match rest.signal() {
                    Signal::Metrics => agents.without_duplicates(rest),
                    Signal::Traces | Signal::Logs => Some(rest),
                });
                rest.into_iter().for_each(|rest| client.enqueue(rest));
                if let Some(part) = part {
                    metered = metered.take().filter(|it: &SyncSender<_>| it.send(part).is_ok());
                }
            }
            client
        };
        let thread = thread::Builder::new().name("forwarder".to_owned()).spawn(forward)?;
        Ok((Self { thread, sender }, meters))
    }

    /// What queues requests behind those that are forwarded.
    #[must_use]
    pub fn sender(&self) -> RequestSender {
        self.sender.clone()
    }

    /// Waits until everything that was received is in the client's queue. The receiver must have been
    /// stopped. `None` if the thread panicked.
    #[must_use]
    pub fn finish(self) -> Option<Client> {
        self.thread.join().ok()
    }
}

/// What is forwarded of a request, and what is metered.
fn divide(
    request: EncodedRequest,
    filter: &SpanFilter,
    replicas: &Replicas,
) -> (Option<EncodedRequest>, Option<Metered>) {
    let own = |request: EncodedRequest| match replicas.is_single() {
        true => Some(request),
        false => keep_resources(request, &|resource| replicas.passes_on(resource)),
    };
    match request.signal() {
        Signal::Metrics => (own(request.clone()), Some(Metered::Metrics(request))),
        Signal::Traces if !filter.is_empty() => {
            let (rest, spans) = filter.split(request, replicas);
            (rest.and_then(own), Some(Metered::Spans(spans)))
        }
        Signal::Traces | Signal::Logs => (own(request), None),
    }
}
