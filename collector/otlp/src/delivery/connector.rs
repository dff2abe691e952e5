//! Connects to a backend over TCP, TCP with TLS, or a Unix socket, for both transports.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;
use tower_service::Service;

use super::config::{Address, Target, Tls};

/// Connects to one target, whatever the requested address.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    address: Address,
    tls: Option<Tls>,
}

/// A connection of any kind.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

impl Connection for Box<dyn ByteStream> {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Connector {
    pub(super) fn new(target: &Target) -> Self {
        Self { address: target.endpoint.address.clone(), tls: target.tls.clone() }
    }

    async fn open(self) -> io::Result<Box<dyn ByteStream>> {
        let stream = match &self.address {
            Address::Unix(path) => return Ok(Box::new(UnixStream::connect(path).await?)),
            Address::Tcp { host, port } => {
                TcpStream::connect(&*resolve(host, *port).await?).await?
            }
        };
        // A request is written at once; delaying it gains nothing.
        stream.set_nodelay(true)?;
        match self.tls {
            None => Ok(Box::new(stream)),
            Some(tls) => {
                let connector = TlsConnector::from(tls.current());
                Ok(Box::new(connector.connect(tls.name, stream).await?))
            }
        }
    }
}

/// Looks up a host on a thread: the system's resolver blocks. The runtime's own threads for that panic if
/// they cannot be started.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![(address, port).into()]);
    }
    let (sender, found) = oneshot::channel();
    let host = host.to_owned();
    thread::Builder::new().name("resolver".to_owned()).spawn(move || {
        let addresses = (host.as_str(), port).to_socket_addrs().map(Iterator::collect);
        // Nothing may wait for it any more.
        let _ = sender.send(addresses);
    })?;
    found.await.unwrap_or_else(|_| Err(io::ErrorKind::NotFound.into()))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Box<dyn ByteStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.open().await.map(TokioIo::new) })
    }
}
