//! The variables of this process. With a configuration file, those of OpenTelemetry are the file's: the process's own
//! count only as references in it, but for contexts of traces.

#[cfg(feature = "full")]
use phasemeter_config::ConfigurationFile;

/// The variables of OpenTelemetry begin with this. `TRACEPARENT`, `TRACESTATE` and `BAGGAGE` do not.
#[cfg(feature = "full")]
const OTEL: &str = "OTEL_";

/// The value of a variable.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    #[cfg(feature = "full")]
    if let Some(file) = ConfigurationFile::of_process().filter(|_| name.starts_with(OTEL)) {
        return file.variable(name).map(ToOwned::to_owned);
    }
    std::env::var(name).ok()
}
