//! What can be wrong with a configuration. Each message names the variable and what to do; none
//! repeats a header's value or an endpoint, which may hold secrets.

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io;
use std::path::PathBuf;

use thiserror::Error;
use tokio_rustls::rustls;

/// All that is wrong at once, one a line.
#[derive(Debug, Default)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Each of them, at least one.
    #[must_use]
    pub fn as_slice(&self) -> &[ConfigError] {
        &self.0
    }

    /// Keeps an error, once: what is set for all signals is wrong for each of them.
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

/// One thing that is wrong. `variable` is a variable of the environment, or `--otlp`.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// No address.
    #[error("{variable}: {reason}")]
    Endpoint {
        /// Where it was given.
        variable: String,
        /// What is wrong with it.
        reason: EndpointError,
    },
    /// A word or a number that is not one of those that it may be.
    #[error("{variable}={value}: set {wanted}")]
    Value {
        /// Where it was given.
        variable: String,
        /// What was given.
        value: String,
        /// What may be given.
        wanted: &'static str,
    },
    /// Not a list of headers. The header is named by its place, since all of it may be a secret.
    #[error("{variable}: entry {entry} is no header; write name=value, with a comma between two")]
    Header {
        /// Where it was given.
        variable: String,
        /// From 1.
        entry: usize,
    },
    /// A file that cannot be read.
    #[error("{variable}: cannot read {}: {source}; name a file that this user may read", path.display())]
    File {
        /// Where it was named.
        variable: String,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file without what it should hold.
    #[error("{variable}: {} holds no {what} in PEM form; convert it, or name another file", path.display())]
    NotPem {
        /// Where it was named.
        variable: String,
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// A certificate that nobody could be checked against.
    #[error("{variable}: {} cannot be trusted: {source}; name the certificate of an authority", path.display())]
    Untrusted {
        /// Where it was named.
        variable: String,
        /// The file.
        path: PathBuf,
        /// What TLS said.
        source: rustls::Error,
    },
    /// A key that does not belong to its certificate, or of a kind that is not known.
    #[error("{certificate}: TLS cannot use it: {source}; name a certificate and its own key")]
    Tls {
        /// The variable of the certificate, and the file.
        certificate: String,
        /// What TLS said.
        source: rustls::Error,
    },
    /// A certificate without its key, or the other way round.
    #[error("{given} is set without {missing}; set both, or neither")]
    HalfIdentity {
        /// What was given.
        given: String,
        /// What was not.
        missing: String,
    },
    /// A machine that trusts nobody, as a bare container does.
    #[error(
        "this machine has no certificates that it trusts; \
         set OTEL_EXPORTER_OTLP_CERTIFICATE to the file of the authority's"
    )]
    NobodyTrusted,
}

/// What can be wrong with an endpoint.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndpointError {
    /// http/protobuf goes to a URL.
    #[error("http/protobuf needs a URL; begin it with http:// or https://")]
    NoScheme,
    /// A scheme that is not spoken here.
    #[error("begin it with http:// or https://, or with unix: and set the protocol to grpc")]
    Scheme,
    /// Nothing that could be dialled.
    #[error("not an address; write it as http://host:port")]
    Malformed,
    /// `user:password@host`.
    #[error(
        "a user and password do not belong here; set OTEL_EXPORTER_OTLP_HEADERS=authorization=Basic%20…"
    )]
    Credentials,
}
