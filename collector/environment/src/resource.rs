//! The resources of Phasemeter itself: that of `hw.*` metrics, and that of internal telemetry.
//!
//! They are instances of one service. Two senders must not share an identity: Prometheus describes
//! each service and instance by one series, `target_info`, and rejects a request with an older sample
//! of it than another sender's.

use phasemeter_otlp::experiment::{Attributes, Experiment, SERVICE_INSTANCE_ID, uuid_from_content};
use phasemeter_otlp::names::attribute;

/// Attributes of the workload that describe where it runs, which is where its GPUs are too.
const PLACE: [&str; 5] = ["host.", "os.", "cloud.", "k8s.", "deployment.environment"];

/// Among them, those of the workload's own container.
const CONTAINER: &str = "k8s.container.";

/// Attributes of a pod. Those of an agent's own pod are not those of the pods whose GPUs it meters.
const POD: [&str; 6] =
    ["container.", "k8s.container.", "k8s.daemonset.", "k8s.namespace.", "k8s.pod.", "k8s.job."];

/// What a process that exports metrics of GPUs is, so that those of one can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Meters all GPUs of a node.
    Agent,
    /// Meters the GPUs of a pod or a command.
    Sidecar,
    /// Meters GPUs by metrics of other programs.
    Gateway,
}

impl Role {
    /// The value of the attribute `phasemeter.role`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Sidecar => "sidecar",
            Self::Gateway => "gateway",
        }
    }

    /// Adds the role to the resource of metrics of GPUs. That of an agent describes the node, not a pod.
    pub fn describe(self, workload: &mut Attributes) {
        if self == Self::Agent {
            workload.retain(|key, _| !POD.iter().any(|prefix| key.starts_with(prefix)));
        }
        workload.insert(attribute::ROLE.to_owned(), self.name().to_owned());
    }
}

/// The resource of Phasemeter with this instance ID, in this place.
#[must_use]
pub fn own(place: Attributes, instance: String) -> Attributes {
    let mut attributes = place;
    attributes.extend([
        ("service.name".to_owned(), crate::NAME.to_owned()),
        ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        (SERVICE_INSTANCE_ID.to_owned(), instance),
    ]);
    attributes
}

/// The resource of `hw.*` for a log: it describes the machine of the GPUs as far as it is given,
/// and not the one that reads the log.
#[must_use]
pub fn for_log(experiment: &Experiment) -> Attributes {
    let workload = &experiment.attributes;
    let instance = uuid_from_content("phasemeter instance", &service(workload));
    own(place(workload, Attributes::new()), instance)
}

/// The name and the instance ID of the workload's service.
#[must_use]
pub fn service(workload: &Attributes) -> [&str; 2] {
    ["service.name", SERVICE_INSTANCE_ID]
        .map(|key| workload.get(key).map(String::as_str).unwrap_or_default())
}

/// Describes where the workload runs. Its own attributes take precedence over those of the machine,
/// which are unreliable in a pod.
#[must_use]
pub fn place(workload: &Attributes, machine: Attributes) -> Attributes {
    let is_place = |key: &str| {
        PLACE.iter().any(|prefix| key.starts_with(prefix)) && !key.starts_with(CONTAINER)
    };
    let given = workload.iter().filter(|(key, _)| is_place(key));
    let mut place = machine;
    place.extend(given.map(|(key, value)| (key.clone(), value.clone())));
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agent_describes_the_node_and_not_its_own_pod() {
        let mut workload = attributes([
            ("k8s.pod.name", "agent-x"),
            ("k8s.namespace.name", "gpu"),
            ("k8s.node.name", "n1"),
        ]);
        Role::Agent.describe(&mut workload);
        assert_eq!(workload, attributes([("k8s.node.name", "n1"), ("phasemeter.role", "agent")]));
        let mut workload = attributes([("k8s.pod.name", "train-0")]);
        Role::Sidecar.describe(&mut workload);
        assert_eq!(workload["k8s.pod.name"], "train-0");
    }

    fn attributes<const N: usize>(pairs: [(&str, &str); N]) -> Attributes {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn resource_describes_phasemeter_in_the_place_of_the_workload() {
        let machine = attributes([("host.name", "pod-1"), ("host.arch", "amd64")]);
        let workload = attributes([
            ("cloud.region", "us-east-1"),
            ("host.name", "node-7"),
            ("k8s.container.name", "trainer"),
            ("k8s.pod.uid", "5f1d"),
            ("service.instance.id", "3"),
            ("service.name", "trainer"),
            ("service.version", "7"),
            ("team", "vision"),
        ]);
        let expected = attributes([
            ("cloud.region", "us-east-1"),
            ("host.arch", "amd64"),
            ("host.name", "node-7"),
            ("k8s.pod.uid", "5f1d"),
            ("service.instance.id", "a"),
            ("service.name", "phasemeter"),
            ("service.version", env!("CARGO_PKG_VERSION")),
        ]);
        assert_eq!(own(place(&workload, machine), "a".to_owned()), expected);
    }
}
