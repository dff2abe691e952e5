//! What is between a sidecar and its Collector: an HTTP server that forwards each request, or fails like networks,
//! proxies and backends do.

use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use prost::Message;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned, crypto};

use super::message::{forward, read, response};

/// What happens to requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conduct {
    /// They are forwarded.
    Forwards,
    /// They are forwarded late, and answered late.
    IsSlow,
    /// Connections are closed at once.
    Refuses,
    /// Connections are accepted, and nothing is ever answered.
    IsSilent,
    /// They are forwarded, and the response is lost.
    LosesResponses,
    /// They are answered with this status.
    Answers(u16),
    /// They are accepted, but for some of their points, and not forwarded.
    AcceptsInPart,
    /// They are forwarded, after the certificate has expired, and before it was replaced, none.
    HasExpired,
}

/// A front, until the program ends.
pub(super) struct Front {
    endpoint: String,
    shared: Arc<Shared>,
}

struct Shared {
    target: SocketAddr,
    conduct: Mutex<Conduct>,
    /// Valid and expired; none: without TLS.
    tls: Option<[Arc<ServerConfig>; 2]>,
    /// Requests of metrics that were not forwarded, and must not be sent again.
    refused: Mutex<Vec<ExportMetricsServiceRequest>>,
}

/// A certificate authority for `localhost`, and the file that has it.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    pub(super) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    pub(super) fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// A server with a certificate that is valid until this year.
    fn server(&self, year: i32) -> Arc<ServerConfig> {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let builder = ServerConfig::builder_with_provider(crypto::ring::default_provider().into());
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        builder.with_single_cert(chain, key).unwrap().into()
    }
}

impl Front {
    /// Forwards to a Collector's port for OTLP over HTTP; with TLS if there is an authority.
    pub(super) fn of(target: SocketAddr, authority: Option<&Authority>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let tls = authority.map(|authority| [4096, 2001].map(|year| authority.server(year)));
        let scheme = if tls.is_some() { "https" } else { "http" };
        let (conduct, refused) = (Mutex::new(Conduct::Forwards), Mutex::default());
        let shared = Arc::new(Shared { target, conduct, tls, refused });
        let served = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                // Whatever breaks is sent again.
                thread::spawn(move || _ = served.accept(client));
            }
        });
        Self { endpoint: format!("{scheme}://localhost:{port}"), shared }
    }

    /// The variables of export to it.
    pub(super) fn export(&self) -> Vec<(&'static str, String)> {
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", self.endpoint.clone()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf".to_owned()),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "1500".to_owned()),
        ]
    }

    pub(super) fn set(&self, conduct: Conduct) {
        *self.shared.conduct.lock().unwrap_or_else(PoisonError::into_inner) = conduct;
    }

    /// The requests of metrics that it has refused for good.
    pub(super) fn refused(&self) -> Vec<ExportMetricsServiceRequest> {
        self.shared.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Shared {
    fn conduct(&self) -> Conduct {
        *self.conduct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, client: TcpStream) -> io::Result<()> {
        match &self.tls {
            None => self.serve(client),
            Some([valid, expired]) => {
                let is_expired = self.conduct() == Conduct::HasExpired;
                let config = Arc::clone(if is_expired { expired } else { valid });
                let session = ServerConnection::new(config).map_err(io::Error::other)?;
                self.serve(StreamOwned::new(session, client))
            }
        }
    }

    /// Serves requests of a connection, until one is not answered.
    fn serve(&self, client: impl Read + Write) -> io::Result<()> {
        let mut client = BufReader::new(client);
        loop {
            let (head, body) = read(&mut client)?;
            let response = match self.conduct() {
                Conduct::Forwards => forward(self.target, &head, &body)?,
                Conduct::IsSlow => {
                    thread::sleep(Duration::from_millis(400));
                    let response = forward(self.target, &head, &body)?;
                    thread::sleep(Duration::from_millis(400));
                    response
                }
                Conduct::Refuses | Conduct::HasExpired => return Ok(()),
                Conduct::IsSilent => {
                    thread::sleep(Duration::from_secs(3_600));
                    return Ok(());
                }
                Conduct::LosesResponses => return forward(self.target, &head, &body).map(drop),
                Conduct::Answers(status) => {
                    if !matches!(status, 429 | 502 | 503 | 504) {
                        self.refuse(&head, &body);
                    }
                    response(status, b"no")
                }
                Conduct::AcceptsInPart => {
                    self.refuse(&head, &body);
                    // One item was rejected, for the reason "no", in each signal's response.
                    response(200, b"\x0a\x06\x08\x01\x12\x02no")
                }
            };
            client.get_mut().write_all(&response)?;
            client.get_mut().flush()?;
        }
    }

    fn refuse(&self, head: &str, body: &[u8]) {
        if head.contains("/v1/metrics") {
            let request = Message::decode(body).unwrap();
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(request);
        }
    }
}
