//! Reads from the API server, with the account of a pod: objects, and lines that come as long as something is watched. One
//! connection per request: requests are rare.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use phasemeter_files::{read_file, read_text};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::options::ApiServer;

/// The largest object or list that is accepted. The slices of a node are about 1 KiB per device.
const MAX_RESPONSE: usize = 8 << 20;

/// The longest line of a watch. The largest object that Kubernetes accepts has 1.5 MiB.
const MAX_LINE: usize = 4 << 20;

/// The longest resource version: it is opaque, and becomes a part of a path.
const MAX_VERSION: usize = 64;

/// The largest file of a token or of certificates.
const MAX_FILE: u64 = 1 << 20;

/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A request to the API server failed.
#[derive(Debug, Error)]
pub(crate) enum ApiError {
    /// A file of the account cannot be used.
    #[error("{}: {reason}; mount the service account's token", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The server cannot be reached.
    #[error("cannot connect: {0}; check KUBERNETES_SERVICE_HOST, the network policy and ca.crt")]
    Connect(#[from] io::Error),
    /// The connection failed.
    #[error("connection failed: {0}")]
    Http(#[from] hyper::Error),
    /// No response in time.
    #[error("no response within {} s", TIMEOUT.as_secs())]
    Deadline,
    /// A watch has not ended when it should have.
    #[error("nothing more has come of a watch")]
    Silence,
    /// The response was cut or too large.
    #[error("unreadable response: {0}")]
    Body(String),
    /// The server rejected the request.
    #[error("{status}{}", hint(*.status))]
    Status {
        /// Its answer.
        status: StatusCode,
    },
    /// The host or path cannot be written in a request.
    #[error("invalid address of the API server; check KUBERNETES_SERVICE_HOST")]
    Address,
}

/// What to do if the server rejects a request.
fn hint(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; mount a valid service account token",
        StatusCode::FORBIDDEN => {
            "; allow the service account this verb and resource in a ClusterRole"
        }
        _ => "",
    }
}

/// The body of an object.
///
/// # Errors
/// Returns an error if it cannot be read.
pub(crate) async fn get(server: &ApiServer, path: &str) -> Result<Bytes, ApiError> {
    get_as(server, path, "application/json").await
}

/// The body of an object, in one of the forms that are accepted.
///
/// # Errors
/// Returns an error if it cannot be read.
pub(crate) async fn get_as(
    server: &ApiServer,
    path: &str,
    accept: &'static str,
) -> Result<Bytes, ApiError> {
    let read = async {
        let response = open(server, path, accept).await?;
        let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
        Ok(body.map_err(|error| ApiError::Body(error.to_string()))?.to_bytes())
    };
    timeout(TIMEOUT, read).await.unwrap_or(Err(ApiError::Deadline))
}

/// Begins to watch.
///
/// # Errors
/// Returns an error if the server does not accept that in time.
pub(crate) async fn watch(
    server: &ApiServer,
    path: &str,
    accept: &'static str,
) -> Result<Lines, ApiError> {
    let response = timeout(TIMEOUT, open(server, path, accept)).await;
    let body = response.unwrap_or(Err(ApiError::Deadline))?.into_body();
    Ok(Lines { body, read: BytesMut::new(), searched: 0 })
}

/// The lines of a response, as they come.
#[derive(Debug)]
pub(crate) struct Lines {
    body: Incoming,
    /// What has come, without the lines that were returned.
    read: BytesMut,
    /// How much of it has no end of a line.
    searched: usize,
}

impl Lines {
    /// The next line, without its end; `None` once the server has ended the response.
    ///
    /// # Errors
    /// Returns an error if the connection fails, a line is too long, or nothing has come for so long.
    pub(crate) async fn next(&mut self, silence: Duration) -> Result<Option<Bytes>, ApiError> {
        loop {
            let rest = self.read.get(self.searched..).unwrap_or_default();
            if let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line = self.read.split_to(self.searched + end + 1).freeze();
                self.searched = 0;
                return Ok(Some(line.slice(..line.len() - 1)));
            }
            self.searched = self.read.len();
            if self.searched > MAX_LINE {
                return Err(ApiError::Body(format!("a line of more than {MAX_LINE} bytes")));
            }
            match timeout(silence, self.body.frame()).await {
                Err(_) => return Err(ApiError::Silence),
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => {
                    if let Ok(data) = frame?.into_data() {
                        self.read.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Whether a text is a resource version that can be a part of a path.
pub(crate) fn is_version(text: &str) -> bool {
    (1..=MAX_VERSION).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Whether a text is the name of an object, which can be a part of a path or a selector.
pub(crate) fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    !text.is_empty() && !text.starts_with('.') && text.bytes().all(is_part)
}

/// Sends a request, and returns its response if that has the object.
async fn open(
    server: &ApiServer,
    path: &str,
    accept: &'static str,
) -> Result<Response<Incoming>, ApiError> {
    let addresses = addresses(server)?;
    let tcp = TcpStream::connect(&*addresses).await?;
    let name = ServerName::try_from(server.host.clone()).map_err(|_| ApiError::Address)?;
    let tls = TlsConnector::from(Arc::new(trust(server)?)).connect(name, tcp).await?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
    // It ends with the request.
    tokio::spawn(connection);
    let response = sender.send_request(request(server, path, accept)?).await?;
    match response.status() {
        StatusCode::OK => Ok(response),
        status => Err(ApiError::Status { status }),
    }
}

/// In pods, the host is an address.
fn addresses(server: &ApiServer) -> io::Result<Vec<SocketAddr>> {
    Ok((server.host.as_str(), server.port).to_socket_addrs()?.collect())
}

fn request(
    server: &ApiServer,
    path: &str,
    accept: &'static str,
) -> Result<Request<Empty<Bytes>>, ApiError> {
    let token = read_text(&server.token, MAX_FILE).map_err(|error| ApiError::File {
        path: server.token.clone(),
        reason: error.to_string(),
    })?;
    let host = match server.host.contains(':') {
        true => format!("[{}]:{}", server.host, server.port),
        false => format!("{}:{}", server.host, server.port),
    };
    Request::get(path)
        .header(header::HOST, host)
        .header(header::AUTHORIZATION, format!("Bearer {}", token.trim()))
        .header(header::ACCEPT, accept)
        .body(Empty::new())
        .map_err(|_| ApiError::Address)
}

/// Trusts the cluster's authority only.
fn trust(server: &ApiServer) -> Result<ClientConfig, ApiError> {
    let unusable = |reason: String| ApiError::File { path: server.authority.clone(), reason };
    let pem =
        read_file(&server.authority, MAX_FILE).map_err(|error| unusable(error.to_string()))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem).flatten() {
        roots.add(certificate).map_err(|error| unusable(error.to_string()))?;
    }
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let config = |error: rustls::Error| unusable(error.to_string());
    Ok(builder.map_err(config)?.with_root_certificates(roots).with_no_client_auth())
}
