//! Listens for probes, on its own thread.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tracing::debug;

use super::metrics::MetricsPages;
use super::routes::Routes;
use super::state::Health;

/// Connections at a time; further ones wait.
const CONNECTIONS: usize = 32;

/// How long a client may take to send the head of its request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a connection may last. Probes and scrapes connect again.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(120);

/// The pause after a connection could not be accepted: there are too many open files, for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound address, which answers once [served](Self::serve).
#[derive(Debug)]
pub struct HealthListener {
    listener: std::net::TcpListener,
}

impl HealthListener {
    /// Binds an address.
    ///
    /// # Errors
    /// Returns an error if it is not available.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener })
    }

    /// The bound address.
    ///
    /// # Errors
    /// Returns an error if the system does not give it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the process ends.
    ///
    /// # Errors
    /// Returns an error if the thread cannot be started.
    pub fn serve(self, health: Arc<Health>, metrics: MetricsPages) -> io::Result<()> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let routes = Routes { health, metrics, is_local: false };
        let serve = move || runtime.block_on(accept(self.listener, routes));
        thread::Builder::new().name("health".to_owned()).spawn(serve).map(drop)
    }
}

async fn accept(listener: std::net::TcpListener, routes: Routes) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&connections).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, peer)) => {
                let is_local = peer.ip().to_canonical().is_loopback();
                let routes = Routes { is_local, ..routes.clone() };
                tokio::spawn(async move {
                    // A client that stays longer is cut.
                    let _ = timeout(CONNECTION_TIMEOUT, serve(stream, routes)).await;
                    drop(permit);
                });
            }
            Err(error) => {
                debug!("cannot accept a connection for probes: {error}");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn serve(stream: TcpStream, routes: Routes) {
    let service = service_fn(|request| {
        let routes = routes.clone();
        async move { Ok::<_, Infallible>(routes.answer(request).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(8);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        debug!("a probe ended early: {error}");
    }
}
