//! Simulated nodes with eight GPUs each, whose exporters a Collector scrapes: one listener, one path per node.
//! Shared by path.
//!
//! What a GPU does depends on its number and that of the scrape only.

#![allow(dead_code, reason = "each user uses a part")]

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

pub(crate) const GPUS_PER_NODE: u64 = 8;

/// The metric with the number of the scrape, from 0 on, once per page.
pub(crate) const SCRAPE: &str = "simulated_scrape";

/// What DCGM prints if a value is not available.
const BLANK: u64 = 9_223_372_036_854_775_794;

/// The nodes.
#[derive(Debug)]
pub(crate) struct Nodes {
    address: SocketAddr,
    nodes: Arc<Vec<Node>>,
}

#[derive(Debug, Default)]
struct Node {
    scrapes: AtomicU64,
    is_gone: AtomicBool,
}

impl Nodes {
    /// Serves the pages of so many nodes until the program ends.
    pub(crate) fn serve(count: u64) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let nodes: Arc<Vec<Node>> = Arc::new((0..count).map(|_| Node::default()).collect());
        let served = Arc::clone(&nodes);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                // A scrape that fails is repeated.
                thread::spawn(move || _ = respond(&served, stream));
            }
        });
        Ok(Self { address, nodes })
    }

    /// From now on, this node responds to nothing.
    pub(crate) fn vanish(&self, node: usize) {
        if let Some(node) = self.nodes.get(node) {
            node.is_gone.store(true, Ordering::SeqCst);
        }
    }

    /// The configuration of a Collector's Prometheus receiver that scrapes them every so many seconds.
    pub(crate) fn receivers(&self, every: u64) -> String {
        let mut text = format!(
            "receivers: {{prometheus: {{config: {{scrape_configs: [{{job_name: dcgm-exporter, \
             scrape_interval: {every}s, scrape_timeout: {every}s, static_configs: ["
        );
        let address = self.address;
        for node in 0..self.nodes.len() {
            // Writing to a string cannot fail.
            _ = write!(
                text,
                "{{targets: ['{address}'], labels: {{__metrics_path__: /{node}, instance: 'node-{node}:9400'}}}}, "
            );
        }
        text + "]}]}}}"
    }
}

/// Responds to the request of a page, unless its node is gone.
fn respond(nodes: &[Node], mut stream: TcpStream) -> io::Result<()> {
    let (mut request, mut read) = ([0; 4_096], 0);
    while !request.get(..read).unwrap_or_default().ends_with(b"\r\n\r\n") {
        match stream.read(request.get_mut(read..).unwrap_or_default())? {
            0 => return Ok(()),
            more => read += more,
        }
    }
    let text = String::from_utf8_lossy(request.get(..read).unwrap_or_default());
    let number = text.split(['/', ' ']).nth(2).and_then(|number| number.parse().ok());
    let found = number.and_then(|number: usize| Some((number, nodes.get(number)?)));
    let Some((number, node)) = found.filter(|(_, node)| !node.is_gone.load(Ordering::SeqCst))
    else {
        return Ok(());
    };
    let page = page(number as u64, node.scrapes.fetch_add(1, Ordering::SeqCst));
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{page}", page.len())
}

/// The UUID of a GPU.
pub(crate) fn uuid(node: u64, gpu: u64) -> String {
    format!("GPU-{node:08}-0000-4000-8000-{gpu:012}")
}

/// Whether a pod has the GPU.
pub(crate) const fn has_pod(gpu: u64) -> bool {
    gpu % 2 == 1
}

/// The utilization of a GPU in percent, as a scrape shows it; `None` if that is not available. It changes every few
/// scrapes, and lies in all phases.
pub(crate) fn utilization(node: u64, gpu: u64, scrape: u64) -> Option<u64> {
    let is_available = gpu != 3 || scrape % 16 != 5;
    is_available.then(|| (node * 29 + gpu * 37 + (scrape + node) / 3 * 53) % 101)
}

/// The page of a node's exporter.
fn page(node: u64, scrape: u64) -> String {
    let mut page = format!("{SCRAPE}{{hostname=\"node-{node}\"}} {scrape}\n");
    for (name, value) in METRICS {
        // Writing to a string cannot fail.
        _ = writeln!(page, "# HELP {name} As dcgm-exporter has it.\n# TYPE {name} gauge");
        for gpu in 0..GPUS_PER_NODE {
            let uuid = uuid(node, gpu);
            let pod = if has_pod(gpu) { format!("train-{node}-{gpu}") } else { String::new() };
            let (container, namespace) = if has_pod(gpu) { ("train", "ml") } else { ("", "") };
            let value = value(utilization(node, gpu, scrape), scrape);
            _ = writeln!(
                page,
                "{name}{{gpu=\"{gpu}\",UUID=\"{uuid}\",pci_bus_id=\"00000000:{gpu:02X}:00.0\",\
                 device=\"nvidia{gpu}\",modelName=\"NVIDIA H100 80GB HBM3\",hostname=\"node-{node}\",\
                 DCGM_FI_DRIVER_VERSION=\"550.90.07\",container=\"{container}\",\
                 namespace=\"{namespace}\",pod=\"{pod}\"}} {value}"
            );
        }
    }
    page
}

/// The value of a metric, from the utilization and the number of the scrape.
type Value = fn(Option<u64>, u64) -> u64;

/// The metrics of the exporter's default set that are about a whole GPU.
const METRICS: [(&str, Value); 10] = [
    ("DCGM_FI_DEV_GPU_UTIL", |percent, _| percent.unwrap_or(BLANK)),
    ("DCGM_FI_DEV_MEM_COPY_UTIL", |percent, _| percent.unwrap_or(BLANK) / 2),
    ("DCGM_FI_DEV_SM_CLOCK", |_, _| 1_980),
    ("DCGM_FI_DEV_MEM_CLOCK", |_, _| 2_619),
    ("DCGM_FI_DEV_GPU_TEMP", |percent, _| 35 + percent.unwrap_or(0) / 4),
    ("DCGM_FI_DEV_POWER_USAGE", |percent, _| 70 + percent.unwrap_or(0) * 6),
    ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", |_, scrape| scrape * 4_500_000),
    ("DCGM_FI_DEV_XID_ERRORS", |_, _| 0),
    ("DCGM_FI_DEV_FB_USED", |_, _| 0),
    ("DCGM_FI_DEV_FB_FREE", |_, _| 81_079),
];
