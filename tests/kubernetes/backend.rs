//! A real Collector, behind a front at the address of the node, for pods.

use std::io::{self, BufReader, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;

use crate::message::{forward, read, response};
use crate::otelcol::{Collector, Otelcol};

/// The address of the node: `node/init` has it, too.
const NODE: [u8; 4] = [10, 252, 0, 1];

/// A Collector that receives what pods send to a port of the node.
pub(crate) struct Backend {
    collector: Collector,
    shared: Arc<Shared>,
}

/// A request that the Collector has received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The lines before the body.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

/// What happens to requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// The Collector receives them.
    Forwards,
    /// Connections are closed.
    Closes,
    /// The Collector receives those with this value of the header `authorization`, others are refused.
    Demands(String),
}

struct Shared {
    conduct: Mutex<Conduct>,
    received: Mutex<Vec<Received>>,
    /// How many requests were refused.
    refused: Mutex<usize>,
}

impl Backend {
    /// Starts it at this port, for OTLP over HTTP. The Collector writes what it receives to this file.
    pub(crate) fn start(otelcol: &Otelcol, port: u16, file: &Path) -> Self {
        let collector = otelcol.start_again(None, file);
        let (conduct, target) = (Mutex::new(Conduct::Forwards), collector.http);
        let shared = Shared { conduct, received: Mutex::default(), refused: Mutex::default() };
        let shared = Arc::new(shared);
        let listener = TcpListener::bind((IpAddr::from(NODE), port)).unwrap();
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                // Whatever breaks is sent again.
                thread::spawn(move || _ = served.serve(target, client));
            }
        });
        Self { collector, shared }
    }

    pub(crate) fn set(&self, conduct: Conduct) {
        *lock(&self.shared.conduct) = conduct;
    }

    /// What the Collector has received.
    pub(crate) fn received(&self) -> Vec<Received> {
        lock(&self.shared.received).clone()
    }

    /// The requests of metrics among it.
    pub(crate) fn metrics(&self) -> Vec<ExportMetricsServiceRequest> {
        let received = lock(&self.shared.received);
        let metrics = received.iter().filter(|it| it.head.contains(" /v1/metrics "));
        metrics.map(|it| Message::decode(&it.body[..]).unwrap()).collect()
    }

    /// How many requests were refused.
    pub(crate) fn refused(&self) -> usize {
        *lock(&self.shared.refused)
    }

    /// Ends the Collector, so that its file is complete.
    pub(crate) fn stop(self) {
        self.collector.stop();
    }
}

impl Shared {
    /// Serves the requests of a connection, until it ends.
    fn serve(&self, target: SocketAddr, client: TcpStream) -> io::Result<()> {
        let mut client = BufReader::new(client);
        loop {
            let (head, body) = read(&mut client)?;
            let received = Received { head, body };
            let forwards = match &*lock(&self.conduct) {
                Conduct::Forwards => true,
                Conduct::Closes => return Ok(()),
                Conduct::Demands(value) => received.header("authorization") == Some(value),
            };
            let answer = if forwards {
                let answer = forward(target, &received.head, &received.body)?;
                lock(&self.received).push(received);
                answer
            } else {
                *lock(&self.refused) += 1;
                response(401, b"another token")
            };
            client.get_mut().write_all(&answer)?;
        }
    }
}

impl Received {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
