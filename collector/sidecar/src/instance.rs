//! Instance IDs of live services: the same after a restart, so that their series continue.
//!
//! UUIDs of version 5, as OpenTelemetry recommends for IDs derived from a known identity. Must not
//! depend on how that identity is found.

use phasemeter_otlp::experiment::Attributes;
use sha1::{Digest, Sha1};

use crate::resource::service;

/// OpenTelemetry's namespace of instance IDs, 4d63009a-8d0f-11ee-aad7-4c796ed8e320.
const NAMESPACE: u128 = 0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320;

/// The instance ID of a workload in this place: of its container in its pod; outside of Kubernetes,
/// of the experiment on its machine.
#[must_use]
pub fn workload_id(workload: &Attributes, place: &Attributes, experiment: &str) -> String {
    let container = workload.get("k8s.container.name").map(String::as_str);
    match pod(place) {
        Some(pod) => uuid(&[pod, container.unwrap_or_default()]),
        None => uuid(&[machine(place), experiment]),
    }
}

/// The instance ID of a part of Phasemeter in this place, beside a workload with an instance ID.
#[must_use]
pub fn phasemeter_id(workload: &Attributes, place: &Attributes, part: &str) -> String {
    let [name, instance] = service(workload);
    let place = pod(place).unwrap_or_else(|| machine(place));
    uuid(&[env!("CARGO_PKG_NAME"), part, place, name, instance])
}

fn pod(place: &Attributes) -> Option<&str> {
    place.get("k8s.pod.uid").map(String::as_str).filter(|uid| !uid.is_empty())
}

/// The ID of the machine, else its name.
fn machine(place: &Attributes) -> &str {
    let id = place.get("host.id").or_else(|| place.get("host.name"));
    id.map(String::as_str).unwrap_or_default()
}

/// The UUID of these fields, separated by slashes.
fn uuid(fields: &[&str]) -> String {
    let hash = Sha1::new_with_prefix(NAMESPACE.to_be_bytes()).chain_update(fields.join("/"));
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash.finalize()).for_each(|(byte, hashed)| *byte = hashed);
    phasemeter_otlp::experiment::uuid(bytes, 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes<const N: usize>(pairs: [(&str, &str); N]) -> Attributes {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    /// As Python's `uuid.uuid5(uuid.UUID("4d63009a-8d0f-11ee-aad7-4c796ed8e320"), name)` has them.
    #[test]
    fn uuid_has_version_5() {
        assert_eq!(uuid(&["5f1d", "trainer"]), "10bbcd0c-7656-5ae6-bdcb-1b81a153923b");
        assert_eq!(uuid(&[]), "778f72e5-f77c-594e-9915-b8a66fe1b88d");
    }

    #[test]
    fn workload_is_its_container_else_its_experiment_on_the_machine() {
        let container = attributes([("k8s.container.name", "trainer")]);
        let pod = |uid| attributes([("host.id", "m1"), ("k8s.pod.uid", uid)]);
        assert_eq!(workload_id(&container, &pod("5f1d"), "tuning"), uuid(&["5f1d", "trainer"]));
        assert_eq!(workload_id(&container, &pod(""), "tuning"), uuid(&["m1", "tuning"]));
        let none = Attributes::new();
        assert_eq!(workload_id(&none, &pod("5f1d"), "tuning"), uuid(&["5f1d", ""]));
        let named = attributes([("host.name", "node-7")]);
        assert_eq!(workload_id(&none, &named, ""), uuid(&["node-7", ""]));
    }

    /// Two workloads on a machine have two meters, whatever their own instance IDs.
    #[test]
    fn phasemeter_has_an_instance_per_part_workload_and_machine() {
        let of = |name, id, machine, part| {
            let workload = attributes([("service.name", name), ("service.instance.id", id)]);
            phasemeter_id(&workload, &attributes([("host.id", machine)]), part)
        };
        let first = of("trainer", "0", "m1", "process");
        assert_eq!(first, of("trainer", "0", "m1", "process"));
        let others = [
            of("server", "0", "m1", "process"),
            of("trainer", "1", "m1", "process"),
            of("trainer", "0", "m2", "process"),
            of("trainer", "0", "m1", "hardware"),
        ];
        assert!(others.iter().all(|other| *other != first), "{first} in {others:?}");
    }
}
