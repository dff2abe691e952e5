//! Addresses that the receiver listens on.

use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

/// An address to listen on: `unix:PATH`, or an IP address and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// A TCP address. Port 0 means any free one.
    Tcp(SocketAddr),
    /// The path of a Unix socket, which only this user can open.
    Unix(PathBuf),
}

/// Text that is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected IP:PORT, localhost:PORT or unix:PATH")]
pub struct ParseListenError;

impl ListenAddress {
    /// Whether other machines can reach it.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        match self {
            Self::Tcp(address) => !address.ip().is_loopback(),
            Self::Unix(_) => false,
        }
    }

    /// The endpoint for clients on this machine, as `OTEL_EXPORTER_OTLP_ENDPOINT` has it.
    #[must_use]
    pub fn endpoint(&self) -> String {
        match self {
            Self::Tcp(address) => format!("http://{address}"),
            Self::Unix(path) => format!("unix:{}", path.display()),
        }
    }
}

impl FromStr for ListenAddress {
    type Err = ParseListenError;

    fn from_str(text: &str) -> Result<Self, ParseListenError> {
        if let Some(path) = text.strip_prefix("unix:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return if path.is_empty() {
                Err(ParseListenError)
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        if let Some(port) = text.strip_prefix("localhost:") {
            let port = port.parse().map_err(|_| ParseListenError)?;
            return Ok(Self::Tcp(SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port)));
        }
        text.parse().map(Self::Tcp).map_err(|_| ParseListenError)
    }
}

impl Display for ListenAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ListenAddress;

    #[test]
    fn address_is_parsed_or_rejected() {
        let parse = |text: &str| text.parse::<ListenAddress>();
        let shown = |text| parse(text).map(|it| (it.to_string(), it.is_remote())).ok();
        assert_eq!(shown("127.0.0.1:4317"), Some(("127.0.0.1:4317".to_owned(), false)));
        assert_eq!(shown("localhost:1"), Some(("127.0.0.1:1".to_owned(), false)));
        assert_eq!(shown("[::1]:4317"), Some(("[::1]:4317".to_owned(), false)));
        assert_eq!(shown("0.0.0.0:4317"), Some(("0.0.0.0:4317".to_owned(), true)));
        assert_eq!(shown("unix:///run/otlp"), Some(("unix:/run/otlp".to_owned(), false)));
        for text in ["", "4317", "unix:", "collector:4317", "http://127.0.0.1:1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
