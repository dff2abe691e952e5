//! Parses a list of headers, `name=value,name=value` with percent-encoded values: W3C Baggage
//! without properties, as the specification defines it. Values are never shown.
//!
//! A file has one per line, and is read again after it has changed, like a token that a secret's volume replaces.

use std::path::PathBuf;
use std::sync::Arc;

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;
use phasemeter_files::read_text;

use super::error::ConfigError;
use super::setting::Setting;
use crate::rotation::Rotating;

/// The largest file of headers, in bytes.
pub const MAX_HEADERS: u64 = 64 << 10;

/// Exporter, language and version, as the specification of OTLP exporters recommends.
const PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("Phasemeter-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION")));

/// The headers of all requests to a backend.
#[derive(Clone, Debug)]
pub(crate) struct Headers {
    /// Values are marked sensitive, and omitted by `Debug`.
    current: Arc<Rotating<HeaderMap>>,
    /// Whether they are those of a file.
    pub(crate) can_change: bool,
}

impl Headers {
    pub(super) fn fixed(headers: HeaderMap) -> Self {
        Self { current: Arc::new(Rotating::fixed("headers", headers)), can_change: false }
    }

    /// Reads a file, now and whenever it has changed.
    pub(super) fn follow(file: &Setting) -> Result<Self, ConfigError> {
        let path = PathBuf::from(&file.value);
        let file = file.clone();
        let read = move || read(&file);
        let current = Rotating::new("headers", vec![path], read)?;
        Ok(Self { current: Arc::new(current), can_change: true })
    }

    /// Those of the next request: other ones after a change.
    pub(crate) fn current(&self) -> Arc<HeaderMap> {
        self.current.current()
    }
}

/// The headers of a file: one per line, `#` begins a comment.
fn read(file: &Setting) -> Result<HeaderMap, ConfigError> {
    let path = PathBuf::from(&file.value);
    let variable = || file.variable.clone();
    match read_text(&path, MAX_HEADERS) {
        Err(source) => Err(ConfigError::File { variable: variable(), path, source }),
        Ok(text) => parse(&list(&text)).map_err(|entry| ConfigError::HeaderInFile {
            variable: variable(),
            path,
            entry,
        }),
    }
}

fn list(text: &str) -> String {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.collect::<Vec<_>>().join(",")
}

/// The default headers: the user agent.
pub(super) fn default_headers() -> HeaderMap {
    HeaderMap::from_iter([(USER_AGENT, PRODUCT)])
}

/// The headers of a list added to the default ones; or the position, from 1, of the first invalid
/// entry.
pub(super) fn parse(text: &str) -> Result<HeaderMap, usize> {
    let mut headers = default_headers();
    for (entry, number) in text.split(',').zip(1_usize..) {
        if entry.trim().is_empty() {
            continue;
        }
        let (name, value) = header(entry).ok_or(number)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

fn header(entry: &str) -> Option<(HeaderName, HeaderValue)> {
    let (name, value) = entry.split_once('=')?;
    let name = name.trim().parse().ok()?;
    let value: Vec<u8> = percent_decode_str(value.trim()).collect();
    let mut value = HeaderValue::from_bytes(&value).ok()?;
    value.set_sensitive(true);
    Some((name, value))
}

#[cfg(test)]
mod tests {
    use super::{list, parse};

    #[test]
    fn values_are_decoded_and_not_shown() {
        let text = " Authorization=Basic%20c2VjcmV0=, x-mlflow-experiment-id = 7 ,,x=a;b%2Cc";
        let headers = parse(text).unwrap();
        assert_eq!(headers["authorization"], "Basic c2VjcmV0=");
        assert_eq!(headers["x-mlflow-experiment-id"], "7");
        assert_eq!(headers["x"], "a;b,c");
        assert!(
            headers["user-agent"].to_str().unwrap().starts_with("Phasemeter-OTLP-Exporter-Rust/")
        );
        assert!(!format!("{headers:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn headers_of_a_file_are_one_per_line() {
        let text = "# token\nauthorization=Bearer%20t\r\n\n x-tenant=7,x=8\n";
        assert_eq!(list(text), "authorization=Bearer%20t,x-tenant=7,x=8");
    }

    #[test]
    fn invalid_header_is_named_by_position() {
        assert_eq!(parse("a=1,b"), Err(2));
        assert_eq!(parse("a=1,=2"), Err(2));
        assert_eq!(parse("a b=1"), Err(1));
        assert_eq!(parse("a=%0a"), Err(1), "a value cannot add a header line");
    }
}
