//! A backend in the test's process: OTLP over gRPC, by tonic's own server, and over HTTP, on the
//! same port, with or without TLS. It answers by a script, then accepts, and shows what it saw.

#![allow(dead_code, reason = "each test that includes it uses a part")]

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

/// No test waits longer for something that is due at once.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a backend answers.
#[derive(Clone)]
pub(crate) enum Reply {
    Accept,
    /// Accepts all but so many items, and says why.
    Partial(i64, &'static str),
    /// An error in gRPC's words.
    Status(Status),
    /// An error in HTTP's words: status, `Retry-After`, body.
    Http(StatusCode, Option<&'static str>, &'static str),
    /// Nothing, ever.
    Silence,
}

/// A request as it arrived.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    /// As it was on the wire: framed by gRPC, packed where it was packed.
    pub(crate) body: Bytes,
}

/// A backend that runs until it is dropped.
pub(crate) struct Backend {
    pub(crate) address: SocketAddr,
    seen: Receiver<Seen>,
    _stop: oneshot::Sender<()>,
}

impl Backend {
    /// On a port of its own.
    pub(crate) fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        Self::listen(script, None, None)
    }

    /// On a port of its own, under TLS.
    pub(crate) fn with_tls(script: impl IntoIterator<Item = Reply>, tls: ServerConfig) -> Self {
        Self::listen(script, Some(tls), None)
    }

    /// On a socket; its address means nothing.
    pub(crate) fn on_socket(path: &Path) -> Self {
        Self::listen([], None, Some(path))
    }

    fn listen(
        script: impl IntoIterator<Item = Reply>,
        tls: Option<ServerConfig>,
        socket: Option<&Path>,
    ) -> Self {
        let (show, seen) = mpsc::channel();
        let script = Mutex::new(script.into_iter().collect());
        let shared = Arc::new(Shared { script, show });
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
                    let line: Box<dyn Line> = tokio::select! {
                        _ = &mut stopped => return,
                        Ok((line, _)) = tcp.accept() => Box::new(line),
                        Ok((line, _)) = accept(unix.as_ref()) => Box::new(line),
                    };
                    tokio::spawn(serve(line, tls.clone(), Arc::clone(&shared)));
                }
            });
        });
        Self { address, seen, _stop: stop }
    }

    /// The next request. It may not be here yet.
    pub(crate) fn next(&self) -> Seen {
        self.seen.recv_timeout(PATIENCE).unwrap()
    }

    /// All that has come and was not looked at.
    pub(crate) fn rest(&self) -> Vec<Seen> {
        self.seen.try_iter().collect()
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

trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Line for T {}

struct Shared {
    script: Mutex<VecDeque<Reply>>,
    show: mpsc::Sender<Seen>,
}

async fn serve(line: Box<dyn Line>, tls: Option<TlsAcceptor>, shared: Arc<Shared>) {
    let line: Box<dyn Line> = match tls {
        None => line,
        Some(tls) => match tls.accept(line).await {
            Ok(line) => Box::new(line),
            Err(_) => return,
        },
    };
    let service = service_fn(|request| answer(Arc::clone(&shared), request));
    let server = auto::Builder::new(TokioExecutor::new());
    let _ = server.serve_connection(TokioIo::new(line), service).await;
}

async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (mut parts, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let reply = shared.script.lock().unwrap().pop_front().unwrap_or(Reply::Accept);
    let path = parts.uri.path().to_owned();
    let seen = Seen { path: path.clone(), headers: parts.headers.clone(), body: body.clone() };
    // A test that has seen enough has hung up.
    let _ = shared.show.send(seen);
    if let Reply::Silence = reply {
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
        Reply::Partial(rejected, message) => (StatusCode::OK, None, partial(rejected, message)),
        _ => (StatusCode::OK, None, Bytes::new()),
    };
    let mut response = Response::builder().status(status);
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

/// The OTLP services, answering what the request brought with it.
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
