//! A kubelet: `PodResources` over a Unix socket, by tonic's server and the messages of the protocol.

use std::convert::Infallible;
use std::fs;
use std::future::{self, Ready};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread::{self, JoinHandle};

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use phasemeter_holders::messages::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse,
};
use prost::Message;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

/// How the kubelet answers.
#[derive(Clone)]
pub(crate) enum Answer {
    /// With what containers have.
    List(ListPodResourcesResponse),
    /// With an error.
    Error(Status),
    /// With a message that is not of the protocol.
    Garbage,
    /// Never.
    Never,
}

/// A message with a field that is not the one of the protocol.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Garbage {
    #[prost(bytes = "vec", tag = "1")]
    bytes: Vec<u8>,
}

struct State {
    answer: Answer,
    allocatable: Result<AllocatableResourcesResponse, Status>,
}

/// A kubelet that runs until it is dropped; then its socket is gone.
pub(crate) struct FakeKubelet {
    socket: PathBuf,
    state: Arc<Mutex<State>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeKubelet {
    pub(crate) fn start(socket: &Path) -> Self {
        let answer = Answer::List(ListPodResourcesResponse::default());
        let allocatable = Ok(AllocatableResourcesResponse::default());
        let state = Arc::new(Mutex::new(State { answer, allocatable }));
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = {
            let _inside = runtime.enter();
            UnixListener::bind(socket).unwrap()
        };
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, &shared) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { socket: socket.to_owned(), state, stop: Some(stop), thread: Some(thread) }
    }

    /// Answers like this from now on.
    pub(crate) fn answers(&self, answer: Answer) {
        self.state.lock().unwrap().answer = answer;
    }

    /// Lists this from now on.
    pub(crate) fn lists(&self, list: ListPodResourcesResponse) {
        self.answers(Answer::List(list));
    }

    /// Returns these devices as allocatable from now on.
    pub(crate) fn allocates(&self, devices: Result<AllocatableResourcesResponse, Status>) {
        self.state.lock().unwrap().allocatable = devices;
    }
}

impl Drop for FakeKubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
        fs::remove_file(&self.socket).unwrap();
    }
}

async fn accept(listener: &UnixListener, state: &Arc<Mutex<State>>) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        tokio::spawn(serve(connection, Arc::clone(state)));
    }
}

async fn serve(connection: UnixStream, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| {
        let state = Arc::clone(&state);
        async move { Ok::<_, Infallible>(respond(request, &state).await) }
    });
    // The client closes the connection as it likes.
    let server = auto::Builder::new(TokioExecutor::new()).http2_only();
    let _ = server.serve_connection(TokioIo::new(connection), service).await;
}

async fn respond(
    request: http::Request<hyper::body::Incoming>,
    state: &Mutex<State>,
) -> http::Response<Body> {
    let (answer, allocatable) = {
        let state = state.lock().unwrap();
        (state.answer.clone(), state.allocatable.clone())
    };
    match (request.uri().path(), answer) {
        (_, Answer::Never) => future::pending().await,
        ("/v1.PodResourcesLister/List", answer) => match answer {
            Answer::List(list) => unary::<ListPodResourcesRequest, _>(Ok(list), request).await,
            Answer::Error(status) => {
                let failed: Result<ListPodResourcesResponse, _> = Err(status);
                unary::<ListPodResourcesRequest, _>(failed, request).await
            }
            Answer::Garbage => {
                let garbage = Garbage { bytes: vec![0xff; 64] };
                unary::<ListPodResourcesRequest, _>(Ok(garbage), request).await
            }
            Answer::Never => unreachable!(),
        },
        ("/v1.PodResourcesLister/GetAllocatableResources", _) => {
            unary::<AllocatableResourcesRequest, _>(allocatable, request).await
        }
        (path, _) => panic!("no method {path}"),
    }
}

async fn unary<Q, R>(
    reply: Result<R, Status>,
    request: http::Request<hyper::body::Incoming>,
) -> http::Response<Body>
where
    Q: Message + Default + Send + 'static,
    R: Message + Send + 'static,
{
    let codec = ProstCodec::<R, Q>::default();
    let mut grpc = Grpc::new(codec).max_encoding_message_size(usize::MAX);
    grpc.unary(Reply(Some(reply)), request).await
}

/// A reply to one call.
struct Reply<R>(Option<Result<R, Status>>);

impl<Q, R> Service<Request<Q>> for Reply<R> {
    type Response = Response<R>;
    type Error = Status;
    type Future = Ready<Result<Response<R>, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Q>) -> Self::Future {
        future::ready(self.0.take().unwrap().map(Response::new))
    }
}
