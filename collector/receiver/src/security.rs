//! Which clients may send: TLS, and a bearer token.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use phasemeter_files::read_file;
use rustls::ServerConfig;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};
use tokio_rustls::rustls;

use phasemeter_otlp::rotation::Rotating;

/// Maximum size of a certificate chain, a key or a token.
const MAX_BYTES: u64 = 1 << 20;

/// A token that every request must have.
#[derive(Clone, Debug)]
pub struct BearerToken(TokenSource);

/// Where a token comes from. Digests are compared, so the time taken depends on no token.
#[derive(Clone, Debug)]
enum TokenSource {
    /// A file, which it follows.
    File(Arc<Rotating<[u8; 32]>>),
    /// This process.
    Generated([u8; 32]),
}

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
    /// The system gives no random bytes.
    #[error("cannot generate a token: the system gives no random bytes; name a file with a token")]
    Random,
}

impl BearerToken {
    /// A new token and its text, 64 hexadecimal digits.
    ///
    /// # Errors
    /// Returns an error if the system gives no random bytes.
    pub fn generate() -> Result<(Self, String), SecurityError> {
        let mut bytes = [0_u8; 32];
        let random = ring::default_provider().secure_random;
        random.fill(&mut bytes).map_err(|_| SecurityError::Random)?;
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((Self(TokenSource::Generated(Sha256::digest(&text).into())), text))
    }

    /// The token in a file, without surrounding white space.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or is empty.
    pub fn read(path: &Path) -> Result<Self, SecurityError> {
        let file = path.to_owned();
        let digest = move || {
            let bytes = read(&file)?;
            let text = str::from_utf8(&bytes).map(str::trim).unwrap_or_default();
            if text.is_empty() {
                return Err(SecurityError::Contents { path: file.clone(), what: "token" });
            }
            Ok(Sha256::digest(text).into())
        };
        let token = Rotating::new("tokens", vec![path.to_owned()], digest)?;
        Ok(Self(TokenSource::File(Arc::new(token))))
    }

    /// Whether a request has the token.
    pub(super) fn permits(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let (scheme, token) = value.split_at_checked(7).unwrap_or_default();
        let given: [u8; 32] = Sha256::digest(token).into();
        let expected = match &self.0 {
            TokenSource::File(file) => *file.current(),
            TokenSource::Generated(digest) => *digest,
        };
        scheme.eq_ignore_ascii_case(b"bearer ") && given == expected
    }
}

/// A certificate chain with its key, by the current files.
#[derive(Debug)]
struct ServerCertificate(Rotating<Arc<CertifiedKey>>);

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.current()))
    }
}

/// The TLS configuration of a server with this certificate chain and private key, in PEM format. It
/// follows the files.
///
/// # Errors
/// Returns an error if a file cannot be read or used.
pub fn server_tls(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, SecurityError> {
    let provider = Arc::new(ring::default_provider());
    let failed = |source| SecurityError::Tls { path: certificate.to_owned(), source };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_no_client_auth();
    let paths = [certificate, key].map(Path::to_owned);
    let [certificate, key] = paths.clone();
    let read = move || certified_key(&certificate, &key, &provider).map(Arc::new);
    let certificate = ServerCertificate(Rotating::new("certificates", paths.into(), read)?);
    let mut config = builder.with_cert_resolver(Arc::new(certificate));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certified_key(
    certificate: &Path,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, SecurityError> {
    let lacks = |path: &Path, what| SecurityError::Contents { path: path.to_owned(), what };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(certificate)?).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| lacks(certificate, "certificate in PEM format"))?;
    let secret = PrivateKeyDer::from_pem_slice(&read(key)?);
    let secret = secret.map_err(|_| lacks(key, "private key in PEM format"))?;
    CertifiedKey::from_der(chain, secret, provider)
        .map_err(|source| SecurityError::Tls { path: certificate.to_owned(), source })
}

fn read(path: &Path) -> Result<Vec<u8>, SecurityError> {
    read_file(path, MAX_BYTES)
        .map_err(|source| SecurityError::File { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::BearerToken;
    use http::HeaderMap;
    use http::header::AUTHORIZATION;

    #[test]
    fn token_must_match_exactly() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, " s3cret\n").unwrap();
        let token = BearerToken::read(&file).unwrap();
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
        assert!(!format!("{token:?}").contains("s3cret"));
        std::fs::write(&file, "another").unwrap();
        assert!(permits(Some("Bearer another")) && !permits(Some("Bearer s3cret")));
        std::fs::write(&file, "").unwrap();
        assert!(permits(Some("Bearer another")), "kept");
    }

    #[test]
    fn generated_tokens_differ_and_permit_themselves_only() {
        let [(token, text), (_, other)] = [(); 2].map(|()| BearerToken::generate().unwrap());
        assert_eq!(text.len(), 64);
        let permits = |text: &str| {
            let value = format!("Bearer {text}").parse().unwrap();
            token.permits(&HeaderMap::from_iter([(AUTHORIZATION, value)]))
        };
        assert!(permits(&text) && !permits(&other));
        assert!(!format!("{token:?}").contains(&text));
    }
}
