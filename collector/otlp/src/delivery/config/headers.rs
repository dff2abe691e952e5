//! Parses a list of headers, `name=value,name=value` with percent-encoded values: W3C Baggage
//! without properties, as the specification defines it. Values are never shown.

use http::header::USER_AGENT;
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

/// Exporter, language and version, as the specification of OTLP exporters recommends.
const PRODUCT: HeaderValue =
    HeaderValue::from_static(concat!("Phasemeter-OTLP-Exporter-Rust/", env!("CARGO_PKG_VERSION")));

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
    use super::parse;

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
    fn invalid_header_is_named_by_position() {
        assert_eq!(parse("a=1,b"), Err(2));
        assert_eq!(parse("a=1,=2"), Err(2));
        assert_eq!(parse("a b=1"), Err(1));
        assert_eq!(parse("a=%0a"), Err(1), "a value cannot add a header line");
    }
}
