//! The OpenTelemetry SDK's metric exporter over our connector, with its certificates and sockets.
//!
//! `opentelemetry-otlp` encodes, and reads compression and temporality from the same variables. Headers are ours, which
//! can change while it runs.

use std::pin::Pin;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{HeaderMap, Request, Response};
use opentelemetry_http::hyper::HyperClient;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, RetryPolicy, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use tonic::metadata::MetadataMap;
use tonic::transport::Endpoint;

use super::config::{Headers, Protocol, Target};
use super::connector::Connector;

impl Target {
    /// A metric exporter to this target. Create and poll it inside a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the SDK rejects the configuration.
    pub fn metric_exporter(&self) -> Result<MetricExporter, ExporterBuildError> {
        let (uri, connector) = (&self.endpoint.uri, Connector::new(self));
        let headers = self.headers.clone();
        // Sums are cumulative: the next export repeats what this one could not send.
        let once = RetryPolicy::disabled();
        match self.protocol {
            Protocol::Grpc => {
                // A server that is gone without a word is noticed when it does not answer a ping. More of them a request
                // are too many for some servers.
                let endpoint = Endpoint::from(uri.clone())
                    .timeout(self.timeout)
                    .http2_keep_alive_interval(self.timeout / 2)
                    .keep_alive_timeout(self.timeout / 2);
                MetricExporter::builder()
                    .with_tonic()
                    .with_channel(endpoint.connect_with_connector_lazy(connector))
                    .with_interceptor(move |mut request: tonic::Request<()>| {
                        let mut metadata = std::mem::take(request.metadata_mut()).into_headers();
                        add(&headers, &mut metadata);
                        *request.metadata_mut() = MetadataMap::from_headers(metadata);
                        Ok(request)
                    })
                    .with_retry_policy(once)
                    .with_timeout(self.timeout)
                    .build()
            }
            Protocol::HttpProtobuf | Protocol::HttpJson => MetricExporter::builder()
                .with_http()
                .with_http_client(WithHeaders {
                    client: HyperClient::new(connector, self.timeout, None),
                    headers,
                })
                .with_protocol(match self.protocol {
                    Protocol::HttpJson => opentelemetry_otlp::Protocol::HttpJson,
                    Protocol::Grpc | Protocol::HttpProtobuf => {
                        opentelemetry_otlp::Protocol::HttpBinary
                    }
                })
                .with_endpoint(uri.to_string())
                .with_retry_policy(once)
                .with_timeout(self.timeout)
                .build(),
        }
    }
}

/// A client that adds the current headers to each request.
#[derive(Debug)]
struct WithHeaders<C> {
    client: C,
    headers: Headers,
}

impl<C: HttpClient> HttpClient for WithHeaders<C> {
    fn send_bytes<'a, 'b>(
        &'a self,
        mut request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Result<Response<Bytes>, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        add(&self.headers, request.headers_mut());
        self.client.send_bytes(request)
    }
}

/// The SDK has a user agent of its own.
fn add(headers: &Headers, to: &mut HeaderMap) {
    let current = headers.current();
    let ours = current.iter().filter(|(name, _)| *name != USER_AGENT);
    ours.for_each(|(name, value)| drop(to.insert(name, value.clone())));
}
