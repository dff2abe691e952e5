//! Configuration errors. Each message names the variable and what to do; none contains a header's
//! value or an endpoint, which can contain secrets.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio_rustls::rustls;

/// Every error, one per line.
#[derive(Debug, Default)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// The errors, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.0
    }

    /// Whether a signal is not exported because of an error.
    #[must_use]
    pub fn prevent_export(&self) -> bool {
        self.0.iter().any(|error| !error.has_default())
    }

    /// Records an error once: a general variable is invalid for every signal.
    pub(super) fn keep<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        let error = match result {
            Ok(value) => return Some(value),
            Err(error) => error,
        };
        if self.0.iter().all(|known| known.to_string() != error.to_string()) {
            self.0.push(error);
        }
        None
    }

    /// Records all errors of a part.
    pub(super) fn keep_all<T>(&mut self, result: Result<T, Self>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(Self(errors)) => {
                for error in errors {
                    let _ = self.keep::<()>(Err(error));
                }
                None
            }
        }
    }
}

impl Display for ConfigErrors {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (line, error) in self.0.iter().enumerate() {
            if line > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl Error for ConfigErrors {}

impl ConfigError {
    /// What follows if the variable is not an error.
    #[must_use]
    pub const fn consequence(&self) -> &'static str {
        if self.has_default() { "the default is used" } else { "what it is for is not exported" }
    }

    const fn has_default(&self) -> bool {
        matches!(self, Self::Value { .. } | Self::Header { .. })
    }
}

/// One error. `variable` is an environment variable, `--otlp` or `--otlp-headers-file`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Invalid endpoint.
    #[error("{variable}: {reason}")]
    Endpoint {
        /// Its variable.
        variable: String,
        /// The reason.
        reason: EndpointError,
    },
    /// Invalid keyword or number.
    #[error("{variable}={value}: invalid value: expected {wanted}")]
    Value {
        /// Its variable.
        variable: String,
        /// The beginning of its value.
        value: String,
        /// The accepted values.
        wanted: &'static str,
    },
    /// Invalid list of headers. The entry is identified by position, since all of it can be secret.
    #[error(
        "{variable}: invalid header in entry {entry}: expected name=value, separated by commas"
    )]
    Header {
        /// Its variable.
        variable: String,
        /// Position, from 1.
        entry: usize,
    },
    /// Invalid header in a file.
    #[error(
        "{variable}: {}: invalid header in entry {entry}: expected name=value, one per line", path.display()
    )]
    HeaderInFile {
        /// Its variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// Position among headers, from 1.
        entry: usize,
    },
    /// A file that cannot be read.
    #[error("{variable}: cannot read {}: {source}; check the path and its permissions", path.display())]
    File {
        /// Its variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file without the expected PEM block.
    #[error("{variable}: {} contains no {what} in PEM format; convert it, or use another file", path.display())]
    NotPem {
        /// Its variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// A certificate that cannot serve as a trust anchor.
    #[error("{variable}: {} is not a valid trust anchor: {source}; use the certificate of an authority", path.display())]
    Untrusted {
        /// Its variable.
        variable: String,
        /// The file.
        path: PathBuf,
        /// The error of the TLS library.
        source: rustls::Error,
    },
    /// A key that does not match its certificate, or of an unknown kind.
    #[error(
        "{certificate}: unusable client certificate: {source}; use a certificate with its own key"
    )]
    Tls {
        /// The variable of the certificate, and the file.
        certificate: String,
        /// The error of the TLS library.
        source: rustls::Error,
    },
    /// A certificate without its key, or the reverse.
    #[error("{given} is set without {missing}; set both, or neither")]
    HalfIdentity {
        /// The variable that is set.
        given: String,
        /// The variable that is missing.
        missing: String,
    },
    /// No system trust store, as in a minimal container.
    #[error(
        "no trusted certificates on this machine; \
         set OTEL_EXPORTER_OTLP_CERTIFICATE to the authority's certificate"
    )]
    NoTrustAnchors,
}

/// Why an endpoint is invalid.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// HTTP requires a URL.
    #[error("invalid endpoint for HTTP: expected a URL with http:// or https://")]
    NoScheme,
    /// Unsupported scheme.
    #[error("invalid scheme: expected http:// or https://, or unix: with the protocol grpc")]
    Scheme,
    /// Not an address.
    #[error("invalid address: expected http://host:port")]
    Malformed,
    /// `user:password@host`.
    #[error("credentials in URL; use OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20… instead")]
    Credentials,
}
