//! The machine that the GPUs are in, as OpenTelemetry describes it.
//!
//! Only live metering asks: a log says nothing of where it is audited. This room must not know of
//! GPUs.

use std::fs;

use phasemeter_otlp::experiment::Attributes;

/// Where a Linux machine keeps an id of its own; a container often has none.
const MACHINE_ID: &str = "/etc/machine-id";

/// What the user may say better than we can see it, as from within a pod.
const NAMED_BY_USER: [&str; 2] = ["host.", "k8s.node."];

/// Describes the machine. What `given` says of it, the attributes of the workload, goes first.
#[must_use]
pub fn attributes(given: &Attributes) -> Attributes {
    let uname = rustix::system::uname();
    let id = fs::read_to_string(MACHINE_ID).unwrap_or_default();
    let seen = [
        ("host.name", uname.nodename().to_string_lossy().into_owned()),
        ("host.id", id.trim().to_owned()),
        ("host.arch", arch().to_owned()),
        ("os.type", std::env::consts::OS.to_owned()),
    ];
    let seen = seen.into_iter().filter(|(_, value)| !value.is_empty());
    let mut attributes: Attributes = seen.map(|(key, value)| (key.to_owned(), value)).collect();
    let of_host = |key: &str| NAMED_BY_USER.iter().any(|prefix| key.starts_with(prefix));
    let given = given.iter().filter(|(key, _)| of_host(key));
    attributes.extend(given.map(|(key, value)| (key.clone(), value.clone())));
    attributes
}

/// As OpenTelemetry calls it.
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
    fn the_user_knows_better_and_the_workload_stays_out() {
        let seen = attributes(&Attributes::new());
        assert!(!seen["host.name"].is_empty());
        let given = [("host.name", "node-7"), ("k8s.node.name", "node-7"), ("service.name", "x")];
        let given = given.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let told = attributes(&given.into());
        assert_eq!((&*told["host.name"], &*told["k8s.node.name"]), ("node-7", "node-7"));
        assert!(!told.contains_key("service.name"));
    }
}
