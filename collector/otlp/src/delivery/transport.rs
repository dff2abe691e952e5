//! The transport of a target: gRPC or HTTP.

use bytes::Bytes;
use http::HeaderMap;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::config::{Protocol, Target};
use super::connector::Connector;
use super::grpc::Grpc;
use super::http::Http;
use super::operations::Attempt;
use crate::signal::Signal;

/// A transport. It connects on first use, and again after the connection is lost.
pub(super) enum Transport {
    Grpc(Grpc),
    Http(Http),
}

impl Transport {
    pub(super) fn new(signal: Signal, target: &Target) -> Self {
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

    /// Makes one attempt.
    pub(super) async fn send(&mut self, body: Bytes, headers: &HeaderMap) -> Attempt {
        match self {
            Self::Grpc(grpc) => grpc.send(body, headers).await,
            Self::Http(http) => http.send(body, headers).await,
        }
    }
}
