//! The variables of this process. With a configuration file, those of OpenTelemetry are the file's: the process's own
//! count only as references in it, but for contexts of traces.

#[cfg(feature = "full")]
use std::path::PathBuf;
#[cfg(feature = "full")]
use std::sync::OnceLock;

#[cfg(feature = "full")]
use phasemeter_config::Configuration;

/// The variables of OpenTelemetry begin with this. `TRACEPARENT`, `TRACESTATE` and `BAGGAGE` do not.
#[cfg(feature = "full")]
const OTEL: &str = "OTEL_";

#[cfg(feature = "full")]
static FILE: OnceLock<UsedFile> = OnceLock::new();

/// The configuration file of this process.
#[cfg(feature = "full")]
pub struct UsedFile {
    /// Its path.
    pub path: PathBuf,
    /// What it sets.
    pub(crate) configuration: Configuration,
    /// What is wrong in it, or has no effect.
    pub warnings: Vec<String>,
}

/// The configuration file of this process; `None` if it has none.
#[cfg(feature = "full")]
#[must_use]
pub fn file() -> Option<&'static UsedFile> {
    FILE.get()
}

/// The value of a variable.
#[must_use]
pub fn variable(name: &str) -> Option<String> {
    #[cfg(feature = "full")]
    if let Some(file) = FILE.get().filter(|_| name.starts_with(OTEL)) {
        return file.configuration.variable(name).map(ToOwned::to_owned);
    }
    std::env::var(name).ok()
}

/// Takes OpenTelemetry's variables from a file, from now on.
#[cfg(feature = "full")]
pub(crate) fn replace(file: UsedFile) {
    // It is read once, before anything else.
    let _ = FILE.set(file);
}
