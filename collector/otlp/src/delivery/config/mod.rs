//! Where OTLP goes and how, as the environment says: the variables of the OpenTelemetry
//! specification, each also for one signal alone (`OTEL_EXPORTER_OTLP_TRACES_…`), which then wins.
//!
//! | `OTEL_EXPORTER_OTLP_…` | is | unset |
//! |---|---|---|
//! | `ENDPOINT` | `http://`, `https://`; with grpc also `unix:PATH` and `host:port` | nothing is sent |
//! | `PROTOCOL` | `grpc` or `http/protobuf` | `http/protobuf`, as the specification recommends |
//! | `HEADERS` | `name=value,…`, values percent-encoded | none |
//! | `TIMEOUT` | milliseconds an attempt, 1 to 3600000 | 10000 |
//! | `COMPRESSION` | `none` or `gzip` | `none` |
//! | `CERTIFICATE` | file, PEM: whom to trust, and nobody else | whom this machine trusts |
//! | `CLIENT_CERTIFICATE`, `CLIENT_KEY` | files, PEM: who we are | nobody |
//! | `INSECURE` | `true` or `false`: a `host:port` without a scheme is plain text | `false`: TLS |
//!
//! With http/protobuf the path of the signal (`/v1/traces`) is added to the endpoint of all
//! signals; the endpoint of one signal is taken as it is. Certificates matter where the endpoint is
//! `https`. Where the specification lets an exporter ignore what it cannot read, this one refuses:
//! data that silently goes elsewhere, or in the clear, is worse than a start that fails.

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
pub use self::error::{ConfigError, ConfigErrors};
pub(super) use self::protocol::{Compression, Protocol};
pub use self::target::Target;
pub(super) use self::tls::Tls;
use super::retry::Retry;
use crate::signal::{BySignal, Signal};

/// What the queue may hold, in encoded bytes. At 1 MiB an hour a GPU it carries eight GPUs over
/// half an hour without a backend, and leaves the sidecar within 25 MiB of resident memory.
pub const QUEUE_BYTES: u64 = 4 * 1024 * 1024;

/// Where everything goes, and how patiently.
#[derive(Clone, Debug)]
pub struct Config {
    targets: BySignal<Option<Target>>,
    /// The bound of the queue, in encoded bytes.
    pub queue_bytes: u64,
    /// The waits between attempts.
    pub retry: Retry,
}

impl Config {
    /// Reads everything at once. `env` looks a variable up; an empty one is as good as unset. The
    /// files that certificates are in are read here too. `None` where no signal has an endpoint:
    /// nothing is to be sent.
    ///
    /// # Errors
    /// All that is wrong, each with its variable and what to do.
    pub fn read(
        destination: Destination<'_>,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, ConfigErrors> {
        let targets = environment::targets(destination, &env)?;
        let any = targets.iter().any(|(_, target)| target.is_some());
        Ok(any.then(|| Self { targets, queue_bytes: QUEUE_BYTES, retry: Retry::default() }))
    }

    /// Where a signal goes; `None` where it is not sent.
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

    /// Everything but who is trusted and who we are.
    fn show(target: &Target) -> String {
        let Target { headers, timeout, compression, tls, .. } = target;
        let names = headers.keys().filter(|name| *name != USER_AGENT);
        let names: Vec<&str> = names.map(HeaderName::as_str).collect();
        let tls = if tls.is_some() { "TLS" } else { "plain" };
        let uri = &target.endpoint.uri;
        format!("{target}, {uri}, {tls}, {timeout:?}, {compression:?}, {names:?}")
    }

    #[test]
    fn what_is_set_is_read_and_what_is_wrong_is_said_all_at_once() {
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
    fn files_of_certificates_are_read_at_once_and_all_that_is_wrong_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name).display().to_string();
            std::fs::write(&path, text).unwrap();
            path
        };
        let CertifiedKey { cert, signing_key } = generate_simple_self_signed([]).unwrap();
        let other = generate_simple_self_signed([]).unwrap().signing_key.serialize_pem();
        let (certificate, key) =
            (file("a.pem", &cert.pem()), file("a.key", &signing_key.serialize_pem()));
        let (other, empty) = (file("b.key", &other), file("empty.pem", ""));
        let missing = folder.path().join("missing").display().to_string();
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
        let said = errors(&missing, &empty, &certificate);
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines.len(), 3, "{said}");
        assert!(lines[0].starts_with(&format!(
            "OTEL_EXPORTER_OTLP_CERTIFICATE: cannot read {missing}: No such file"
        )));
        assert_eq!(
            lines[1],
            format!(
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE: {empty} holds no certificate in PEM form; \
                 convert it, or name another file"
            )
        );
        assert_eq!(
            lines[2],
            format!(
                "OTEL_EXPORTER_OTLP_CLIENT_KEY: {certificate} holds no private key in PEM form; \
                 convert it, or name another file"
            )
        );
        let said = errors(&certificate, &certificate, &other);
        assert!(said.starts_with("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE="), "{said}");
        assert!(said.contains("keys may not be consistent"), "{said}");
    }

    #[test]
    fn the_two_ports_with_a_custom_are_doubted_with_the_other_protocol() {
        let hint = |protocol, endpoint| {
            let set = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)];
            let config = read(Destination::Endpoint(endpoint), &set).unwrap().unwrap();
            config.target(Signal::Traces).unwrap().hint().is_some()
        };
        assert!(hint("http/protobuf", "http://c:4317") && hint("grpc", "http://c:4318"));
        assert!(!hint("grpc", "http://c:4317") && !hint("http/protobuf", "http://c:4318"));
    }
}
