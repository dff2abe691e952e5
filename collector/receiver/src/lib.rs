//! The receiver: OTLP over gRPC, http/protobuf and http/json, on the same addresses.
//!
//! ```text
//! socket → body (size, memory, time) → decompress → split → inspect → channel of [`EncodedRequest`]
//! ```
//!
//! A request is accepted once it is in the channel. Under pressure the client is asked to retry:
//! nothing that was accepted is dropped here, and memory is limited by [`Limits`].

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accept;
mod attributes;
mod body;
mod budget;
mod counters;
mod decompress;
mod error;
mod filter;
mod footprint;
mod gpu_points;
mod grpc;
mod held_span;
mod inspect;
mod json;
mod json_message;
mod json_scalar;
mod keep_resources;
mod limits;
mod listen;
mod newcomers;
mod points;
mod response;
mod schema;
mod security;
mod server;
mod service;
mod span_view;
mod split;
mod stats;
mod take_spans;

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::{TcpListener, UnixListener};
use tokio::runtime;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::rustls;

use self::accept::{LargeRequests, ReadRequest};
use self::budget::Budget;
pub use self::counters::{CounterView, counter_points};
use self::decompress::Encoding;
use self::error::RequestError;
pub use self::gpu_points::{GpuPoint, drop_gpu_points};
pub use self::held_span::{HeldRequest, HeldSpan, held_requests};
pub use self::keep_resources::keep_resources;
pub use self::limits::Limits;
pub use self::listen::{ListenAddress, ParseListenError};
use self::newcomers::Newcomers;
pub use self::points::{NumberPoint, number_points};
use self::response::Format;
pub use self::security::{BearerToken, SecurityError, server_tls};
use self::server::Socket;
use self::service::Service;
pub use self::span_view::{ResourceView, SpanView};
pub use self::stats::{ReceiverCounts, ReceiverStats};
pub use self::take_spans::{TakenSpans, take_spans};
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::Signal;
use phasemeter_otlp::unix_socket::listen_privately;

/// How to listen, and for whom.
#[derive(Clone, Debug, Default)]
pub struct ReceiverConfig {
    /// The addresses.
    pub listen: Vec<ListenAddress>,
    /// TLS, on every TCP address.
    pub tls: Option<Arc<ServerConfig>>,
    /// The token that every request must have.
    pub token: Option<BearerToken>,
    /// Limits.
    pub limits: Limits,
}

/// Why a receiver cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ReceiverError {
    /// Other machines could send and read without TLS or a token.
    #[error(
        "{0}: reachable from other machines; set a TLS certificate, its key and a token, or listen on 127.0.0.1"
    )]
    Insecure(ListenAddress),
    /// An address is not available.
    #[error("{address}: cannot listen; another program may use it, choose another address")]
    Listen {
        /// The address.
        address: ListenAddress,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the receiver")]
    Thread(#[from] io::Error),
}

/// A running receiver.
#[derive(Debug)]
pub struct Receiver {
    addresses: Vec<ListenAddress>,
    stats: Arc<ReceiverStats>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Starts listening. Accepted requests arrive in the channel, in the order of their acceptance, each in one or
    /// several parts.
    ///
    /// # Errors
    /// Returns an error if an address is insecure or not available.
    pub fn start(
        config: ReceiverConfig,
    ) -> Result<(Self, mpsc::Receiver<EncodedRequest>), ReceiverError> {
        let ReceiverConfig { listen, tls, token, limits } = config;
        if (tls.is_none() || token.is_none())
            && let Some(address) = listen.iter().find(|address| address.is_remote())
        {
            return Err(ReceiverError::Insecure(address.clone()));
        }
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let mut addresses = Vec::new();
        let mut sockets = Vec::new();
        for address in listen {
            let failed = |source| ReceiverError::Listen { address: address.clone(), source };
            let bound = runtime.block_on(bind(&address)).map_err(failed)?;
            addresses.push(bound.0);
            sockets.push(bound.1);
        }
        // What waits in it is limited by its bytes.
        let (requests, received) = mpsc::channel();
        let stats = Arc::<ReceiverStats>::default();
        let (stop, stopped) = watch::channel(false);
        let service = Arc::new(Service {
            limits,
            token,
            budget: Budget::new(limits.bytes_in_flight),
            requests,
            stats: Arc::clone(&stats),
            reading: AtomicUsize::new(0),
            large: LargeRequests::start(limits)?,
        });
        let connections = Arc::new(Semaphore::new(limits.connections));
        let newcomers = Arc::new(Newcomers::new(limits.newcomers.min(limits.connections)));
        let serve = move || {
            runtime.block_on(async move {
                let mut servers = JoinSet::new();
                for socket in sockets {
                    let tls = tls.clone().filter(|_| matches!(socket, Socket::Tcp(_)));
                    let (service, connections) = (Arc::clone(&service), Arc::clone(&connections));
                    let (newcomers, stopped) = (Arc::clone(&newcomers), stopped.clone());
                    let server = server::run(socket, tls, service, connections, newcomers, stopped);
                    servers.spawn(server);
                }
                drop(service);
                let mut stopped = stopped;
                let _ = stopped.wait_for(|stop| *stop).await;
                let ended = async { while servers.join_next().await.is_some() {} };
                let _ = timeout(STOP_TIMEOUT, ended).await;
            });
            runtime.shutdown_background();
        };
        let thread = thread::Builder::new().name("otlp-receiver".to_owned()).spawn(serve)?;
        Ok((Self { addresses, stats, stop, thread: Some(thread) }, received))
    }

    /// The addresses that it listens on, with their ports.
    #[must_use]
    pub fn addresses(&self) -> &[ListenAddress] {
        &self.addresses
    }

    /// Its counts.
    #[must_use]
    pub fn stats(&self) -> ReceiverCounts {
        self.stats.read()
    }

    /// Its counts, for another thread.
    #[must_use]
    pub fn stats_handle(&self) -> Arc<ReceiverStats> {
        Arc::clone(&self.stats)
    }

    /// Stops: requests that were begun are finished, within a second. Then the channel is closed.
    pub fn stop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for address in &self.addresses {
            if let ListenAddress::Unix(path) = address {
                let _ = std::fs::remove_file(path);
            }
        }
    }
}

/// How long requests that were begun may take when the receiver stops.
const STOP_TIMEOUT: Duration = Duration::from_secs(1);

impl Drop for Receiver {
    fn drop(&mut self) {
        self.stop();
    }
}

async fn bind(address: &ListenAddress) -> io::Result<(ListenAddress, Socket)> {
    match address {
        ListenAddress::Tcp(address) => {
            let listener = TcpListener::bind(address).await?;
            Ok((ListenAddress::Tcp(listener.local_addr()?), Socket::Tcp(listener)))
        }
        ListenAddress::Unix(path) => {
            remove_stale(path);
            let listener = listen_privately(path)?;
            listener.set_nonblocking(true)?;
            let listener = UnixListener::from_std(listener)?;
            Ok((ListenAddress::Unix(path.clone()), Socket::Unix(listener)))
        }
    }
}

/// Removes a socket that no program listens on: the one before was killed.
fn remove_stale(path: &Path) {
    let is_socket = std::fs::metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        let _ = std::fs::remove_file(path);
    }
}

/// What the receiver makes of a request without a network, in parts: for tests of hostile input.
///
/// # Errors
/// Returns the sentence that the client would receive.
pub fn accept_bytes(
    signal: Signal,
    is_json: bool,
    encoding: Option<&str>,
    body: &[u8],
) -> Result<Vec<EncodedRequest>, String> {
    let limits = Limits::default();
    let read = || {
        let encoding = Encoding::named(encoding)?;
        let budget = Budget::new(limits.bytes_in_flight);
        let mut reservation = budget.begin().ok_or(RequestError::Exhausted)?;
        let body = encoding.decompress(body.to_vec(), limits.request_bytes, &mut reservation)?;
        let format = if is_json { Format::Json } else { Format::Protobuf };
        let request = ReadRequest { signal, format, body, reservation };
        request.accept(&limits).map(|(received, _)| received)
    };
    read().map_err(|error: RequestError| error.to_string())
}
