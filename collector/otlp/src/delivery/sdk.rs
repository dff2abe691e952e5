//! The OpenTelemetry SDK's metric exporter over our connector, with its certificates and sockets.
//!
//! `opentelemetry-otlp` encodes, and reads headers, compression and temporality from the same
//! variables.

use opentelemetry_http::hyper::HyperClient;
use opentelemetry_otlp::{
    ExporterBuildError, MetricExporter, RetryPolicy, WithExportConfig, WithHttpConfig,
    WithTonicConfig,
};
use tonic::transport::Endpoint;

use super::config::{Protocol, Target};
use super::connector::Connector;

impl Target {
    /// A metric exporter to this target. Create and poll it inside a tokio runtime.
    ///
    /// # Errors
    /// Returns an error if the SDK rejects the configuration.
    pub fn metric_exporter(&self) -> Result<MetricExporter, ExporterBuildError> {
        let (uri, connector) = (&self.endpoint.uri, Connector::new(self));
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
                    .with_retry_policy(once)
                    .with_timeout(self.timeout)
                    .build()
            }
            Protocol::HttpProtobuf | Protocol::HttpJson => MetricExporter::builder()
                .with_http()
                .with_http_client(HyperClient::new(connector, self.timeout, None))
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
