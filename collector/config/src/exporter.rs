//! An OTLP exporter of one signal.

use std::fmt::Write;

use phasemeter_otlp::Signal;

use crate::node::Node;
use crate::reader::Reader;

/// The exporters, with the default of the endpoint and the protocol.
pub(crate) const EXPORTERS: [(&str, &str, &str); 2] = [
    ("otlp_http", "http://localhost:4318", "http/protobuf"),
    ("otlp_grpc", "http://localhost:4317", "grpc"),
];

/// A key of an exporter, the end of its variable, and the values that have an effect, if not all have.
pub(crate) const FIELDS: [(&str, &str, Option<&[&str]>); 7] = [
    ("endpoint", "ENDPOINT", None),
    ("tls.ca_file", "CERTIFICATE", None),
    ("tls.key_file", "CLIENT_KEY", None),
    ("tls.cert_file", "CLIENT_CERTIFICATE", None),
    ("tls.insecure", "INSECURE", None),
    ("compression", "COMPRESSION", Some(&["gzip", "none"])),
    ("timeout", "TIMEOUT", None),
];

/// Keys of an exporter of metrics, and their variables.
pub(crate) const OF_METRICS: [(&str, &str); 2] = [
    ("temporality_preference", "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"),
    ("default_histogram_aggregation", "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION"),
];

/// Whether a processor or reader exports OTLP.
pub(crate) fn is_otlp(kind: &Node) -> bool {
    let exporter = kind.get("exporter");
    exporter.is_some_and(|it| EXPORTERS.iter().any(|(name, ..)| it.get(name).is_some()))
}

/// Reads the exporter of a processor or reader at this path.
pub(crate) fn read(reader: &mut Reader, kind: &Node, path: &str, signal: Signal) {
    let Some(exporters) = kind.get("exporter") else { return };
    let found = EXPORTERS.into_iter().find_map(|it| Some((exporters.get(it.0)?, it)));
    let Some((node, (name, endpoint, protocol))) = found else { return };
    let path = format!("{path}.exporter.{name}");
    let variable = |end: &str| format!("OTEL_EXPORTER_OTLP_{}_{end}", signal.in_variable());
    if node.entries().is_empty() {
        reader.take(node);
    }
    let is_json = node.get("encoding").and_then(Node::text).is_some_and(|text| text == "json");
    let protocol = if is_json { "http/json" } else { protocol };
    reader.set(&variable("PROTOCOL"), protocol.to_owned(), &path, node.line);
    if let Some(encoding) = node.get("encoding") {
        reader.take(encoding);
    }
    let default = match name {
        "otlp_http" => endpoint.to_owned() + signal.http_path(),
        _ => endpoint.to_owned(),
    };
    reader.set(&variable("ENDPOINT"), default, &path, node.line);
    for (key, end, accepted) in FIELDS {
        let Some(field) = node.at(key) else { continue };
        let text = field.text();
        let is_accepted = text.as_deref().is_none_or(|text| {
            let without_limit = key == "timeout" && text == "0";
            accepted.is_none_or(|known| known.contains(&text)) && !without_limit
        });
        if is_accepted {
            reader.take(field);
        }
        if let Some(text) = text.filter(|_| is_accepted) {
            // YAML also writes `True`.
            let text = if key == "tls.insecure" { text.to_lowercase() } else { text };
            reader.set(&variable(end), text, &format!("{path}.{key}"), field.line);
        }
    }
    if signal == Signal::Metrics {
        for (key, variable) in OF_METRICS {
            let Some(field) = node.get(key) else { continue };
            reader.take(field);
            if let Some(text) = field.text() {
                // The variable writes `lowmemory`.
                let text = text.replace("low_memory", "lowmemory");
                reader.set(variable, text, &format!("{path}.{key}"), field.line);
            }
        }
    }
    headers(reader, node, &path, &variable("HEADERS"));
}

/// The headers of a list, then single ones, which take precedence.
fn headers(reader: &mut Reader, exporter: &Node, path: &str, variable: &str) {
    let mut list = Vec::new();
    let (text, pairs) = (exporter.get("headers_list"), exporter.get("headers"));
    for node in text.into_iter().chain(pairs) {
        reader.take(node);
    }
    list.extend(text.and_then(Node::text));
    for pair in pairs.map(Node::items).unwrap_or_default() {
        let part = |key| pair.get(key).and_then(Node::text);
        if let (Some(name), Some(value)) = (part("name"), part("value")) {
            list.push(format!("{name}={}", encoded(&value)));
        }
    }
    if let Some(node) = pairs.or(text).filter(|_| !list.is_empty()) {
        reader.set(variable, list.join(","), &format!("{path}.headers"), node.line);
    }
}

/// Percent-encoded, but for what needs no encoding in any list of a variable.
pub(crate) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~/:@".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // A string takes all.
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}
