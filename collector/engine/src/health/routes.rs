//! The answers: `/livez`, `/readyz`, `/metrics`, `/status`, and `grpc.health.v1.Health/Check`.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use phasemeter_otlp::exposition::Format;
use tonic::body::Body;
use tonic::codegen::tokio_stream::Empty;
use tonic::{Code, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health as HealthService, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tower_service::Service;

use super::metrics::MetricsPages;
use super::state::{HUNG_AFTER, Health};

/// Paths of `grpc.health.v1`.
const GRPC: &str = "/grpc.health.v1.Health/";

/// What answers.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    pub(super) health: Arc<Health>,
    pub(super) metrics: MetricsPages,
    /// Whether the client is on this machine.
    pub(super) is_local: bool,
}

impl Routes {
    /// Answers a request. Its body is not read, unless it is for gRPC.
    pub(super) async fn answer(self, request: Request<Incoming>) -> Response<Body> {
        if request.method() == Method::POST && request.uri().path().starts_with(GRPC) {
            let Ok(response) = HealthServer::new(self).call(request).await;
            return response;
        }
        if request.method() != Method::GET {
            let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "only GET is answered\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
            return refused;
        }
        match request.uri().path() {
            "/livez" if self.health.is_live() => text(StatusCode::OK, "ok\n"),
            "/livez" => {
                let stalled =
                    format!("stalled: no step for {} s or longer\n", HUNG_AFTER.as_secs());
                text(StatusCode::SERVICE_UNAVAILABLE, stalled)
            }
            "/readyz" if self.health.is_ready() => text(StatusCode::OK, "ok\n"),
            "/readyz" => text(StatusCode::SERVICE_UNAVAILABLE, "starting, stalled or ending\n"),
            "/metrics" => metrics(self.metrics, request.headers()).await,
            "/metrics/internal" => metrics(self.metrics.internal(), request.headers()).await,
            "/status" if !self.is_local || !names_this_machine(request.headers()) => {
                text(StatusCode::FORBIDDEN, "only clients on this machine are answered\n")
            }
            "/status" => status(&self.health).await,
            _ => {
                text(StatusCode::NOT_FOUND, "answered are /livez, /readyz, /metrics and /status\n")
            }
        }
    }
}

/// The metrics, in the format that the client prefers.
async fn metrics(pages: MetricsPages, headers: &HeaderMap) -> Response<Body> {
    let accepted = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    let format = Format::of(accepted.unwrap_or_default());
    let Some(page) = pages.page(format).await else {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "no page could be made\n");
    };
    let mut response = text(StatusCode::OK, page);
    let kind = HeaderValue::from_static(format.content_type());
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// Whether the client has asked this machine by its own name, not by one that leads here: a page in a browser could
/// read the answer.
fn names_this_machine(headers: &HeaderMap) -> bool {
    let Some(host) = headers.get(HOST) else { return true };
    let Ok(host) = host.to_str() else { return false };
    let name = host.rsplit_once(':').filter(|_| !host.ends_with(']')).map_or(host, |it| it.0);
    let address = name.trim_matches(['[', ']']).parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// The report so far.
async fn status(health: &Health) -> Response<Body> {
    let Some(report) = health.status().report().await else {
        let none = "nothing is metered yet, or the report takes too long\n";
        return text(StatusCode::SERVICE_UNAVAILABLE, none);
    };
    let mut response = text(StatusCode::OK, report);
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::new(Full::new(body.into())));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[tonic::async_trait]
impl HealthService for Routes {
    type WatchStream = Empty<Result<HealthCheckResponse, Status>>;

    /// The state of the whole process, which is the service without a name.
    async fn check(
        &self,
        request: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<HealthCheckResponse>, Status> {
        if !request.get_ref().service.is_empty() {
            return Err(Status::new(Code::NotFound, "only the service without a name is known"));
        }
        let status = match self.health.is_ready() {
            true => ServingStatus::Serving,
            false => ServingStatus::NotServing,
        };
        Ok(tonic::Response::new(HealthCheckResponse { status: status.into() }))
    }

    async fn watch(
        &self,
        _: tonic::Request<HealthCheckRequest>,
    ) -> Result<tonic::Response<Self::WatchStream>, Status> {
        Err(Status::new(Code::Unimplemented, "call Check"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_are_answered() {
        for (host, expected) in [
            (Some("localhost:8081"), true),
            (Some("127.0.0.1"), true),
            (Some("127.0.0.2:8081"), true),
            (Some("[::1]:8081"), true),
            (Some("[::1]"), true),
            (None, true),
            (Some("attacker.example:8081"), false),
            (Some("localhost.attacker.example"), false),
            (Some("10.0.0.1:8081"), false),
            (Some(""), false),
        ] {
            let host = host.map(|it| (HOST, HeaderValue::from_str(it).unwrap()));
            assert_eq!(
                names_this_machine(&host.clone().into_iter().collect()),
                expected,
                "{host:?}"
            );
        }
    }
}
