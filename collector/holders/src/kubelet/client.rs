//! The client of the kubelet's `PodResources` API: gRPC over a Unix socket.
//!
//! Each poll opens the socket anew: a kubelet that restarts creates another one at the same path.

use std::error::Error;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::PathAndQuery;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::time::timeout;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use super::messages::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse,
};

/// The largest response that is accepted: 16 MiB. gRPC's default, 4 MiB, is too little for nodes with many pods.
pub(crate) const MAX_RESPONSE: usize = 16 << 20;

/// How long a call may take. The kubelet of a busy node answers within tens of milliseconds.
const TIMEOUT: Duration = Duration::from_secs(2);

const LIST: &str = "/v1.PodResourcesLister/List";
const ALLOCATABLE: &str = "/v1.PodResourcesLister/GetAllocatableResources";

/// A call of the kubelet failed.
#[derive(Debug, Error)]
pub(crate) enum KubeletError {
    /// The socket cannot be connected to.
    #[error("cannot connect: {error}{}", hint(.error))]
    Connect {
        /// Why.
        error: io::Error,
    },
    /// No response in time.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    Deadline,
    /// The response is not one of the protocol, or is too large.
    #[error("unreadable response: {reason}; is it the kubelet's socket for PodResources?")]
    Unreadable {
        /// Why.
        reason: String,
    },
    /// The kubelet rejected the call.
    #[error("{code:?}: {message}")]
    Rejected {
        /// The gRPC status.
        code: Code,
        /// Its message.
        message: String,
    },
}

/// What to do if the socket cannot be connected to.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; only user 0 may connect: run as user 0",
        io::ErrorKind::NotFound => "; mount its directory from the host, or set its path",
        _ => "",
    }
}

/// Connections to the socket at a path.
#[derive(Clone, Debug)]
struct Connector(PathBuf);

impl Service<Uri> for Connector {
    type Response = TokioIo<UnixStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let path = self.0.clone();
        Box::pin(async move { UnixStream::connect(path).await.map(TokioIo::new) })
    }
}

/// A connection to the kubelet, for one poll.
pub(crate) struct Kubelet(Grpc<Client<Connector, Body>>);

impl Kubelet {
    /// Connects at the first call.
    pub(crate) fn new(socket: &Path) -> Self {
        let client = Client::builder(TokioExecutor::new())
            .http2_only(true)
            .build(Connector(socket.to_owned()));
        let origin = Uri::from_static("http://kubelet");
        Self(Grpc::with_origin(client, origin).max_decoding_message_size(MAX_RESPONSE))
    }

    /// What the containers of the node have.
    pub(crate) async fn list(&mut self) -> Result<ListPodResourcesResponse, KubeletError> {
        self.call(LIST, ListPodResourcesRequest {}).await
    }

    /// All devices of device plugins, allocated or not.
    pub(crate) async fn allocatable(
        &mut self,
    ) -> Result<AllocatableResourcesResponse, KubeletError> {
        self.call(ALLOCATABLE, AllocatableResourcesRequest {}).await
    }

    async fn call<Q, R>(&mut self, method: &'static str, request: Q) -> Result<R, KubeletError>
    where
        Q: Message + Send + Sync + 'static,
        R: Message + Default + Send + Sync + 'static,
    {
        let call = async {
            self.0.ready().await.map_err(|error| transport(&error))?;
            let mut request = Request::new(request);
            request.set_timeout(TIMEOUT);
            let method = PathAndQuery::from_static(method);
            let response = self.0.unary(request, method, ProstCodec::default()).await;
            Ok(response.map_err(|status| classify(&status))?.into_inner())
        };
        timeout(TIMEOUT, call).await.unwrap_or(Err(KubeletError::Deadline))
    }
}

/// A status with a source was created on this side.
fn classify(status: &Status) -> KubeletError {
    match (status.source(), status.code()) {
        (Some(error), _) => transport(error),
        // Too large, malformed or compressed in an unknown way.
        (None, Code::OutOfRange | Code::Internal | Code::Unknown) => {
            KubeletError::Unreadable { reason: status.message().to_owned() }
        }
        (None, Code::DeadlineExceeded | Code::Cancelled) => KubeletError::Deadline,
        (None, code) => KubeletError::Rejected { code, message: status.message().to_owned() },
    }
}

/// The error of the system in a chain of errors, if there is one.
fn transport(error: &(dyn Error + 'static)) -> KubeletError {
    let mut innermost = error;
    loop {
        if let Some(io) = innermost.downcast_ref::<io::Error>()
            && io.raw_os_error().is_some()
        {
            let error = io.raw_os_error().map(io::Error::from_raw_os_error);
            return KubeletError::Connect { error: error.unwrap_or_else(|| io.kind().into()) };
        }
        match innermost.source() {
            Some(source) => innermost = source,
            None => return KubeletError::Unreadable { reason: innermost.to_string() },
        }
    }
}
