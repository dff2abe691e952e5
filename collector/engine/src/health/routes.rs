//! The answers: `/livez`, `/readyz`, `/metrics`, and `grpc.health.v1.Health/Check`.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, ALLOW, CONTENT_TYPE};
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
            _ => text(StatusCode::NOT_FOUND, "answered are /livez, /readyz and /metrics\n"),
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
