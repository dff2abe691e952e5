//! Describes the machine by OpenTelemetry's resource conventions.
//!
//! Only for live metering: a log does not identify its machine. Must not depend on GPUs.

use std::fs;

use phasemeter_otlp::experiment::Attributes;

/// The machine ID on Linux; often missing in containers.
const MACHINE_ID: &str = "/etc/machine-id";

/// Attributes that the user may override, as they are unreliable in a pod.
const OVERRIDABLE: [&str; 2] = ["host.", "k8s.node."];

/// Describes the machine. Its attributes in `given`, those of the workload, take precedence.
#[must_use]
pub fn attributes(given: &Attributes) -> Attributes {
    let uname = rustix::system::uname();
    let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
    let detected = [
        ("host.name", uname.nodename().to_string_lossy().into_owned()),
        ("host.id", id.trim().to_owned()),
        ("host.arch", arch().to_owned()),
        ("os.type", std::env::consts::OS.to_owned()),
    ];
    let detected = detected.into_iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: Attributes = detected.map(|(key, value)| (key.to_owned(), value)).collect();
    let is_host = |key: &str| OVERRIDABLE.iter().any(|prefix| key.starts_with(prefix));
    let given = given.iter().filter(|(key, _)| is_host(key));
    attributes.extend(given.map(|(key, value)| (key.clone(), value.clone())));
    attributes
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
    fn host_attributes_of_the_user_take_precedence() {
        let detected = attributes(&Attributes::new());
        assert!(!detected["host.name"].is_empty());
        let given = [("host.name", "node-7"), ("k8s.node.name", "node-7"), ("service.name", "x")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let described = attributes(&given.into());
        assert_eq!((&*described["host.name"], &*described["k8s.node.name"]), ("node-7", "node-7"));
        assert!(!described.contains_key("service.name"));
    }
}
