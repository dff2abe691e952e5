//! An API server: HTTPS with a certificate of its own authority, and a token that it checks.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::thread;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use phasemeter_holders::ApiServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

#[derive(Default)]
struct State {
    token: String,
    /// Text by path and query.
    objects: BTreeMap<String, Vec<u8>>,
    /// What is answered instead.
    error: Option<StatusCode>,
    /// What is answered instead to requests whose path has this text.
    rejected: Option<(&'static str, StatusCode)>,
    /// Ends of watches that go on.
    watches: Vec<mpsc::UnboundedSender<Bytes>>,
    requests: Vec<String>,
    /// The paths of lists that were answered, each of which a watch follows.
    lists: BTreeSet<String>,
    /// The forms that the last request accepts.
    accepted: String,
}

/// A body of a response.
enum Answer {
    Whole(Option<Bytes>),
    Watch(mpsc::UnboundedReceiver<Bytes>),
}

impl Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take()),
            Self::Watch(events) => events.poll_recv(context),
        };
        data.map(|data| data.map(|data| Ok(Frame::data(data))))
    }
}

/// An API server that runs until it is dropped.
pub(crate) struct FakeApi {
    pub(crate) server: ApiServer,
    state: Arc<Mutex<State>>,
    _stop: oneshot::Sender<()>,
}

impl FakeApi {
    /// Listens on a free port. The files of the account are in this directory.
    pub(crate) fn start(account: &Path) -> Self {
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![certificate.der().clone()],
                PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
            )
            .unwrap();
        fs::write(account.join("ca.crt"), issuer.pem()).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stop, stopped) = oneshot::channel::<()>();
        let shared = Arc::clone(&state);
        let tls = TlsAcceptor::from(Arc::new(config));
        thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    () = accept(&listener, &tls, &shared) => {}
                    _ = stopped => {}
                }
            });
        });
        let server = ApiServer {
            host: "127.0.0.1".to_owned(),
            port,
            token: account.join("token"),
            authority: account.join("ca.crt"),
        };
        let api = Self { server, state, _stop: stop };
        api.rotate("first");
        api
    }

    /// Another token is valid from now on.
    pub(crate) fn rotate(&self, token: &str) {
        fs::write(&self.server.token, format!("{token}\n")).unwrap();
        self.state.lock().unwrap().token = token.to_owned();
    }

    /// Has these objects from now on, by path and query.
    pub(crate) fn has(&self, objects: BTreeMap<String, Vec<u8>>) {
        self.state.lock().unwrap().objects = objects;
    }

    /// Answers with this error from now on.
    pub(crate) fn fails(&self, error: Option<StatusCode>) {
        self.state.lock().unwrap().error = error;
    }

    /// Answers requests whose path has this text with this error from now on.
    pub(crate) fn rejects(&self, error: Option<(&'static str, StatusCode)>) {
        self.state.lock().unwrap().rejected = error;
    }

    /// Sends text to all that watch. Returns how many do.
    pub(crate) fn emits(&self, text: &[u8]) -> usize {
        let mut state = self.state.lock().unwrap();
        state.watches.retain(|watch| watch.send(Bytes::copy_from_slice(text)).is_ok());
        state.watches.len()
    }

    /// Ends all watches, as a server does after some minutes.
    pub(crate) fn ends_watches(&self) {
        self.state.lock().unwrap().watches.clear();
    }

    /// How many lists were answered.
    pub(crate) fn lists(&self) -> usize {
        self.state.lock().unwrap().lists.len()
    }

    /// The forms that the last request accepts.
    pub(crate) fn accepted(&self) -> String {
        self.state.lock().unwrap().accepted.clone()
    }

    /// The paths of the requests since the last call.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().requests)
    }
}

async fn accept(listener: &TcpListener, tls: &TlsAcceptor, state: &Arc<Mutex<State>>) {
    loop {
        let (connection, _) = listener.accept().await.unwrap();
        let (tls, state) = (tls.clone(), Arc::clone(state));
        tokio::spawn(async move {
            let Ok(connection) = tls.accept(connection).await else { return };
            let service = service_fn(|request| {
                let response = respond(&request, &mut state.lock().unwrap());
                async { Ok::<_, Infallible>(response) }
            });
            let server = auto::Builder::new(TokioExecutor::new());
            let _ = server.serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

fn respond(request: &Request<Incoming>, state: &mut State) -> Response<Answer> {
    let path = request.uri().path_and_query().unwrap().to_string();
    state.requests.push(path.clone());
    let expected = format!("Bearer {}", state.token);
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap());
    header(header::ACCEPT).unwrap().clone_into(&mut state.accepted);
    let is_known = header(header::AUTHORIZATION) == Some(&expected);
    let is_watch = path.contains("&watch=1");
    let rejected = state.rejected.filter(|(part, _)| path.contains(part));
    let error = state.error.or(rejected.map(|(_, error)| error));
    let (status, body) = match (error, state.objects.get(&path)) {
        _ if !is_known => (StatusCode::UNAUTHORIZED, Answer::Whole(None)),
        (Some(error), _) => (error, Answer::Whole(None)),
        (None, _) if is_watch => {
            let (watch, events) = mpsc::unbounded_channel();
            state.watches.push(watch);
            (StatusCode::OK, Answer::Watch(events))
        }
        (None, Some(body)) => {
            if let Some(list) = path.strip_suffix("&resourceVersion=0") {
                state.lists.insert(list.to_owned());
            }
            (StatusCode::OK, Answer::Whole(Some(Bytes::from(body.clone()))))
        }
        (None, None) => (StatusCode::NOT_FOUND, Answer::Whole(None)),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
