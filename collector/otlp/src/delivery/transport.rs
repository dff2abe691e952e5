//! How requests reach a backend: gRPC or HTTP, or what a caller puts in their place.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use bytes::Bytes;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use tokio_rustls::rustls::ClientConfig;

use super::config::{Protocol, Target, Tls};
use super::connector::Connector;
use super::credentials::Credentials;
use super::grpc::Grpc;
use super::http::Http;
use super::operations::Attempt;
use crate::signal::Signal;

/// Carries the requests of one worker.
pub trait Transport: Send + 'static {
    /// Makes one attempt. It may be dropped before it ends: then the time is up.
    fn send(&mut self, body: Bytes) -> impl Future<Output = Attempt> + Send;

    /// The next attempt uses a new connection.
    fn reset(&mut self);

    /// A number that differs between calls, and between processes.
    fn jitter(&mut self) -> u32;
}

/// A connection to a target. It connects on first use, and again after it is lost, or with new certificates.
pub(super) struct Connection {
    signal: Signal,
    target: Target,
    /// The certificates of `client`.
    certificates: Option<Arc<ClientConfig>>,
    credentials: Credentials,
    client: Client,
}

enum Client {
    Grpc(Grpc),
    Http(Http),
}

impl Connection {
    pub(super) fn new(signal: Signal, target: &Target) -> Self {
        let certificates = target.tls.as_ref().map(Tls::current);
        let credentials = Credentials::new(target.headers.clone());
        let client = Client::new(signal, target);
        Self { signal, target: target.clone(), certificates, credentials, client }
    }
}

impl Transport for Connection {
    async fn send(&mut self, body: Bytes) -> Attempt {
        let certificates = self.target.tls.as_ref().map(Tls::current);
        let is_current = |(new, used): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(new, used);
        if !certificates.as_ref().zip(self.certificates.as_ref()).is_none_or(is_current) {
            self.reset();
        }
        self.certificates = certificates;
        let headers = self.credentials.current();
        let attempt = match &mut self.client {
            Client::Grpc(grpc) => grpc.send(body, &headers).await,
            Client::Http(http) => http.send(body, &headers).await,
        };
        self.credentials.judge(attempt, Instant::now())
    }

    fn reset(&mut self) {
        self.client = Client::new(self.signal, &self.target);
    }

    /// The standard library seeds its hash maps with one.
    fn jitter(&mut self) -> u32 {
        let hash = RandomState::new().hash_one(());
        u32::try_from(hash >> 32).unwrap_or(u32::MAX)
    }
}

impl Client {
    fn new(signal: Signal, target: &Target) -> Self {
        let connector = Connector::new(target);
        let mut client = legacy::Client::builder(TokioExecutor::new());
        client.pool_timer(TokioTimer::new()).http2_only(target.protocol == Protocol::Grpc);
        match target.protocol {
            Protocol::Grpc => Self::Grpc(Grpc::new(signal, target, client.build(connector))),
            Protocol::HttpProtobuf | Protocol::HttpJson => {
                Self::Http(Http::new(signal, target, client.build(connector)))
            }
        }
    }
}
