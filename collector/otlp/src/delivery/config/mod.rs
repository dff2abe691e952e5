//! Configuration of delivery from the OpenTelemetry specification's variables. Each also exists per
//! signal (`OTEL_EXPORTER_OTLP_TRACES_…`), which takes precedence.
//!
//! | `OTEL_EXPORTER_OTLP_…` | value | default |
//! |---|---|---|
//! | `ENDPOINT` | `http://`, `https://`; for gRPC also `unix:PATH` and `host:port` | nothing is exported |
//! | `PROTOCOL` | `grpc`, `http/protobuf` or `http/json` | `http/protobuf`, as the specification recommends |
//! | `HEADERS` | `name=value,…`, values percent-encoded | none |
//! | `TIMEOUT` | milliseconds per attempt, 1 to 3600000 | 10000 |
//! | `COMPRESSION` | `none` or `gzip` | `none` |
//! | `CERTIFICATE` | PEM file: the only trust anchors | the system's trust store |
//! | `CLIENT_CERTIFICATE`, `CLIENT_KEY` | PEM files: the client's identity | none |
//! | `INSECURE` | `true` or `false`: plain text for a `host:port` without a scheme | `false`: TLS |
//!
//! `PHASEMETER_OTLP_HEADERS_FILE` is a file of headers, one `name=value` per line, in place of the general `HEADERS`. It
//! is read again after it has changed.
//!
//! A signal whose exporter (`OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`, `OTEL_LOGS_EXPORTER`) is
//! `none` has no target, whatever the endpoint.
//!
//! For HTTP the signal's path (`/v1/traces`) is appended to the general endpoint; a
//! signal's own endpoint is used unchanged. Certificates apply to `https` endpoints. The
//! specification's default replaces an invalid value, unless every error is to be fatal.

mod destination;
mod endpoint;
mod environment;
mod error;
mod headers;
mod protocol;
mod setting;
mod target;
mod tls;

pub use self::destination::Destination;
pub(super) use self::endpoint::Address;
pub use self::environment::HEADERS_FILE;
pub use self::error::{ConfigError, ConfigErrors};
pub(super) use self::headers::Headers;
pub use self::headers::MAX_HEADERS;
pub(super) use self::protocol::{Compression, Protocol};
pub use self::target::Target;
pub(super) use self::tls::Tls;
use super::retry::Retry;
use crate::signal::{BySignal, Signal};

/// Capacity of the queue in encoded bytes. At 1 MiB per GPU-hour it holds over half an hour of
/// eight GPUs without a backend, and keeps the sidecar within 25 MiB of resident memory.
pub const QUEUE_BYTES: u64 = 4 * 1024 * 1024;

/// What the capacity grows by with each GPU that is metered: some five rounds of its metrics, 48 series each. A
/// gateway exports those of all its GPUs at once.
pub(super) const QUEUE_BYTES_PER_GPU: u64 = 32 * 1024;

/// Targets of all signals, and the retry settings.
#[derive(Clone, Debug)]
pub struct Config {
    targets: BySignal<Option<Target>>,
    /// Capacity of the queue without GPUs, in encoded bytes.
    pub queue_bytes: u64,
    /// How requests leave together, and how many at once.
    pub batching: Batching,
    /// Delays between attempts.
    pub retry: Retry,
}

/// Requests that leave as one have at most this many encoded bytes: a quarter of what gRPC servers accept by
/// default.
const BATCH_BYTES: u64 = 1 << 20;

/// How requests of a signal leave: in the Collector's words, `sending_queue.batch` and `num_consumers`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batching {
    /// Requests of a signal leave as one if they have at most this many encoded bytes together; 0 for never.
    pub max_bytes: BySignal<u64>,
    /// The number of requests in flight. Two of one resource are never in flight at once, so that each
    /// resource's data arrives in order.
    pub consumers: usize,
}

impl Batching {
    /// For Phasemeter's own data: only events, which arrive one by one, leave with others. None waits for
    /// them.
    pub const OWN: Self =
        Self { max_bytes: BySignal { traces: 0, metrics: 0, logs: BATCH_BYTES }, consumers: 1 };

    /// For requests of many senders: one leaves with what has arrived since the last one left.
    pub const PASS_THROUGH: Self = Self {
        max_bytes: BySignal { traces: BATCH_BYTES, metrics: BATCH_BYTES, logs: BATCH_BYTES },
        consumers: 4,
    };
}

impl Config {
    /// Reads everything at once, including certificate files. `env` looks up a variable; an empty
    /// one counts as unset. `None` if no signal has an endpoint and an exporter.
    ///
    /// # Errors
    /// Returns every error, each with its variable and what to do.
    pub fn read(
        destination: Destination<'_>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ConfigErrors> {
        let (config, errors) = Self::read_usable(destination, env);
        if errors.as_slice().is_empty() { Ok(config) } else { Err(errors) }
    }

    /// Like [`Self::read`], but returns what can be used beside the errors: of an invalid value the default, as
    /// the specification requires; a signal whose endpoint or certificates are invalid has no target, since
    /// data that is sent elsewhere is worse than none.
    pub fn read_usable(
        destination: Destination<'_>,
        env: impl Fn(&str) -> Option<String>,
    ) -> (Option<Self>, ConfigErrors) {
        let (targets, errors) = environment::targets(destination, &env);
        let any = targets.iter().any(|(_, target)| target.is_some());
        let config = any.then(|| Self {
            targets,
            queue_bytes: QUEUE_BYTES,
            batching: Batching::OWN,
            retry: Retry::default(),
        });
        (config, errors)
    }

    /// The target of a signal; `None` if it is not exported.
    #[must_use]
    pub const fn target(&self, signal: Signal) -> Option<&Target> {
        self.targets.of(signal).as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::{Config, ConfigErrors, Destination, Target};
    use crate::signal::Signal;
    use http::HeaderName;
    use http::header::USER_AGENT;
    use rcgen::{CertifiedKey, generate_simple_self_signed};

    const CASES: &str = include_str!("../../../tests/fixtures/otlp-config.txt");

    fn read(
        destination: Destination<'_>,
        set: &[(&str, &str)],
    ) -> Result<Option<Config>, ConfigErrors> {
        Config::read(destination, |name| {
            set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    /// Everything but trust anchors and identity.
    fn show(target: &Target) -> String {
        let Target { headers, timeout, compression, tls, .. } = target;
        let headers = headers.current();
        let names = headers.keys().filter(|name| *name != USER_AGENT);
        let names: Vec<&str> = names.map(HeaderName::as_str).collect();
        let tls = if tls.is_some() { "TLS" } else { "plain" };
        let uri = &target.endpoint.uri;
        format!("{target}, {uri}, {tls}, {timeout:?}, {compression:?}, {names:?}")
    }

    #[test]
    fn environment_is_parsed_and_all_errors_reported() {
        for case in CASES.split("\n\n") {
            let lines = || case.lines().filter(|line| !line.starts_with('#'));
            let expected: Vec<&str> = lines().filter_map(|line| line.strip_prefix("> ")).collect();
            let set: Vec<(&str, &str)> = lines()
                .filter(|line| line.starts_with("OTEL_"))
                .filter_map(|l| l.split_once('='))
                .collect();
            let given = lines().find_map(|line| line.strip_prefix("--otlp"));
            let destination = match given {
                None => Destination::Environment,
                Some(value) => {
                    value.strip_prefix('=').map_or(Destination::Default, Destination::Endpoint)
                }
            };
            let shown = match read(destination, &set) {
                Err(errors) => errors.to_string(),
                Ok(None) => "nothing is sent".to_owned(),
                Ok(Some(config)) => {
                    let target = |signal: Signal| {
                        let target = config.target(signal).map_or("nowhere".to_owned(), show);
                        format!("{}: {target}", signal.name())
                    };
                    Signal::ALL.map(target).join("\n")
                }
            };
            assert_eq!(shown.lines().collect::<Vec<_>>(), expected, "in\n{case}");
        }
    }

    #[test]
    fn certificate_files_are_read_and_all_errors_reported() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name).display().to_string();
            std::fs::write(&path, text).unwrap();
            path
        };
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([]).unwrap();
        let other = generate_simple_self_signed([]).unwrap().signing_key.serialize_pem();
        let (certificate, key) =
            (file("a.pem", &cert.pem()), file("a.key", &signing_key.serialize_pem()));
        let (other, empty) = (file("b.key", &other), file("empty.pem", ""));
        let missing = directory.path().join("missing").display().to_string();
        let errors = |trusted: &str, certificate: &str, key: &str| {
            let set = [
                ("OTEL_EXPORTER_OTLP_CERTIFICATE", trusted),
                ("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", certificate),
                ("OTEL_EXPORTER_OTLP_CLIENT_KEY", key),
            ];
            let read = read(Destination::Endpoint("https://collector"), &set);
            read.map_or_else(|errors| errors.to_string(), |_| "none".to_owned())
        };
        assert_eq!(errors(&certificate, &certificate, &key), "none");
        let message = errors(&missing, &empty, &certificate);
        let lines: Vec<&str> = message.lines().collect();
        assert_eq!(lines.len(), 3, "{message}");
        assert!(lines[0].starts_with(&format!(
            "OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read {missing}: No such file"
        )));
        assert_eq!(
            lines[1],
            format!(
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: {empty} contains no certificate in PEM format; \
                 convert it, or use another file"
            )
        );
        assert_eq!(
            lines[2],
            format!(
                "OTEL_EXPORTER_OTLP_CLIENT_KEY: {certificate} contains no private key in PEM format; \
                 convert it, or use another file"
            )
        );
        let message = errors(&certificate, &certificate, &other);
        assert!(message.starts_with("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="), "{message}");
        assert!(message.contains("keys may not be consistent"), "{message}");
    }

    #[test]
    fn conventional_port_of_other_protocol_gives_hint() {
        let hint = |protocol, endpoint| {
            let set = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
            let config = read(Destination::Endpoint(endpoint), &set).unwrap().unwrap();
            config.target(Signal::Traces).unwrap().hint().is_some()
        };
        assert!(hint("http/protobuf", "http://c:4317") && hint("grpc", "http://c:4318"));
        assert!(!hint("grpc", "http://c:4317") && !hint("http/protobuf", "http://c:4318"));
    }
}
