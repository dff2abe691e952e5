//! Forwards requests to the backend in the order of their arrival, with the bytes that arrived.
//!
//! A thread of its own, so that metering delays nothing. It ends with the receiver. Must not depend on
//! what requests mean.

use std::io;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::Client;
use phasemeter_otlp::receiver::Received;

/// Number of metrics requests that may wait to be metered. If there are more, forwarding waits, and the
/// receiver asks clients to retry.
const WAITING: usize = 256;

/// A running forwarder.
#[derive(Debug)]
pub struct Forwarder {
    thread: JoinHandle<Client>,
}

impl Forwarder {
    /// Forwards all requests to `client`, whose queue must hold all bytes in flight. Metrics arrive in
    /// the returned channel too; to receive none, drop it.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread.
    pub fn start(
        received: Receiver<Received>,
        client: Client,
    ) -> io::Result<(Self, Receiver<Received>)> {
        let (metrics, metered) = mpsc::sync_channel(WAITING);
        let forward = move || {
            let mut metrics = Some(metrics);
            for request in received {
                let copy = (request.signal() == Signal::Metrics).then(|| request.clone());
                client.enqueue(request.into_encoded());
                if let Some(copy) = copy {
                    metrics = metrics.take().filter(|it: &SyncSender<_>| it.send(copy).is_ok());
                }
            }
            client
        };
        let thread = thread::Builder::new().name("forwarder".to_owned()).spawn(forward)?;
        Ok((Self { thread }, metered))
    }

    /// Waits until everything that was received is in the client's queue. The receiver must have been
    /// stopped. `None` if the thread panicked.
    #[must_use]
    pub fn finish(self) -> Option<Client> {
        self.thread.join().ok()
    }
}
