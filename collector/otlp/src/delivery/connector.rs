//! Connects to a backend over TCP, TCP with TLS, or a Unix socket, for both transports.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;

use http::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::sleep;
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
            Address::Tcp { host, port } => connect(resolve(host, *port).await?).await?,
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

/// How long an address has before the next one of the host is tried beside it, as RFC 8305 recommends.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// Connects to the first address that answers. One that never does, as of a machine that is gone, must not take the
/// time of the others.
async fn connect(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    if let [only] = addresses[..] {
        return TcpStream::connect(only).await;
    }
    let mut attempts = JoinSet::new();
    for (address, number) in addresses.into_iter().zip(0..) {
        attempts.spawn(async move {
            sleep(ATTEMPT_DELAY * number).await;
            TcpStream::connect(address).await
        });
    }
    let mut failure = io::ErrorKind::AddrNotAvailable.into();
    while let Some(attempt) = attempts.join_next().await {
        match attempt.map_err(io::Error::other).flatten() {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
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

#[cfg(test)]
mod tests {
    use tokio::net::TcpSocket;
    use tokio::runtime::Builder;
    use tokio::time::timeout;

    use super::*;

    /// Scenario: the first address of a host drops all packets of new connections, another one refuses them.
    /// Guarantee: the one that answers is used soon; if none does, that is an error.
    #[test]
    fn address_that_answers_is_used_whatever_the_others_do() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
            let full = socket.listen(1).unwrap();
            let silent = full.local_addr().unwrap();
            // Nothing accepts: once its queue is full, it answers no more.
            let mut queued = Vec::new();
            while let Ok(connection) =
                timeout(Duration::from_millis(500), TcpStream::connect(silent)).await
            {
                queued.push(connection.unwrap());
                assert!(queued.len() < 100, "the queue is never full");
            }
            let good = TcpSocket::new_v4().unwrap();
            good.bind(([127, 0, 0, 1], 0).into()).unwrap();
            let refusing = good.local_addr().unwrap();
            let error = connect(vec![refusing]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            let listening = good.listen(8).unwrap();
            let good = listening.local_addr().unwrap();
            let unused = SocketAddr::from(([127, 0, 0, 2], good.port()));
            let connected =
                timeout(Duration::from_secs(60), connect(vec![silent, unused, good])).await;
            assert_eq!(connected.unwrap().unwrap().peer_addr().unwrap(), good);
            assert!(connect(Vec::new()).await.is_err());
        });
    }
}
