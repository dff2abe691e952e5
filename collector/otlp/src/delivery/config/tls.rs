//! TLS configuration: reads certificates and keys for rustls, and reads them again after they changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use phasemeter_files::read_file;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::rustls;

use super::error::{ConfigError, ConfigErrors};
use super::protocol::Protocol;
use super::setting::Setting;
use crate::rotation::Rotating;

/// Maximum size of a file of certificates: all public authorities together have less than 1 MiB.
const MAX_BYTES: u64 = 4 << 20;

/// TLS settings for one backend.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    pub(super) files: TlsFiles,
    pub(super) config: Arc<Rotating<ClientConfig>>,
    /// The name that the certificate must have.
    pub(crate) name: ServerName<'static>,
}

impl Tls {
    /// The configuration by the current files: another one after a change.
    pub(crate) fn current(&self) -> Arc<ClientConfig> {
        self.config.current()
    }

    /// Whether no client certificate is sent.
    pub(super) const fn is_anonymous(&self) -> bool {
        self.files.identity.is_none()
    }
}

/// Files of certificates and keys. The same files are read once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Trust anchors; `None` for the system's trust store.
    pub(super) trusted: Option<Setting>,
    /// The client's certificate and key.
    pub(super) identity: Option<(Setting, Setting)>,
    /// The protocol for ALPN.
    pub(super) protocol: Protocol,
}

impl TlsFiles {
    /// Reads all files, now and whenever they have changed.
    pub(super) fn follow(&self) -> Result<Rotating<ClientConfig>, ConfigErrors> {
        let identity = self.identity.iter().flat_map(|(certificate, key)| [certificate, key]);
        let files = self.trusted.iter().chain(identity);
        let paths = files.map(|file| PathBuf::from(&file.value)).collect();
        let files = self.clone();
        Rotating::new("certificates", paths, move || files.read())
    }

    /// Reads all files, or returns every error.
    fn read(&self) -> Result<ClientConfig, ConfigErrors> {
        let mut errors = ConfigErrors::default();
        let config = self.config(&mut errors);
        config.ok_or(errors)
    }

    fn config(&self, errors: &mut ConfigErrors) -> Option<ClientConfig> {
        let roots = errors.keep(self.trusted.as_ref().map_or_else(machine_roots, roots));
        let identity = match &self.identity {
            None => None,
            Some((certificate, key)) => {
                let chain = errors.keep(certificates(certificate));
                let secret = errors.keep(private_key(key));
                Some((chain?, secret?))
            }
        };
        let config = self.assemble(roots?, identity).map_err(|source| ConfigError::Tls {
            certificate: self.identity.as_ref().map_or_else(String::new, |(c, _)| c.to_string()),
            source,
        });
        errors.keep(config)
    }

    fn assemble(
        &self,
        roots: RootCertStore,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<ClientConfig, rustls::Error> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        };
        let inside: &[u8] = match self.protocol {
            Protocol::Grpc => b"h2",
            Protocol::HttpProtobuf | Protocol::HttpJson => b"http/1.1",
        };
        config.alpn_protocols = vec![inside.to_vec()];
        Ok(config)
    }
}

/// A configured certificate is the only trust anchor.
fn roots(setting: &Setting) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(setting)? {
        roots.add(certificate).map_err(|source| ConfigError::Untrusted {
            variable: setting.variable.clone(),
            path: PathBuf::from(&setting.value),
            source,
        })?;
    }
    Ok(roots)
}

fn machine_roots() -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(ConfigError::NoTrustAnchors) } else { Ok(roots) }
}

fn certificates(setting: &Setting) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let pem = read(setting)?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match chain {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        _ => Err(not_pem(setting, "certificate")),
    }
}

fn private_key(setting: &Setting) -> Result<PrivateKeyDer<'static>, ConfigError> {
    PrivateKeyDer::from_pem_slice(&read(setting)?).map_err(|_| not_pem(setting, "private key"))
}

fn read(setting: &Setting) -> Result<Vec<u8>, ConfigError> {
    read_file(Path::new(&setting.value), MAX_BYTES).map_err(|source| ConfigError::File {
        variable: setting.variable.clone(),
        path: PathBuf::from(&setting.value),
        source,
    })
}

fn not_pem(setting: &Setting, what: &'static str) -> ConfigError {
    let path = PathBuf::from(&setting.value);
    ConfigError::NotPem { variable: setting.variable.clone(), path, what }
}
