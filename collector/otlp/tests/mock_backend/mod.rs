//! An in-process mock backend: OTLP over gRPC (tonic's server) and HTTP on one port, with or without
//! TLS. It replies as scripted, then accepts, and records the requests.

#![allow(dead_code, reason = "each test uses a part")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_server::{
    LogsService, LogsServiceServer,
};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsServiceRequest, ExportLogsServiceResponse,
};
use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_server::{
    MetricsService, MetricsServiceServer,
};
use opentelemetry_proto::tonic::collector::metrics::v1::{
    ExportMetricsPartialSuccess, ExportMetricsServiceRequest, ExportMetricsServiceResponse,
};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::{Status, async_trait};
use tower_service::Service;

/// Deadline for a request that is due immediately.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A scripted reply.
#[derive(Clone)]
pub(crate) enum Reply {
    Accept,
    /// Accepts all but this many items, with a reason.
    Partial(i64, &'static str),
    /// A gRPC error.
    Status(Status),
    /// An HTTP error: status, `Retry-After`, body.
    Http(StatusCode, Option<&'static str>, &'static str),
    /// Success over HTTP with this JSON.
    Json(&'static str),
    /// Never replies.
    NoResponse,
}

/// A received request.
#[derive(Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// The body on the wire, with gRPC framing and compression if any.
    pub(crate) body: Bytes,
}

/// A mock backend that runs until it is dropped.
pub(crate) struct MockBackend {
    pub(crate) address: SocketAddr,
    requests: Receiver<ReceivedRequest>,
    _stop: oneshot::Sender<()>,
}

impl MockBackend {
    /// Listens on a free port.
    pub(crate) fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::listen(scripted(script), None, None)
    }

    /// Listens on a free port, and replies to each request as this decides.
    pub(crate) fn deciding(decide: impl FnMut(&ReceivedRequest) -> Reply + Send + 'static) -> Self {
        Self::listen(Box::new(decide), None, None)
    }

    /// Listens on a free port with TLS.
    pub(crate) fn with_tls(script: impl IntoIterator<Item = Reply>, tls: ServerConfig) -> Self {
        Self::listen(scripted(script), Some(tls), None)
    }

    /// Listens on a Unix socket; `address` is unused.
    pub(crate) fn on_socket(path: &Path) -> Self {
        Self::listen(scripted([]), None, Some(path))
    }

    fn listen(decide: Decide, tls: Option<ServerConfig>, socket: Option<&Path>) -> Self {
        let (sender, requests) = mpsc::channel();
        let shared = Arc::new(Shared { decide: Mutex::new(decide), sender });
        let (stop, mut stopped) = oneshot::channel::<()>();
        let tls = tls.map(|config| TlsAcceptor::from(Arc::new(config)));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let tcp = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = tcp.local_addr().unwrap();
        let unix = {
            let _inside = runtime.enter();
            socket.map(|path| UnixListener::bind(path).unwrap())
        };
        thread::spawn(move || {
            runtime.block_on(async move {
                loop {
                    let connection: Box<dyn Connection> = tokio::select! {
                        _ = &mut stopped => return,
                        Ok((connection, _)) = tcp.accept() => Box::new(connection),
                        Ok((connection, _)) = accept(unix.as_ref()) => Box::new(connection),
                    };
                    tokio::spawn(serve(connection, tls.clone(), Arc::clone(&shared)));
                }
            });
        });
        Self { address, requests, _stop: stop }
    }

    /// Waits for the next request.
    pub(crate) fn next_request(&self) -> ReceivedRequest {
        self.requests.recv_timeout(REQUEST_TIMEOUT).unwrap()
    }

    /// All requests received and not yet returned.
    pub(crate) fn received(&self) -> Vec<ReceivedRequest> {
        self.requests.try_iter().collect()
    }
}

/// An endpoint that refuses connections. A listener on another loopback address keeps every other
/// process from listening on all addresses of this port.
pub(crate) struct Unreachable {
    pub(crate) address: SocketAddr,
    _listener: std::net::TcpListener,
}

impl Unreachable {
    pub(crate) fn reserve() -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { address: SocketAddr::from(([127, 0, 0, 2], port)), _listener: listener }
    }
}

async fn accept(
    unix: Option<&UnixListener>,
) -> std::io::Result<(tokio::net::UnixStream, tokio::net::unix::SocketAddr)> {
    match unix {
        Some(listener) => listener.accept().await,
        None => future::pending().await,
    }
}

trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Decides how to reply.
type Decide = Box<dyn FnMut(&ReceivedRequest) -> Reply + Send>;

/// Replies as scripted, then accepts.
fn scripted(script: impl IntoIterator<Item = Reply>) -> Decide {
    let mut script: VecDeque<_> = script.into_iter().collect();
    Box::new(move |_| script.pop_front().unwrap_or(Reply::Accept))
}

struct Shared {
    decide: Mutex<Decide>,
    sender: mpsc::Sender<ReceivedRequest>,
}

async fn serve(connection: Box<dyn Connection>, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let connection: Box<dyn Connection> = match tls {
        None => connection,
        Some(tls) => match tls.accept(connection).await {
            Ok(connection) => Box::new(connection),
            Err(_) => return,
        },
    };
    let service = service_fn(|request| respond(Arc::clone(&shared), request));
    let server = auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(connection), service).await;
}

async fn respond(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let path = parts.uri.path().to_owned();
    let received =
        ReceivedRequest { path: path.clone(), headers: parts.headers.clone(), body: body.clone() };
    let reply = (shared.decide.lock().unwrap())(&received);
    // The test may have dropped the receiver.
    let _ = shared.sender.send(received);
    if let Reply::NoResponse = reply {
        return future::pending().await;
    }
    if !path.starts_with("/opentelemetry.proto") {
        return Ok(over_http(&reply));
    }
    parts.extensions.insert(reply);
    let request = Request::from_parts(parts, Body::new(Full::new(body)));
    let gzip = CompressionEncoding::Gzip;
    match path.split('/').nth(1) {
        Some("opentelemetry.proto.collector.trace.v1.TraceService") => {
            TraceServiceServer::new(Otlp).accept_compressed(gzip).call(request).await
        }
        Some("opentelemetry.proto.collector.metrics.v1.MetricsService") => {
            MetricsServiceServer::new(Otlp).accept_compressed(gzip).call(request).await
        }
        _ => LogsServiceServer::new(Otlp).accept_compressed(gzip).call(request).await,
    }
}

fn over_http(reply: &Reply) -> Response<Body> {
    let (status, retry_after, body) = match *reply {
        Reply::Http(status, retry_after, body) => (status, retry_after, Bytes::from(body)),
        Reply::Json(body) => (StatusCode::OK, None, Bytes::from(body)),
        Reply::Partial(rejected, message) => (StatusCode::OK, None, partial(rejected, message)),
        _ => (StatusCode::OK, None, Bytes::new()),
    };
    let mut response = Response::builder().status(status);
    if let Reply::Json(_) = reply {
        response = response.header("content-type", "application/json");
    }
    if let Some(after) = retry_after {
        response = response.header("retry-after", after);
    }
    response.body(Body::new(Full::new(body))).unwrap()
}

fn partial(rejected_spans: i64, message: &str) -> Bytes {
    let partial_success =
        Some(ExportTracePartialSuccess { rejected_spans, error_message: message.to_owned() });
    ExportTraceServiceResponse { partial_success }.encode_to_vec().into()
}

/// The OTLP services, which return the reply attached to the request.
struct Otlp;

fn reply<T>(request: &tonic::Request<T>) -> Result<Option<(i64, String)>, Status> {
    match request.extensions().get() {
        Some(Reply::Status(status)) => Err(status.clone()),
        Some(Reply::Partial(rejected, message)) => Ok(Some((*rejected, (*message).to_owned()))),
        _ => Ok(None),
    }
}

#[async_trait]
impl TraceService for Otlp {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, Status> {
        let partial_success = reply(&request)?.map(|(rejected_spans, error_message)| {
            ExportTracePartialSuccess { rejected_spans, error_message }
        });
        Ok(ExportTraceServiceResponse { partial_success }.into())
    }
}

#[async_trait]
impl MetricsService for Otlp {
    async fn export(
        &self,
        request: tonic::Request<ExportMetricsServiceRequest>,
    ) -> Result<tonic::Response<ExportMetricsServiceResponse>, Status> {
        let partial_success = reply(&request)?.map(|(rejected_data_points, error_message)| {
            ExportMetricsPartialSuccess { rejected_data_points, error_message }
        });
        Ok(ExportMetricsServiceResponse { partial_success }.into())
    }
}

#[async_trait]
impl LogsService for Otlp {
    async fn export(
        &self,
        request: tonic::Request<ExportLogsServiceRequest>,
    ) -> Result<tonic::Response<ExportLogsServiceResponse>, Status> {
        reply(&request)?;
        Ok(ExportLogsServiceResponse::default().into())
    }
}
