//! Reads objects from the API server, with the account of a pod. One connection per request: requests are rare.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Empty, Limited};
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
        StatusCode::FORBIDDEN => "; allow the service account to read it",
        _ => "",
    }
}

/// The body of an object.
///
/// # Errors
/// Returns an error if it cannot be read.
pub(crate) async fn get(server: &ApiServer, path: &str) -> Result<Bytes, ApiError> {
    let addresses = addresses(server)?;
    let read = async {
        let tcp = TcpStream::connect(&*addresses).await?;
        let name = ServerName::try_from(server.host.clone()).map_err(|_| ApiError::Address)?;
        let tls = TlsConnector::from(Arc::new(trust(server)?)).connect(name, tcp).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(tls)).await?;
        // It ends with the request.
        tokio::spawn(connection);
        let response = sender.send_request(request(server, path)?).await?;
        match response.status() {
            StatusCode::OK => {
                let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
                Ok(body.map_err(|error| ApiError::Body(error.to_string()))?.to_bytes())
            }
            status => Err(ApiError::Status { status }),
        }
    };
    timeout(TIMEOUT, read).await.unwrap_or(Err(ApiError::Deadline))
}

/// In pods, the host is an address.
fn addresses(server: &ApiServer) -> io::Result<Vec<SocketAddr>> {
    Ok((server.host.as_str(), server.port).to_socket_addrs()?.collect())
}

fn request(server: &ApiServer, path: &str) -> Result<Request<Empty<Bytes>>, ApiError> {
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
        .header(header::ACCEPT, "application/json")
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
