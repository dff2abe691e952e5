//! Options of the agent of a node.

use std::path::PathBuf;

use clap::Args;
use phasemeter_engine::agent::DEFAULT_PATH;
use phasemeter_holders::Options;
use phasemeter_meter::money::Rate;

use super::MachineArgs;
use super::pod_labels::label_key;

/// `phasemeter agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub node: NodeArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}

/// Where the holders of a node's GPUs are found.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Node")]
pub struct NodeArgs {
    /// The kubelet's socket that lists which container holds which GPU. Mount its directory, not the socket.
    #[arg(long, value_name = "PATH", default_value = Options::KUBELET)]
    pub kubelet_socket: PathBuf,

    /// Follow the ResourceSlices of this node at the API server, which name the GPUs of claims (dynamic resource
    /// allocation). Needs list and watch of resourceslices, get of resourceclaims, and NODE_NAME.
    #[arg(long)]
    pub resource_slices: bool,

    /// Follow the pods of this node at the API server: what runs them and their queues are in the report, in bills and
    /// on the wire. Needs list and watch of pods, and NODE_NAME.
    #[arg(long)]
    pub pods: bool,

    /// A label of pods that the report has, like `team`, for `bill --by label:team`. Labels that are not named are not
    /// kept. Implies --pods. Repeatable, at most 16 times.
    #[arg(long, value_name = "KEY", value_parser = label_key)]
    pub label: Vec<String>,

    /// The directory in which a prolog writes the job of each GPU, one file per index, as for dcgm-exporter.
    #[arg(long, value_name = "DIR")]
    pub job_mapping: Option<PathBuf>,

    /// The directory in which Slurm's prolog writes a file per job.
    #[arg(long, value_name = "DIR")]
    pub slurm_jobs: Option<PathBuf>,

    /// The directory with the logs of pods, whose names have the UIDs of pods.
    #[arg(long, value_name = "DIR", default_value = Options::POD_LOGS)]
    pub pod_logs: PathBuf,

    /// Read the labels of this node from the API server: instance type, region and capacity type select its price in the
    /// price book. Needs get of nodes, and NODE_NAME.
    #[arg(long, help_heading = "Price")]
    pub node_labels: bool,

    /// Price in USD per GPU-hour of nodes with this label, like `node.kubernetes.io/instance-type=p5.48xlarge:3.9`. It
    /// counts more than --price; of several, the first one. Implies --node-labels. Repeatable.
    #[arg(long, value_name = "LABEL=VALUE:USD", help_heading = "Price", value_parser = price_label)]
    pub price_label: Vec<PriceLabel>,

    /// The Unix socket on which sidecars learn which GPUs their pod holds, and read them.
    #[arg(long, value_name = "PATH", default_value = DEFAULT_PATH)]
    pub socket: PathBuf,
}

impl NodeArgs {
    /// Whether pods are followed.
    pub fn follows_pods(&self) -> bool {
        self.pods || !self.label.is_empty()
    }
}

/// A price for nodes with a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriceLabel {
    /// The key of the label.
    pub label: String,
    /// Its value.
    pub value: String,
    /// The price.
    pub price: Rate,
}

fn price_label(text: &str) -> Result<PriceLabel, String> {
    let expected = || "expected a label, its value and USD, like gpu=h100:3.9".to_owned();
    let (selector, price) = text.rsplit_once(':').ok_or_else(expected)?;
    let (label, value) = selector.split_once('=').ok_or_else(expected)?;
    let price = Rate::parse(price).map_err(|_| expected())?;
    if label.is_empty() {
        return Err(expected());
    }
    Ok(PriceLabel { label: label.to_owned(), value: value.to_owned(), price })
}
