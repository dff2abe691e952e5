//! Parses an endpoint. Its form depends on the protocol: HTTP uses a URL, gRPC an address.
//! The protocol is never guessed from the port.

use std::fmt::{self, Debug, Display, Formatter};
use std::path::PathBuf;

use http::Uri;
use http::uri::{Parts, PathAndQuery, Scheme};
use tokio_rustls::rustls::pki_types::ServerName;

use super::error::EndpointError;
use super::protocol::Protocol;

/// The endpoint of a signal.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// The address to connect to.
    pub(crate) address: Address,
    /// The URI to request.
    pub(crate) uri: Uri,
    /// The name in its certificate; `None` without TLS.
    pub(super) server_name: Option<ServerName<'static>>,
}

/// An address to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Endpoint {
    /// Appends `path` to the endpoint's own path, if given. `insecure` applies only without a
    /// scheme.
    pub(super) fn parse(
        text: &str,
        protocol: Protocol,
        path: Option<&str>,
        insecure: bool,
    ) -> Result<Self, EndpointError> {
        let grpc = protocol == Protocol::Grpc;
        if let Some(rest) = text.strip_prefix("unix:") {
            return if grpc { Self::unix(rest) } else { Err(EndpointError::Scheme) };
        }
        let uri = match (text.contains("://"), grpc, insecure) {
            (true, ..) => text.parse(),
            (false, true, true) => format!("http://{text}").parse(),
            (false, true, false) => format!("https://{text}").parse(),
            (false, false, _) => return Err(EndpointError::NoScheme),
        };
        let uri: Uri = uri.map_err(|_| EndpointError::Malformed)?;
        if uri.scheme() != Some(&Scheme::HTTP) && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(EndpointError::Scheme);
        }
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err(EndpointError::Credentials);
        }
        // The brackets of an IPv6 address are part of the URL syntax.
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(EndpointError::Malformed);
        }
        let (standard_port, server_name) = if uri.scheme() == Some(&Scheme::HTTPS) {
            let name = ServerName::try_from(host.clone());
            (443, Some(name.map_err(|_| EndpointError::Malformed)?))
        } else {
            (80, None)
        };
        let port = uri.port_u16().unwrap_or(standard_port);
        let uri = match path {
            Some(path) => below(uri, path)?,
            None => uri,
        };
        Ok(Self { address: Address::Tcp { host, port }, uri, server_name })
    }

    /// gRPC's syntax: `unix:path`, `unix:///absolute/path`.
    fn unix(rest: &str) -> Result<Self, EndpointError> {
        let path = rest.strip_prefix("//").unwrap_or(rest);
        if path.is_empty() {
            return Err(EndpointError::Malformed);
        }
        let uri = Uri::from_static("http://localhost/");
        Ok(Self { address: Address::Unix(path.into()), uri, server_name: None })
    }
}

/// Appends a path to that of the URL, and keeps the query.
fn below(uri: Uri, path: &str) -> Result<Uri, EndpointError> {
    let base = uri.path().trim_end_matches('/');
    let whole = match uri.query() {
        Some(query) => format!("{base}{path}?{query}"),
        None => format!("{base}{path}"),
    };
    let whole = PathAndQuery::try_from(whole).map_err(|_| EndpointError::Malformed)?;
    let mut parts = Parts::from(uri);
    parts.path_and_query = Some(whole);
    Uri::from_parts(parts).map_err(|_| EndpointError::Malformed)
}

/// Without the query, which can contain a token.
impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Address::Unix(path) = &self.address {
            return write!(f, "unix:{}", path.display());
        }
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let authority = self.uri.authority().map_or("", http::uri::Authority::as_str);
        write!(f, "{scheme}://{authority}{}", self.uri.path().trim_end_matches('/'))
    }
}

impl Debug for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Endpoint, EndpointError, Protocol};

    fn http(text: &str, path: Option<&str>) -> Result<String, EndpointError> {
        Endpoint::parse(text, Protocol::HttpProtobuf, path, false).map(|e| e.uri.to_string())
    }

    fn grpc(text: &str, insecure: bool) -> Result<(String, Address), EndpointError> {
        let endpoint = Endpoint::parse(text, Protocol::Grpc, None, insecure)?;
        Ok((endpoint.to_string(), endpoint.address))
    }

    fn tcp(host: &str, port: u16) -> Address {
        Address::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn general_endpoint_gets_signal_path() {
        let path = Some("/v1/traces");
        let base = "http://collector:4318";
        assert_eq!(http(base, path).unwrap(), "http://collector:4318/v1/traces");
        assert_eq!(http("https://c/otlp/", path).unwrap(), "https://c/otlp/v1/traces");
        assert_eq!(http("https://c/otlp?key=1", path).unwrap(), "https://c/otlp/v1/traces?key=1");
        assert_eq!(http("https://c/mine", None).unwrap(), "https://c/mine");
        assert_eq!(http(base, None).unwrap(), "http://collector:4318/");
    }

    #[test]
    fn schemeless_address_uses_tls_unless_insecure() {
        let (shown, address) = grpc("collector:4317", false).unwrap();
        assert_eq!((shown.as_str(), address), ("https://collector:4317", tcp("collector", 4317)));
        assert_eq!(grpc("collector:4317", true).unwrap().0, "http://collector:4317");
        assert_eq!(grpc("https://collector", true).unwrap().1, tcp("collector", 443));
        assert_eq!(grpc("http://[::1]:4317", false).unwrap().1, tcp("::1", 4317));
        assert_eq!(http("collector:4318", None), Err(EndpointError::NoScheme));
    }

    #[test]
    fn unix_endpoint_follows_grpc_syntax() {
        for text in ["unix:/run/otlp.sock", "unix:///run/otlp.sock"] {
            let (shown, address) = grpc(text, false).unwrap();
            assert_eq!(shown, "unix:/run/otlp.sock");
            assert_eq!(address, Address::Unix("/run/otlp.sock".into()));
        }
        assert_eq!(grpc("unix:", false), Err(EndpointError::Malformed));
        assert_eq!(http("unix:/run/otlp.sock", None), Err(EndpointError::Scheme));
    }

    #[test]
    fn invalid_endpoint_is_rejected() {
        assert_eq!(http("ftp://collector", None), Err(EndpointError::Scheme));
        assert_eq!(grpc("dns:///collector:4317", false), Err(EndpointError::Malformed));
        assert_eq!(http("http://", None), Err(EndpointError::Malformed));
        assert_eq!(http("http://collector:4318:1", None), Err(EndpointError::Malformed));
        assert_eq!(http("http://me:secret@collector", None), Err(EndpointError::Credentials));
    }

    #[test]
    fn query_is_sent_but_not_displayed() {
        let text = "https://collector/otlp?token=secret";
        let endpoint = Endpoint::parse(text, Protocol::HttpProtobuf, None, false).unwrap();
        assert_eq!(endpoint.uri.to_string(), text);
        assert_eq!(
            format!("{endpoint} {endpoint:?}"),
            "https://collector/otlp https://collector/otlp"
        );
    }
}
