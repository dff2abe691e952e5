//! TLS and mutual TLS between client and server.

use std::sync::Arc;

use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{Client, Config};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use tokio::runtime;
use tokio_rustls::rustls;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::mock_backend::MockBackend;
use crate::relay::Relay;
use crate::{AT_ONCE, PROTOCOLS, config, items, send, spans, until};

/// A certificate authority.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer, dir: TempDir::new().unwrap() }
    }

    /// A signed certificate and its key, in PEM.
    fn sign(&self, name: &str) -> (String, String) {
        self.sign_until(name, 4096)
    }

    /// The same, valid until this year.
    fn sign_until(&self, name: &str, year: i32) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    }

    /// A client that trusts this authority and has a certificate of it.
    fn client(&self, backend: &MockBackend, protocol: &str) -> Config {
        let trusted = self.file("ca.pem", &self.issuer.pem());
        let (certificate, key) = self.sign("phasemeter");
        let certificate = self.file("client.pem", &certificate);
        let key = self.file("client.key", &key);
        let more = [
            ("PROTOCOL", protocol),
            ("CERTIFICATE", &trusted),
            ("CLIENT_CERTIFICATE", &certificate),
            ("CLIENT_KEY", &key),
        ];
        config(&format!("https://localhost:{}", backend.address.port()), &more)
    }

    /// A server with a certificate of this authority; requires client certificates if `mutual`.
    fn server(&self, mutual: bool) -> rustls::ServerConfig {
        self.server_with(self.sign("localhost"), mutual)
    }

    /// The same with this certificate and key.
    fn server_with(&self, pair: (String, String), mutual: bool) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, key) = pair;
        let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
            Arc::new(roots),
            Arc::clone(&provider),
        );
        let builder = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if mutual {
            builder.with_client_cert_verifier(verifier.build().unwrap())
        } else {
            builder.with_no_client_auth()
        };
        let mut config = builder.with_single_cert(chain, key).unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        config
    }
}

#[test]
fn tls_verifies_server_and_presents_client_certificate() {
    let authority = Authority::new("ours");
    for protocol in PROTOCOLS {
        for mutual in [false, true] {
            let backend = MockBackend::with_tls([], authority.server(mutual));
            let sent = send(&authority.client(&backend, protocol));
            assert_eq!(items(&sent), [3, 0, 0, 0, 0], "{sent:?}");
        }
    }
}

/// The SDK exports internal telemetry over the same transport.
#[test]
fn sdk_exporter_uses_same_tls_settings() {
    let authority = Authority::new("ours");
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for protocol in PROTOCOLS {
        let backend = MockBackend::with_tls([], authority.server(true));
        let config = authority.client(&backend, protocol);
        runtime.block_on(async {
            let exporter = config.target(Signal::Metrics).unwrap().metric_exporter().unwrap();
            exporter.export(&ResourceMetrics::default()).await.unwrap();
        });
        assert_eq!(backend.received().len(), 1, "{protocol}");
    }
}

#[test]
fn tls_error_identifies_invalid_certificate() {
    let (authority, other) = (Authority::new("ours"), Authority::new("another"));
    let trusted = authority.file("ca.pem", &authority.issuer.pem());
    let wrong = other.file("ca.pem", &other.issuer.pem());
    for protocol in PROTOCOLS {
        let unknown = [(&trusted, "CLIENT_CERTIFICATE"), (&wrong, "UnknownIssuer")];
        for (trusted, text) in unknown {
            let backend = MockBackend::with_tls([], authority.server(true));
            let endpoint = format!("https://localhost:{}", backend.address.port());
            let more = [("PROTOCOL", protocol), ("CERTIFICATE", trusted)];
            let client = Client::start(&config(&endpoint, &more)).unwrap();
            client.enqueue(spans("step", 3));
            until(&client, |outcome| outcome.traces.failed_attempts > 0);
            let counts = client.flush(AT_ONCE).traces;
            assert_eq!(items(&counts), [0, 0, 0, 0, 3]);
            let reason = counts.last_error.unwrap();
            assert!(reason.contains(text), "{protocol}: {reason}");
        }
    }
}

/// Scenario: the authority is replaced while the client runs, first by a broken file.
/// Guarantee: the client trusts the new one and presents its new certificate, without a restart.
#[test]
fn replaced_certificates_are_used_without_a_restart() {
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    for protocol in PROTOCOLS {
        let backend = MockBackend::with_tls([], new.server(true));
        let client = Client::start(&old.client(&backend, protocol)).unwrap();
        let failed = |more| {
            let before = client.stats().read().traces.failed_attempts;
            until(&client, |outcome| outcome.traces.failed_attempts >= before + more);
        };
        client.enqueue(spans("step", 3));
        failed(1);
        old.file("ca.pem", "not a certificate");
        failed(3);
        let error = client.stats().read().traces.last_error.unwrap();
        assert!(error.contains("UnknownIssuer"), "the old one remains in use: {error}");
        let (certificate, key) = new.sign("phasemeter");
        old.file("client.pem", &certificate);
        old.file("client.key", &key);
        old.file("ca.pem", &new.issuer.pem());
        let counts = client.flush(crate::GRACE).traces;
        assert_eq!(items(&counts), [3, 0, 0, 0, 0], "{protocol}: {counts:?}");
    }
}

/// Scenario: the certificate of the backend has expired; later the backend has a new one.
/// Guarantee: nothing is sent meanwhile, the reason is known, and all arrives once there is a new one, without a restart.
#[test]
fn expired_certificate_of_the_backend_delays_until_it_is_replaced() {
    let authority = Authority::new("ours");
    for protocol in PROTOCOLS {
        let expired = authority.sign_until("localhost", 2001);
        let old = MockBackend::with_tls([], authority.server_with(expired, false));
        let relay = Relay::to(old.address).unwrap();
        let trusted = authority.file("ca.pem", &authority.issuer.pem());
        let endpoint = format!("https://localhost:{}", relay.address.port());
        let settings = [("PROTOCOL", protocol), ("CERTIFICATE", trusted.as_str())];
        let client = Client::start(&config(&endpoint, &settings)).unwrap();
        client.enqueue(spans("step", 3));
        until(&client, |outcome| outcome.traces.failed_attempts >= 3);
        let error = client.stats().read().traces.last_error.unwrap();
        assert!(error.contains("expired"), "{protocol}: {error}");
        assert!(old.received().is_empty());
        let new = MockBackend::with_tls([], authority.server(false));
        relay.redirect(new.address);
        let counts = client.flush(crate::GRACE).traces;
        assert_eq!(items(&counts), [3, 0, 0, 0, 0], "{protocol}: {counts:?}");
    }
}
