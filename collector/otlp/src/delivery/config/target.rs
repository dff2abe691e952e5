//! The backend of one signal: its endpoint, and how requests are sent there.

use std::fmt::{self, Display, Formatter};
use std::net::IpAddr;
use std::time::Duration;

use http::header::USER_AGENT;

use super::endpoint::{Address, Endpoint};
use super::headers::Headers;
use super::protocol::{Compression, Protocol};
use super::tls::Tls;
use crate::signal::Signal;

/// The target of one signal. Displayed as `grpc to https://collector:4317`, without headers, and
/// without the query, which can contain a token.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: Headers,
    /// Timeout of one attempt, including the connection.
    pub(crate) timeout: Duration,
    pub(crate) compression: Compression,
    /// `None` if the endpoint is plain text.
    pub(crate) tls: Option<Tls>,
}

impl Target {
    /// The `otel.component.type` of this kind of exporter.
    #[must_use]
    pub const fn exporter_type(&self, signal: Signal) -> &'static str {
        match (self.protocol, signal) {
            (Protocol::Grpc, Signal::Traces) => "otlp_grpc_span_exporter",
            (Protocol::Grpc, Signal::Metrics) => "otlp_grpc_metric_exporter",
            (Protocol::Grpc, Signal::Logs) => "otlp_grpc_log_exporter",
            (Protocol::HttpProtobuf, Signal::Traces) => "otlp_http_span_exporter",
            (Protocol::HttpProtobuf, Signal::Metrics) => "otlp_http_metric_exporter",
            (Protocol::HttpProtobuf, Signal::Logs) => "otlp_http_log_exporter",
            (Protocol::HttpJson, Signal::Traces) => "otlp_http_json_span_exporter",
            (Protocol::HttpJson, Signal::Metrics) => "otlp_http_json_metric_exporter",
            (Protocol::HttpJson, Signal::Logs) => "otlp_http_json_log_exporter",
        }
    }

    /// The `server.address` and `server.port` of the endpoint; a Unix socket has only an address.
    #[must_use]
    pub fn server(&self) -> (String, Option<u16>) {
        match &self.endpoint.address {
            Address::Tcp { host, port } => (host.clone(), Some(*port)),
            Address::Unix(path) => (path.display().to_string(), None),
        }
    }

    /// Whether headers, which often contain credentials, are sent unencrypted to another host.
    #[must_use]
    pub fn exposes_headers(&self) -> bool {
        let is_remote = match &self.endpoint.address {
            Address::Tcp { host, .. } => !is_loopback(host),
            Address::Unix(_) => false,
        };
        let headers = self.headers.current();
        is_remote && self.tls.is_none() && headers.keys().any(|name| name != USER_AGENT)
    }

    /// A likely cause if something listens but the two do not understand each other. The protocol
    /// is never guessed from the port, but two ports are conventional. A server that requires a
    /// client certificate closes the connection, often before the client has read the reason.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match (self.protocol, &self.endpoint.address) {
            (protocol, Address::Tcp { port: 4317, .. }) if protocol.is_http() => {
                Some("port 4317 is usually gRPC; set OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
            }
            (Protocol::Grpc, Address::Tcp { port: 4318, .. }) => {
                Some("port 4318 is usually HTTP; set OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf")
            }
            _ if self.tls.as_ref().is_some_and(Tls::is_anonymous) => Some(
                "the server may require a client certificate; set OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
            ),
            _ => None,
        }
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.protocol, self.endpoint)
    }
}
