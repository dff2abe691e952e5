//! Accepts connections and serves their requests, each by HTTP/1.1 or HTTP/2.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_rustls::{TlsAcceptor, rustls};
use tracing::debug;

use super::limits::Limits;
use super::newcomers::{Newcomer, Newcomers};
use super::service::Service;

/// The pause after a connection could not be accepted: there are too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that a client may send ahead per stream and per connection. Larger ones would be memory that
/// is not in the budget.
const STREAM_WINDOW: u32 = CONNECTION_WINDOW;
const CONNECTION_WINDOW: u32 = 256 << 10;

/// Maximum size of headers.
const HEADER_BYTES: u32 = 16 << 10;

/// A bound socket.
#[derive(Debug)]
pub(super) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection of any kind.
trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// Accepts connections until it is stopped, then ends the open ones: requests that were begun are
/// finished.
pub(super) async fn run(
    socket: Socket,
    tls: Option<Arc<ServerConfig>>,
    service: Arc<Service>,
    connections: Arc<Semaphore>,
    newcomers: Arc<Newcomers>,
    stop: watch::Receiver<bool>,
) {
    let tls = tls.map(TlsAcceptor::from);
    let mut tasks = JoinSet::new();
    let mut stopped = stop.clone();
    loop {
        let accepted = tokio::select! {
            accepted = accept(&socket) => accepted,
            Some(_) = tasks.join_next() => continue,
            _ = stopped.wait_for(|stop| *stop) => break,
        };
        let Some(stream) = accepted else {
            sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Beyond the limit a connection is closed at once: clients connect again later.
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
        let connection = Connection {
            newcomer: Arc::new(newcomers.add()),
            service: Arc::clone(&service),
            tls: tls.clone(),
            stop: stop.clone(),
            _permit: permit,
        };
        tasks.spawn(connection.serve(stream));
    }
    while tasks.join_next().await.is_some() {}
}

async fn accept(socket: &Socket) -> Option<Box<dyn ByteStream>> {
    let stream: std::io::Result<Box<dyn ByteStream>> = match socket {
        Socket::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
            // A response is written at once; delaying it gains nothing.
            let _ = stream.set_nodelay(true);
            Box::new(stream) as Box<dyn ByteStream>
        }),
        Socket::Unix(listener) => {
            listener.accept().await.map(|(stream, _)| Box::new(stream) as Box<dyn ByteStream>)
        }
    };
    stream.inspect_err(|error| debug!("cannot accept a connection: {error}")).ok()
}

/// A connection that is served.
struct Connection {
    newcomer: Arc<Newcomer>,
    service: Arc<Service>,
    tls: Option<TlsAcceptor>,
    stop: watch::Receiver<bool>,
    _permit: OwnedSemaphorePermit,
}

/// When a connection was last used.
struct Activity {
    started: Instant,
    /// Milliseconds since then.
    last: AtomicU64,
    requests: AtomicUsize,
}

impl Activity {
    fn begin(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn end(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last.store(now, Ordering::Relaxed);
    }

    /// When the connection is closed if nothing happens; `None` during a request of a client that may send.
    fn deadline(&self, limits: &Limits, is_known: bool) -> Option<Instant> {
        let is_idle = self.requests.load(Ordering::Relaxed) == 0;
        let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
        match (is_known, last) {
            (true, _) => is_idle.then(|| self.started + last + limits.idle_timeout),
            // Nothing was requested.
            (false, Duration::ZERO) if is_idle => Some(self.started + limits.header_timeout),
            // Whatever else was, was rejected.
            (false, _) => Some(self.started + limits.newcomer_timeout),
        }
    }
}

impl Connection {
    async fn serve(self, stream: Box<dyn ByteStream>) {
        tokio::select! {
            () = self.newcomer.closed() => {}
            () = self.serve_requests(stream) => {}
        }
    }

    async fn serve_requests(&self, stream: Box<dyn ByteStream>) {
        let limits = self.service.limits;
        let stream: Box<dyn ByteStream> = match &self.tls {
            None => stream,
            Some(tls) => match timeout(limits.header_timeout, tls.accept(stream)).await {
                Ok(Ok(stream)) => Box::new(stream),
                Ok(Err(error)) => return debug!("TLS handshake failed: {error}"),
                Err(_) => return,
            },
        };
        let activity = Arc::new(Activity {
            started: Instant::now(),
            last: AtomicU64::new(0),
            requests: AtomicUsize::new(0),
        });
        let builder = builder(&self.service);
        let service = service_fn(|request| {
            let (service, activity) = (Arc::clone(&self.service), Arc::clone(&activity));
            let newcomer = Arc::clone(&self.newcomer);
            async move {
                activity.begin();
                let response = service.serve(request, &|| newcomer.admit()).await;
                activity.end();
                Ok::<_, Infallible>(response)
            }
        });
        let mut connection =
            std::pin::pin!(builder.serve_connection(TokioIo::new(stream), service));
        let mut stop = self.stop.clone();
        let mut stopping = false;
        loop {
            let deadline = || activity.deadline(&limits, self.newcomer.is_known());
            let check = deadline().unwrap_or_else(|| Instant::now() + limits.body_timeout);
            tokio::select! {
                _ = connection.as_mut() => return,
                _ = stop.wait_for(|stop| *stop), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = sleep_until(check) => {
                    if deadline().is_some_and(|deadline| deadline <= Instant::now()) {
                        return;
                    }
                }
            }
        }
    }
}

fn builder(service: &Service) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(service.limits.header_timeout)
        .max_buf_size(HEADER_BYTES as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(service.limits.streams_per_connection)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(HEADER_BYTES);
    builder
}
