//! An API server: HTTPS with a certificate of its own authority, and a token that it checks.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use phasemeter_holders::ApiServer;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
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
    requests: Vec<String>,
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

fn respond(request: &Request<Incoming>, state: &mut State) -> Response<Full<Bytes>> {
    let path = request.uri().path_and_query().unwrap().to_string();
    state.requests.push(path.clone());
    let expected = format!("Bearer {}", state.token);
    let is_known = request.headers().get(header::AUTHORIZATION).is_some_and(|it| *it == *expected);
    let (status, body) = match (state.error, state.objects.get(&path)) {
        _ if !is_known => (StatusCode::UNAUTHORIZED, Vec::new()),
        (Some(error), _) => (error, Vec::new()),
        (None, Some(body)) => (StatusCode::OK, body.clone()),
        (None, None) => (StatusCode::NOT_FOUND, Vec::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
}
