//! Instance IDs of live services: the same after a restart, so that their series continue.
//!
//! UUIDs of version 5, as OpenTelemetry recommends for IDs derived from a known identity.

use std::time::Duration;

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::Attributes;
use sha1::{Digest, Sha1};

use crate::resource::service;

/// OpenTelemetry's namespace of instance IDs, 4d63009a-8d0f-11ee-aad7-4c796ed8e320.
const NAMESPACE: u128 = 0x4d63_009a_8d0f_11ee_aad7_4c79_6ed8_e320;

/// Names of machines that have none of their own.
const UNNAMED: [&str; 4] = ["", "(none)", "localhost", "localhost.localdomain"];

/// The maximum delay by [`send_offset`]: what a gateway that bills 90 s late, from an interval of 60 s and
/// readings that are 15 s late, has to spare.
const MAX_OFFSET: Duration = Duration::from_secs(10);

/// What identifies a machine: its ID and its name, since clones of an image can share either. If it has
/// neither, `boot_id`, the ID of its boot.
#[must_use]
pub fn machine(place: &Attributes, boot_id: impl FnOnce() -> String) -> String {
    let of = |key| place.get(key).map(|value| value.trim()).unwrap_or_default();
    let (id, name) = (of("host.id"), of("host.name"));
    let name = if UNNAMED.contains(&name) { "" } else { name };
    match (id, name) {
        ("", "") => boot_id(),
        ("", one) | (one, "") => one.to_owned(),
        (id, name) => format!("{id}/{name}"),
    }
}

/// The instance ID of a workload in this place: of its container in its pod; outside of Kubernetes,
/// of the experiment on its machine.
#[must_use]
pub fn workload_id(
    workload: &Attributes,
    place: &Attributes,
    machine: &str,
    experiment: &str,
) -> String {
    let container = workload.get("k8s.container.name").map(String::as_str);
    match pod(place) {
        Some(pod) => uuid(&[pod, container.unwrap_or_default()]),
        None => uuid(&[machine, experiment]),
    }
}

/// The instance ID of a part of Phasemeter in this place. On a machine it is that of the slot, whatever workload
/// runs in it. In a pod, and without a slot, it is also that of the workload that Phasemeter is beside.
#[must_use]
pub fn phasemeter_id(
    workload: &Attributes,
    place: &Attributes,
    machine: &str,
    slot: Option<&str>,
    part: &str,
) -> String {
    let own = crate::NAME;
    let [name, instance] = service(workload);
    match (pod(place), slot) {
        (None, Some(slot)) => uuid(&[own, part, machine, slot]),
        (Some(pod), Some(slot)) => uuid(&[own, part, pod, name, instance, slot]),
        (place, None) => uuid(&[own, part, place.unwrap_or(machine), name, instance]),
    }
}

/// The instance ID of a gateway in this place that receives on these addresses.
#[must_use]
pub fn gateway_id(place: &Attributes, machine: &str, addresses: &[String]) -> String {
    let place = pod(place).unwrap_or(machine);
    uuid(&[crate::NAME, "gateway", place, &addresses.join(",")])
}

/// How much later than its data an instance sends: a part of at most a sixth of the export interval, which
/// is always the same. All machines export at the same instants.
#[must_use]
pub fn send_offset(instance: &str, every: Nanos) -> Duration {
    let range = (Duration::from_nanos(every.0) / 6).min(MAX_OFFSET);
    let mut share = [0; 4];
    share.iter_mut().zip(Sha1::digest(instance)).for_each(|(byte, hashed)| *byte = hashed);
    range.mul_f64(f64::from(u32::from_be_bytes(share)) / f64::from(u32::MAX))
}

fn pod(place: &Attributes) -> Option<&str> {
    place.get("k8s.pod.uid").map(String::as_str).filter(|uid| !uid.is_empty())
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

    /// Images are cloned with their IDs, names repeat in data centers, and a machine may have neither.
    #[test]
    fn machine_is_its_id_and_its_name_else_its_boot() {
        let of = |id: &str, name: &str| {
            machine(&attributes([("host.id", id), ("host.name", name)]), || "boot".to_owned())
        };
        assert_eq!(of("m1", "node-7"), "m1/node-7");
        assert_eq!([of("m1", "localhost"), of("", "node-7")], ["m1", "node-7"]);
        assert_eq!([of("", "localhost"), of(" ", "(none)"), of("", "")], ["boot"; 3]);
        let none = Attributes::new();
        assert_eq!(machine(&none, || "boot".to_owned()), "boot");
    }

    #[test]
    fn workload_is_its_container_else_its_experiment_on_the_machine() {
        let container = attributes([("k8s.container.name", "trainer")]);
        let pod = |uid| attributes([("k8s.pod.uid", uid)]);
        let id = |workload: &Attributes, place: &Attributes| {
            workload_id(workload, place, "m1/node-7", "tuning")
        };
        assert_eq!(id(&container, &pod("5f1d")), uuid(&["5f1d", "trainer"]));
        assert_eq!(id(&container, &pod("")), uuid(&["m1/node-7", "tuning"]));
        assert_eq!(id(&Attributes::new(), &pod("5f1d")), uuid(&["5f1d", ""]));
    }

    /// Two workloads on a machine have two meters, whatever their own instance IDs.
    #[test]
    fn phasemeter_has_an_instance_per_part_workload_and_machine() {
        let of = |name, id, machine, part| {
            let workload = attributes([("service.name", name), ("service.instance.id", id)]);
            phasemeter_id(&workload, &Attributes::new(), machine, None, part)
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

    #[test]
    fn slot_of_a_machine_is_the_same_for_all_workloads() {
        let of = |name, machine, slot| {
            let workload = attributes([("service.name", name)]);
            phasemeter_id(&workload, &Attributes::new(), machine, Some(slot), "hardware")
        };
        assert_eq!(of("trainer", "m1", "0"), of("server", "m1", "0"));
        assert_ne!(of("trainer", "m1", "0"), of("trainer", "m1", "1"));
        assert_ne!(of("trainer", "m1", "0"), of("trainer", "m2", "0"));
    }

    #[test]
    fn gateway_is_its_place_and_its_addresses() {
        let of = |place: &Attributes, machine, address: &str| {
            gateway_id(place, machine, &[address.to_owned()])
        };
        let (none, pod) = (Attributes::new(), attributes([("k8s.pod.uid", "5f1d")]));
        let first = of(&none, "m1", "127.0.0.1:4317");
        assert_eq!(first, of(&none, "m1", "127.0.0.1:4317"));
        let others = [
            of(&none, "m2", "127.0.0.1:4317"),
            of(&none, "m1", "127.0.0.1:4318"),
            of(&pod, "m1", "127.0.0.1:4317"),
        ];
        assert!(others.iter().all(|other| *other != first), "{first} in {others:?}");
    }

    #[test]
    fn instances_send_evenly_over_a_part_of_the_interval() {
        let minute = Nanos::from_secs(60);
        let offset = |node: u32| send_offset(&uuid(&[&node.to_string()]), minute);
        assert_eq!(offset(7), offset(7));
        let mut seconds = [0; 10];
        for node in 0..10_000 {
            let index = usize::try_from(offset(node).as_secs()).unwrap();
            seconds[index.min(9)] += 1;
        }
        assert!(seconds.iter().all(|nodes| (900..1_100).contains(nodes)), "{seconds:?}");
        assert!(send_offset("a", Nanos::SECOND) <= Duration::from_secs(1) / 6);
        assert!(send_offset("a", Nanos::from_secs(3_600)) <= MAX_OFFSET);
    }
}
