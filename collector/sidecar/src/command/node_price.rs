//! The price of a node's GPUs by the node's labels: what is configured for a label, else where the node is and how it
//! is paid for, for the price book.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use phasemeter_engine::pipeline::Pipeline;
use phasemeter_engine::pricing::PriceOptions;
use phasemeter_holders::{ApiServer, Node};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::experiment::Attributes;
use tracing::{info, warn};

use super::metering;
use crate::variables::variable;
use phasemeter_cli::{NodeArgs, PriceArgs};

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

/// How often labels are read again.
const READ_EVERY: Duration = Duration::from_secs(60);

/// The price of the GPUs of a node, as its labels change.
#[derive(Debug)]
pub(super) struct NodePrice {
    args: NodeArgs,
    given: PriceArgs,
    /// The attributes of the resource, without those of the node.
    attributes: Attributes,
    /// What holds now, by the labels read last.
    current: (PriceArgs, Attributes),
    updates: Receiver<Node>,
    /// The node as it was read last, if it was.
    node: Option<Node>,
    /// A change that is not applied yet.
    changed: Option<(PriceArgs, Attributes)>,
    /// Ends the thread when it is dropped.
    _running: Sender<()>,
}

/// The options of prices with what the labels of the node add, if they are to be read, and what follows them.
/// Attributes that are not given are those of the node.
pub(super) fn of_node(
    args: &NodeArgs,
    given: &PriceArgs,
    attributes: &mut Attributes,
) -> (PriceArgs, Option<NodePrice>) {
    if !args.node_labels && args.price_label.is_empty() {
        return (given.clone(), None);
    }
    let Some((server, name)) = ApiServer::of_pod(variable).zip(variable("NODE_NAME")) else {
        warn!("{NOT_USED}: no API server, or no NODE_NAME; set both as in a pod");
        return (given.clone(), None);
    };
    let node = Node::read(&server, &name);
    let node = node.inspect_err(|error| warn!("{NOT_USED}: {error}")).ok();
    let before = attributes.clone();
    let price = match &node {
        Some(node) => priced(node, args, given, attributes),
        None => given.clone(),
    };
    let (running, ended) = channel();
    let (sender, updates) = channel();
    let last = node.clone();
    let follow = move || follow(&server, &name, node, READ_EVERY, (&ended, &sender));
    if let Err(error) = thread::Builder::new().name("node-labels".to_owned()).spawn(follow) {
        warn!("labels of the node are not followed: thread not started: {error}");
        return (price, None);
    }
    let followed = NodePrice {
        args: args.clone(),
        given: given.clone(),
        attributes: before,
        current: (price.clone(), attributes.clone()),
        updates,
        node: last,
        changed: None,
        _running: running,
    };
    (price, Some(followed))
}

/// The beginning of warnings if labels cannot be read.
const NOT_USED: &str = "labels of the node are not used for its price";

/// Reads the labels of a node again and again, and sends it if it has changed.
fn follow(
    server: &ApiServer,
    name: &str,
    mut last: Option<Node>,
    every: Duration,
    (ended, sender): (&Receiver<()>, &Sender<Node>),
) {
    let mut has_failed = last.is_none();
    while ended.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
        let read = match &last {
            Some(last) => last.read_labels(server, name),
            None => Node::read(server, name),
        };
        match read {
            Ok(node) => {
                has_failed = false;
                if last.as_ref() != Some(&node) {
                    last = Some(node.clone());
                    if sender.send(node).is_err() {
                        return;
                    }
                }
            }
            Err(error) => {
                if !has_failed {
                    warn!("price by the labels of the node that were read last: {error}");
                }
                has_failed = true;
            }
        }
    }
}

impl NodePrice {
    /// Applies the labels that were read since the last call, from now on.
    pub(super) fn step(&mut self, pipeline: &mut Pipeline<'_>, now: Timestamp) {
        self.read();
        if let Some((price, attributes)) = &self.changed
            && pipeline.change_prices(&metering::price_options(price, attributes), None, now)
        {
            info!("the labels of the node have changed, and so does its price");
            self.current = (price.clone(), attributes.clone());
            self.changed = None;
        }
    }

    /// The options of prices, by the labels that were applied last.
    pub(super) fn options(&self) -> PriceOptions {
        let (price, attributes) = &self.current;
        metering::price_options(price, attributes)
    }

    /// Prices by other options from now on, which the caller applies.
    pub(super) fn change(&mut self, args: &NodeArgs, given: &PriceArgs) {
        self.args.price_label.clone_from(&args.price_label);
        self.given.clone_from(given);
        self.changed = None;
        self.current = self.by_labels();
    }

    /// Takes the labels that were read since the last call.
    fn read(&mut self) {
        if let Some(node) = self.updates.try_iter().last() {
            self.node = Some(node);
            let changed = self.by_labels();
            self.changed = Some(changed).filter(|changed| *changed != self.current);
        }
    }

    /// What holds by the labels that were read last.
    fn by_labels(&self) -> (PriceArgs, Attributes) {
        let mut attributes = self.attributes.clone();
        let price = match &self.node {
            Some(node) => priced(node, &self.args, &self.given, &mut attributes),
            None => self.given.clone(),
        };
        (price, attributes)
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
    use phasemeter_cli::{Cli, Command};

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

    /// Labels that change the price are a change; others, and the same ones again, are none.
    #[test]
    fn change_of_a_label_is_one_of_the_price_only_if_it_decides() {
        let (own, given) = args(&["--price", "9", "--price-label", "pool=research:2.5"]);
        let (running, _ended) = channel();
        let (sender, updates) = channel();
        let attributes = Attributes::new();
        let mut first = attributes.clone();
        let current = priced(&node(&[]), &own, &given, &mut first);
        let mut followed = NodePrice {
            args: own,
            given,
            attributes,
            current: (current, first),
            updates,
            node: None,
            changed: None,
            _running: running,
        };
        let mut changed = |labels: &[(&str, &str)]| {
            sender.send(node(labels)).unwrap();
            followed.read();
            followed.changed.as_ref().map(|(price, _)| price.price)
        };
        assert_eq!(changed(&[("team", "vision")]), None);
        let research = phasemeter_meter::money::Rate::parse("2.5").ok();
        assert_eq!(changed(&[("pool", "research")]), Some(research));
        assert_eq!(changed(&[]), None, "as it was, before it was applied");
        let place = changed(&[("topology.kubernetes.io/region", "us-east-1")]);
        assert_eq!(place, Some(phasemeter_meter::money::Rate::parse("9").ok()));
    }
}
