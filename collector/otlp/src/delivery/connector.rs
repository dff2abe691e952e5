//! Connects to a backend over TCP, TCP with TLS, or a Unix socket, for both transports.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
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
            Address::Tcp { host, port } => TcpStream::connect((host.as_str(), *port)).await?,
        };
        // A request is written at once; delaying it gains nothing.
        stream.set_nodelay(true)?;
        match self.tls {
            None => Ok(Box::new(stream)),
            Some(Tls { config, name }) => {
                Ok(Box::new(TlsConnector::from(Arc::clone(&config)).connect(name, stream).await?))
            }
        }
    }
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
