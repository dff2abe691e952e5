//! Reads the environment signal by signal, and collects every error.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use super::destination::Destination;
use super::endpoint::Endpoint;
use super::error::{ConfigError, ConfigErrors};
use super::headers::{self, Headers};
use super::protocol::{Compression, Protocol};
use super::setting::Setting;
use super::target::Target;
use super::tls::{Tls, TlsFiles};
use crate::exporter_list::ExporterList;
use crate::rotation::Rotating;
use crate::signal::{BySignal, Signal};

/// Variable: a file of headers for all signals without headers of their own. It precedes the list of all signals.
pub const HEADERS_FILE: &str = "PHASEMETER_OTLP_HEADERS_FILE";
/// Default timeout of an attempt.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum timeout in milliseconds: one hour.
const LONGEST_TIMEOUT: u64 = 3_600_000;

/// The targets of all signals, as far as they can be used, and every error.
pub(super) fn targets(
    destination: Destination<'_>,
    env: &dyn Fn(&str) -> Option<String>,
) -> (BySignal<Option<Target>>, ConfigErrors) {
    let (errors, tls, file) = (ConfigErrors::default(), Vec::new(), None);
    let mut reader = Reader { destination, env, errors, tls, file };
    let targets = BySignal::each(|signal| reader.target(signal));
    (targets, reader.errors)
}

struct Reader<'a> {
    destination: Destination<'a>,
    env: &'a dyn Fn(&str) -> Option<String>,
    errors: ConfigErrors,
    /// TLS configurations by files: usually all signals share one.
    tls: Vec<(TlsFiles, Option<Arc<Rotating<ClientConfig>>>)>,
    /// The headers of the file once it was read.
    file: Option<Option<Headers>>,
}

impl Reader<'_> {
    /// `None` if the signal has no exporter or no endpoint, or on error.
    fn target(&mut self, signal: Signal) -> Option<Target> {
        if !self.is_exported(signal) {
            return None;
        }
        // An invalid protocol is reported; the rest is read with the default one.
        let protocol = self.read(signal, "PROTOCOL", protocol).unwrap_or(Protocol::HttpProtobuf);
        let endpoint = self.endpoint(signal, protocol)?;
        let headers = self.headers(signal)?;
        let timeout = self.read(signal, "TIMEOUT", timeout);
        let compression = self.read(signal, "COMPRESSION", compression);
        let tls = match endpoint.server_name.clone() {
            None => None,
            Some(name) => Some(self.tls(signal, protocol, name)?),
        };
        Some(Target {
            protocol,
            endpoint,
            headers,
            timeout: timeout.unwrap_or(TIMEOUT),
            compression: compression.unwrap_or(Compression::None),
            tls,
        })
    }

    /// Those of the signal, else those of the file, else those of all signals.
    fn headers(&mut self, signal: Signal) -> Option<Headers> {
        let own = self.own(signal, "HEADERS");
        let value = self.look_up(HEADERS_FILE.to_owned()).map(|file| file.value);
        if let Some(value) = value.filter(|_| own.is_none()) {
            if self.file.is_none() {
                let file = Setting { variable: "--otlp-headers-file".to_owned(), value };
                self.file = Some(self.errors.keep(Headers::follow(&file)));
            }
            return self.file.clone().flatten();
        }
        let setting = own.or_else(|| self.general("HEADERS"));
        let headers = setting.and_then(|setting| self.errors.keep(header_list(setting)));
        Some(Headers::fixed(headers.unwrap_or_else(headers::default_headers)))
    }

    fn is_exported(&self, signal: Signal) -> bool {
        let list = self.look_up(ExporterList::variable(signal));
        list.is_none_or(|list| ExporterList::parse(&list.value).is_exported)
    }

    fn endpoint(&mut self, signal: Signal, protocol: Protocol) -> Option<Endpoint> {
        let given =
            |value: &str| Setting { variable: "--otlp".to_owned(), value: value.to_owned() };
        let own = self.own(signal, "ENDPOINT");
        let (setting, own) = match (self.destination, own, self.general("ENDPOINT")) {
            (Destination::Endpoint(value), ..) => (given(value), false),
            (_, Some(setting), _) => (setting, true),
            (_, None, Some(setting)) => (setting, false),
            (Destination::Default, None, None) => (given(standard(protocol)), false),
            (Destination::Environment, None, None) => return None,
        };
        let path = (protocol.is_http() && !own).then(|| signal.http_path());
        let insecure = self.read(signal, "INSECURE", insecure).unwrap_or(false);
        let endpoint = Endpoint::parse(&setting.value, protocol, path, insecure);
        self.errors.keep(endpoint.map_err(|reason| setting.endpoint(reason)))
    }

    fn tls(
        &mut self,
        signal: Signal,
        protocol: Protocol,
        name: ServerName<'static>,
    ) -> Option<Tls> {
        let certificate = self.find(signal, "CLIENT_CERTIFICATE");
        let identity = match (certificate, self.find(signal, "CLIENT_KEY")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            (Some(set), None) => return self.half(set, "CLIENT_KEY"),
            (None, Some(set)) => return self.half(set, "CLIENT_CERTIFICATE"),
        };
        let files = TlsFiles { trusted: self.find(signal, "CERTIFICATE"), identity, protocol };
        let known = self.tls.iter().find(|(known, _)| *known == files);
        let config = match known {
            Some((_, config)) => config.clone(),
            None => {
                let config = self.errors.keep_all(files.follow()).map(Arc::new);
                self.tls.push((files.clone(), config.clone()));
                config
            }
        };
        Some(Tls { files, config: config?, name })
    }

    /// Reports that only one of certificate and key is set.
    fn half<T>(&mut self, set: Setting, missing: &str) -> Option<T> {
        let given = set.variable;
        let missing = format!("OTEL_EXPORTER_OTLP_{missing}");
        self.errors.keep(Err(ConfigError::HalfIdentity { given, missing }))
    }

    /// The parsed value; `None` if unset or invalid.
    fn read<T>(
        &mut self,
        signal: Signal,
        name: &str,
        parse: impl FnOnce(Setting) -> Result<T, ConfigError>,
    ) -> Option<T> {
        let setting = self.find(signal, name)?;
        self.errors.keep(parse(setting))
    }

    fn find(&self, signal: Signal, name: &str) -> Option<Setting> {
        self.own(signal, name).or_else(|| self.general(name))
    }

    fn own(&self, signal: Signal, name: &str) -> Option<Setting> {
        self.look_up(format!("OTEL_EXPORTER_OTLP_{}_{name}", signal.in_variable()))
    }

    fn general(&self, name: &str) -> Option<Setting> {
        self.look_up(format!("OTEL_EXPORTER_OTLP_{name}"))
    }

    /// An empty variable counts as unset, as the specification requires.
    fn look_up(&self, variable: String) -> Option<Setting> {
        let value = (self.env)(&variable)?.trim().to_owned();
        (!value.is_empty()).then_some(Setting { variable, value })
    }
}

const fn standard(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Grpc => "http://localhost:4317",
        Protocol::HttpProtobuf | Protocol::HttpJson => "http://localhost:4318",
    }
}

fn protocol(setting: Setting) -> Result<Protocol, ConfigError> {
    let words = [
        ("grpc", Protocol::Grpc),
        ("http/protobuf", Protocol::HttpProtobuf),
        ("http/json", Protocol::HttpJson),
    ];
    setting.choose(words, "grpc, http/protobuf or http/json")
}

fn compression(setting: Setting) -> Result<Compression, ConfigError> {
    setting.choose([("gzip", Compression::Gzip), ("none", Compression::None)], "gzip or none")
}

fn insecure(setting: Setting) -> Result<bool, ConfigError> {
    setting.choose([("true", true), ("false", false)], "true or false")
}

fn timeout(setting: Setting) -> Result<Duration, ConfigError> {
    match setting.value.parse() {
        Ok(millis @ 1..=LONGEST_TIMEOUT) => Ok(Duration::from_millis(millis)),
        _ => Err(setting.refuse("milliseconds, 1 to 3600000")),
    }
}

fn header_list(setting: Setting) -> Result<HeaderMap, ConfigError> {
    headers::parse(&setting.value)
        .map_err(|entry| ConfigError::Header { variable: setting.variable, entry })
}
