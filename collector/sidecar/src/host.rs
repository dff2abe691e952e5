//! Describes the machine by OpenTelemetry's resource conventions.
//!
//! Only for live metering: a log does not identify its machine. Must not depend on GPUs.

use std::fs;

use phasemeter_otlp::experiment::Attributes;

/// The machine ID on Linux; often missing in containers.
const MACHINE_ID: &str = "/etc/machine-id";

/// Describes the machine.
#[must_use]
pub fn attributes() -> Attributes {
    let uname = rustix::system::uname();
    let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
    let detected = [
        ("host.name", uname.nodename().to_string_lossy().into_owned()),
        ("host.id", id.trim().to_owned()),
        ("host.arch", arch().to_owned()),
        ("os.type", std::env::consts::OS.to_owned()),
    ];
    let detected = detected.into_iter().filter(|(_, value)| !value.is_empty());
    detected.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The architecture in OpenTelemetry's terms.
const fn arch() -> &'static str {
    match std::env::consts::ARCH.as_bytes() {
        b"x86_64" => "amd64",
        b"aarch64" => "arm64",
        b"powerpc64" => "ppc64",
        _ => std::env::consts::ARCH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_a_name_and_no_empty_attribute() {
        let detected = attributes();
        assert!(detected.contains_key("host.name"));
        assert!(detected.values().all(|value| !value.is_empty()), "{detected:?}");
    }
}
