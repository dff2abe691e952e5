//! The price of a node's GPUs by the node's labels: what is configured for a label, else where the node is and how it is
//! paid for, for the price book.

use phasemeter_holders::{ApiServer, Node};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_otlp::experiment::Attributes;
use tracing::{info, warn};

use crate::cli::{NodeArgs, PriceArgs};

/// Labels of Kubernetes, and the attributes of the resource that they are.
const PLACES: [(&str, &str); 3] = [
    ("node.kubernetes.io/instance-type", "host.type"),
    ("topology.kubernetes.io/region", "cloud.region"),
    ("topology.kubernetes.io/zone", "cloud.availability_zone"),
];

/// The beginnings of provider IDs, and the clouds of the price book.
const PROVIDERS: [(&str, &str); 3] = [("aws:", "aws"), ("gce:", "gcp"), ("azure:", "azure")];

/// Labels that say how a node is paid for: of Karpenter, EKS, GKE and AKS.
const SPOT: [(&str, &str); 5] = [
    ("karpenter.sh/capacity-type", "spot"),
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
];

/// The options of prices with what the labels of the node add, if they are to be read. Attributes that are not given are
/// those of the node.
pub(super) fn of_node(
    args: &NodeArgs,
    given: &PriceArgs,
    attributes: &mut Attributes,
) -> PriceArgs {
    if !args.node_labels && args.price_label.is_empty() {
        return given.clone();
    }
    let variable = |name: &str| std::env::var(name).ok();
    let read = match ApiServer::of_pod(variable).zip(variable("NODE_NAME")) {
        Some((server, name)) => Node::read(&server, &name).map_err(|error| error.to_string()),
        None => Err("no API server, or no NODE_NAME; set both as in a pod".to_owned()),
    };
    match read {
        Ok(node) => priced(&node, args, given, attributes),
        Err(error) => {
            warn!("labels of the node are not used for its price: {error}");
            given.clone()
        }
    }
}

fn priced(
    node: &Node,
    args: &NodeArgs,
    given: &PriceArgs,
    attributes: &mut Attributes,
) -> PriceArgs {
    let mut price = given.clone();
    let has = |label: &str, value: &str| node.labels.get(label).is_some_and(|it| it == value);
    if let Some(own) = args.price_label.iter().find(|it| has(&it.label, &it.value)) {
        info!("price by label {}={}", own.label, own.value);
        price.price = Some(own.price);
    }
    for (label, attribute) in PLACES {
        if let Some(value) = node.labels.get(label) {
            attributes.entry(attribute.to_owned()).or_insert_with(|| value.clone());
        }
    }
    let provider = PROVIDERS.iter().find(|(prefix, _)| node.provider_id.starts_with(prefix));
    if let Some((_, cloud)) = provider {
        attributes.entry("cloud.provider".to_owned()).or_insert_with(|| (*cloud).to_owned());
    }
    let is_spot = SPOT.iter().any(|(label, value)| has(label, value));
    price.plan = price.plan.or(is_spot.then_some(PaymentPlan::Spot));
    price
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(options: &[&str]) -> (NodeArgs, PriceArgs) {
        let line = [&["phasemeter", "agent"], options].concat();
        let Command::Agent(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("another command")
        };
        (args.node, args.machine.live.metering.price)
    }

    fn node(labels: &[(&str, &str)]) -> Node {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Node { labels: labels.collect(), provider_id: "aws:///us-east-1a/i-0a1b".to_owned() }
    }

    #[test]
    fn labels_of_the_node_select_the_price() {
        let spot = node(&[
            ("node.kubernetes.io/instance-type", "p5.48xlarge"),
            ("topology.kubernetes.io/region", "us-east-1"),
            ("karpenter.sh/capacity-type", "spot"),
        ]);
        let (own, given) = args(&["--node-labels"]);
        let mut attributes = Attributes::from([("host.type".to_owned(), "given".to_owned())]);
        let price = priced(&spot, &own, &given, &mut attributes);
        assert_eq!((price.price, price.plan), (None, Some(PaymentPlan::Spot)));
        assert_eq!(attributes["cloud.provider"], "aws");
        assert_eq!(attributes["cloud.region"], "us-east-1");
        assert_eq!(attributes["host.type"], "given");
    }

    /// A price for a label counts more than one for all; of several labels the first one.
    #[test]
    fn price_of_a_label_counts_first() {
        let node = node(&[("pool", "research"), ("gpu", "h100")]);
        let options =
            ["--price", "9", "--price-label", "gpu=a100:1", "--price-label", "pool=research:2.5"];
        let (own, given) = args(&options);
        let price = priced(&node, &own, &given, &mut Attributes::new());
        assert_eq!(price.price, phasemeter_meter::money::Rate::parse("2.5").ok());
        let price = priced(&Node::default(), &own, &given, &mut Attributes::new());
        assert_eq!(price.price, phasemeter_meter::money::Rate::parse("9").ok());
    }

    #[test]
    fn price_labels_are_parsed_exactly_or_rejected() {
        for text in ["gpu", "gpu=a100", "=a100:1", "gpu=a100:x", "gpu=a100:-1"] {
            let line = ["phasemeter", "agent", "--price-label", text];
            assert!(Cli::try_parse_from(line).is_err(), "{text}");
        }
    }
}
