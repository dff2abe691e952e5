//! Who may send: TLS, and a bearer token.
//!
//! Must not depend on what is sent.

use std::fmt::{self, Debug, Formatter};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio_rustls::rustls;

/// A token that every request must have.
#[derive(Clone)]
pub struct BearerToken(
    /// Digests are compared, so the time taken depends on no token.
    [u8; 32],
);

/// Why TLS or the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SecurityError {
    /// A file cannot be read.
    #[error("{}: cannot be read; check that it exists and is readable", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file does not contain what it should.
    #[error("{}: contains no {what}; use another file", .path.display())]
    Contents {
        /// The file.
        path: PathBuf,
        /// What it lacks.
        what: &'static str,
    },
    /// Certificate and key cannot be used together.
    #[error("{}: cannot be used with its key", .path.display())]
    Tls {
        /// The certificate's file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: rustls::Error,
    },
}

impl BearerToken {
    /// The token in a file, without surrounding white space.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is empty.
    pub fn read(path: &Path) -> Result<Self, SecurityError> {
        let bytes = read(path)?;
        let text = str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
        if text.is_empty() {
            return Err(SecurityError::Contents { path: path.to_owned(), what: "token" });
        }
        Ok(Self::new(text))
    }

    /// This token.
    #[must_use]
    pub fn new(token: &str) -> Self {
        Self(Sha256::digest(token).into())
    }

    /// Whether a request has the token.
    pub(super) fn permits(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, token) = value.split_at_checked(7).unwrap_or_default();
        let given: [u8; 32] = Sha256::digest(token).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && given == self.0
    }
}

/// Without the token.
impl Debug for BearerToken {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken")
    }
}

/// The TLS configuration of a server with this certificate chain and private key, in PEM format.
///
/// # Errors
/// Returns an error if a file cannot be read or used.
pub fn server_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, SecurityError> {
    let lacks = |path: &Path, what| SecurityError::Contents { path: path.to_owned(), what };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| lacks(certificate, "certificate in PEM format"))?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?);
    let secret = secret.map_err(|_| lacks(key, "private key in PEM format"))?;
    let failed = |source| SecurityError::Tls { path: certificate.to_owned(), source };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth()
        .with_single_cert(chain, secret)
        .map_err(failed)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn read(path: &Path) -> Result<Vec<u8>, SecurityError> {
    fs::read(path).map_err(|source| SecurityError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::BearerToken;
    use http::HeaderMap;
    use http::header::AUTHORIZATION;

    #[test]
    fn token_must_match_exactly() {
        let token = BearerToken::new("s3cret");
        let permits = |value: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(value) = value {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
            }
            token.permits(&headers)
        };
        assert!(permits(Some("Bearer s3cret")) && permits(Some("bearer s3cret")));
        for wrong in [
            None,
            Some("s3cret"),
            Some("Bearer s3cre"),
            Some("Bearer s3cret "),
            Some("Basic s3cret"),
            Some(""),
        ] {
            assert!(!permits(wrong), "{wrong:?}");
        }
        assert_eq!(format!("{token:?}"), "BearerToken");
    }
}
