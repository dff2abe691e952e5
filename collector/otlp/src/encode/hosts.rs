//! The resources of GPUs as hardware: one per host.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::resource::v1::Resource;

use super::values::resource;
use crate::experiment::{Attributes, SERVICE_INSTANCE_ID, uuid_from_content};

const NAME: &str = "host.name";
const NODE: &str = "k8s.node.name";
const CLUSTER: &str = "k8s.cluster.name";

/// Attributes of a GPU that describe its host.
const OF_HOST: [&str; 5] = [NAME, "host.id", "host.type", NODE, CLUSTER];

/// Attributes of a place; those of another host do not describe this one.
const OF_PLACE: [&str; 3] = ["host.", "os.", "k8s."];

/// The resources of hosts.
#[derive(Debug)]
pub(super) struct Hosts {
    /// The attributes of the first one.
    base: Attributes,
    /// The first is that of GPUs of which no host is known.
    resources: Vec<Resource>,
    /// The numbers of the others, by name and cluster.
    numbers: BTreeMap<[String; 2], usize>,
}

impl Hosts {
    /// The resource of GPUs of which no host is known.
    pub(super) fn new(base: &Attributes) -> Self {
        Self { base: base.clone(), resources: vec![resource(base)], numbers: BTreeMap::new() }
    }

    /// The resources, by the numbers of hosts.
    pub(super) fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// The number of the host of a GPU with these attributes.
    pub(super) fn number(&mut self, gpu: &BTreeMap<String, String>) -> usize {
        let Some(name) = gpu.get(NAME) else { return 0 };
        let cluster = gpu.get(CLUSTER).cloned().unwrap_or_default();
        *self.numbers.entry([name.clone(), cluster]).or_insert_with_key(|[name, cluster]| {
            self.resources.push(resource(&attributes(&self.base, name, cluster, gpu)));
            self.resources.len() - 1
        })
    }
}

/// The attributes of a host: an instance of its own, so that each has one description.
fn attributes(
    base: &Attributes,
    name: &str,
    cluster: &str,
    gpu: &BTreeMap<String, String>,
) -> Attributes {
    let mut host = base.clone();
    let is_another = [NAME, NODE].iter().any(|key| base.get(*key).is_some_and(|of| of != name));
    if is_another {
        host.retain(|key, _| {
            key == CLUSTER || !OF_PLACE.iter().any(|prefix| key.starts_with(prefix))
        });
    }
    let known = OF_HOST.iter().filter_map(|key| gpu.get_key_value(*key));
    host.extend(known.map(|(key, value)| (key.clone(), value.clone())));
    let of = base.get(SERVICE_INSTANCE_ID).map_or("", String::as_str);
    let instance = uuid_from_content("phasemeter host", &[of, name, cluster]);
    host.insert(SERVICE_INSTANCE_ID.to_owned(), instance);
    host
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<const N: usize>(pairs: [(&str, &str); N]) -> Attributes {
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    fn described(hosts: &Hosts, number: usize) -> Vec<String> {
        let attributes = hosts.resources()[number].attributes.iter();
        attributes.map(|it| it.key.clone()).collect()
    }

    #[test]
    fn host_has_one_resource_with_an_instance_of_its_own() {
        let gateway = [
            (SERVICE_INSTANCE_ID, "g"),
            ("cloud.region", "eu"),
            (NAME, "gateway-0"),
            ("k8s.pod.name", "gateway-0"),
        ];
        let mut hosts = Hosts::new(&map(gateway));
        let node = map([(NAME, "node-1"), ("host.id", "i-1"), (NODE, "node-1"), ("team", "ml")]);
        assert_eq!(hosts.number(&map([])), 0, "of no known host");
        assert_eq!([hosts.number(&node), hosts.number(&map([(NAME, "node-2")]))], [1, 2]);
        assert_eq!(hosts.number(&map([(NAME, "node-1")])), 1);
        assert_eq!(hosts.number(&map([(NAME, "node-1"), (CLUSTER, "b")])), 3);
        let all = ["cloud.region", "host.id", NAME, NODE, SERVICE_INSTANCE_ID];
        assert_eq!(described(&hosts, 1), all, "not the pod of the gateway");
        let instances: std::collections::BTreeSet<_> = hosts
            .resources()
            .iter()
            .map(|resource| {
                let id =
                    resource.attributes.iter().find(|it| it.key == SERVICE_INSTANCE_ID).unwrap();
                format!("{id:?}")
            })
            .collect();
        assert_eq!(instances.len(), 4);
        assert_eq!(Hosts::new(&map(gateway)).number(&node), 1);
    }

    #[test]
    fn description_of_the_same_host_is_kept() {
        let mut hosts = Hosts::new(&map([("host.type", "p5"), (NAME, "node-1")]));
        assert_eq!(hosts.number(&map([(NAME, "node-1")])), 1);
        assert_eq!(described(&hosts, 1), [NAME, "host.type", SERVICE_INSTANCE_ID]);
    }
}
