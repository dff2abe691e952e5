//! Describes the machine by OpenTelemetry's resource conventions.
//!
//! Only for live metering: a log does not identify its machine.

use std::fs;

use phasemeter_otlp::experiment::Attributes;

/// The machine ID on Linux; often missing in containers.
const MACHINE_ID: &str = "/etc/machine-id";

/// The ID of the boot on Linux.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Describes the machine.
#[must_use]
pub fn attributes() -> Attributes {
    let uname = rustix::system::uname();
    let id = fs::read_to_string(MACHINE_ID).ok();
    let id = id.as_deref().and_then(machine_id).unwrap_or_default();
    let detected = [
        ("host.name", uname.nodename().to_string_lossy().into_owned()),
        ("host.id", id.to_owned()),
        ("host.arch", arch().to_owned()),
        ("os.type", std::env::consts::OS.to_owned()),
    ];
    let detected = detected.into_iter().filter(|(_, value)| !value.is_empty());
    detected.map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The ID of this boot of the machine, if the system has one.
#[must_use]
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string(BOOT_ID).ok()?;
    Some(id.trim().to_owned()).filter(|id| !id.is_empty())
}

/// The ID in the file; `None` if it has none, as `uninitialized` in the image of a machine.
fn machine_id(text: &str) -> Option<&str> {
    let id = text.trim();
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_id && id.bytes().any(|byte| byte != b'0')).then_some(id)
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
    fn machine_id_is_32_hexadecimal_digits() {
        let id = "d84ed4cf2cb94e5b9e2e4b3b6c5a4f10";
        assert_eq!(machine_id(&format!("{id}\n")), Some(id));
        for none in ["", "\n", "uninitialized\n", &"0".repeat(32), &id[1..], &format!("{id}0")] {
            assert_eq!(machine_id(none), None, "{none}");
        }
    }

    #[test]
    fn machine_has_a_name_and_no_empty_attribute() {
        let detected = attributes();
        assert!(detected.contains_key("host.name"));
        assert!(detected.values().all(|value| !value.is_empty()), "{detected:?}");
    }
}
