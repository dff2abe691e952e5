//! The programs of a fleet with several gateways.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::nodes::Nodes;
use crate::otelcol::{Collector, Otelcol};
use crate::relay::Relay;
use crate::server::free_ports;

/// The most gateways of a test.
pub(super) const MOST: usize = 4;

const TERM: i32 = 15;

/// The programs around the gateways, and what they are started with.
pub(super) struct Fleet {
    pub(super) otelcol: Otelcol,
    pub(super) nodes: Nodes,
    /// Seconds between scrapes of a node.
    pub(super) every: u64,
    /// What all gateways are started with, beside their addresses.
    pub(super) options: Vec<String>,
    /// Where the gateways receive, as the balancer knows them.
    pub(super) relays: [Relay; MOST],
    listen: [SocketAddr; MOST],
    /// Where each exports to.
    pub(super) backends: [Relay; MOST],
    directory: TempDir,
    back: Collector,
}

/// A running gateway.
pub(super) struct Routed {
    child: Child,
    report: PathBuf,
}

impl Fleet {
    /// Starts nodes, scraped every so many seconds once [`Self::scrape`] is called, and the Collector behind the gateways;
    /// `exporters`: its exporters beside the files, and their names.
    pub(super) fn start(
        otelcol: Otelcol,
        nodes: u64,
        every: u64,
        options: &[&str],
        (exporters, names): (&str, &str),
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let receivers: [SocketAddr; MOST] = free_ports();
        let of_each =
            |text: &dyn Fn(usize) -> String| (0..MOST).map(text).collect::<Vec<_>>().join(", ");
        let files = directory.path().display();
        let pipeline = |i: usize, signal: &str, exporters: &str| {
            format!("{signal}/{i}: {{receivers: [otlp/{i}], exporters: [{exporters}]}}")
        };
        let behind = format!(
            "{{receivers: {{{}}}, exporters: {{{}{exporters}}}, service: {{pipelines: {{{}}}}}}}",
            of_each(&|i| {
                format!("otlp/{i}: {{protocols: {{grpc: {{endpoint: '{}'}}}}}}", receivers[i])
            }),
            of_each(&|i| {
                let file = |signal| {
                    format!(
                        "file/{signal}{i}: {{path: '{files}/{i}-{signal}.zst', format: proto, compression: zstd}}"
                    )
                };
                ["metrics", "logs", "traces"].map(file).join(", ")
            }),
            of_each(&|i| {
                let metrics = pipeline(i, "metrics", &format!("file/metrics{i}{names}"));
                let [logs, traces] =
                    ["logs", "traces"].map(|it| pipeline(i, it, &format!("file/{it}{i}")));
                format!("{metrics}, {logs}, {traces}")
            }),
        );
        let back = otelcol.start_merged(&["collector.yaml"], &[&behind], &[]);
        let listen: [SocketAddr; MOST] = free_ports();
        Self {
            otelcol,
            nodes: Nodes::serve(nodes).unwrap(),
            every,
            options: options.iter().map(|&option| option.to_owned()).collect(),
            relays: listen.map(|address| Relay::to(address).unwrap()),
            listen,
            backends: receivers.map(|address| Relay::to(address).unwrap()),
            directory,
            back,
        }
    }

    /// A Collector that scrapes the nodes and sends them to the first gateways.
    pub(super) fn scrape(&self, gateways: usize) -> Collector {
        let list: Vec<_> =
            self.relays[..gateways].iter().map(|it| it.address.to_string()).collect();
        let list = format!("[{}]", list.join(", "));
        let queue = self.directory.path().join("queue").display().to_string();
        let exporters =
            "service::pipelines::metrics/scraped::exporters: [loadbalancing, file/metrics]";
        let merged = [self.nodes.receivers(self.every), exporters.to_owned()];
        self.otelcol.start_merged(
            &["collector.yaml", "archive.yaml", "gateway.yaml", "routed.yaml"],
            &merged.each_ref().map(String::as_str),
            &[("OTELCOL_GATEWAYS", &list), ("OTELCOL_QUEUE", &queue)],
        )
    }

    /// Starts a gateway at $3.60 per hour, with the state of the one that it replaces.
    pub(super) fn gateway(&self, gateway: usize) -> Routed {
        let path = |name: &str| self.directory.path().join(format!("{gateway}-{name}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.env_clear().stdin(Stdio::null()).stderr(Stdio::piped());
        let backend = format!("http://{}", self.backends[gateway].address);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", backend);
        command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        command.args(["gateway", "--routed", "--price=3.6", "--no-default-policies"]);
        command.arg(format!("--listen={}", self.listen[gateway])).args(&self.options);
        let report = path("report.json");
        command.arg("--data-dir").arg(path("data")).arg("--report").arg(&report);
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
        assert!(log.any(|line| line.contains("receiving OTLP on ")), "it ended");
        thread::spawn(move || log.for_each(drop));
        Routed { child, report }
    }

    /// The process of the Collector behind the gateways.
    pub(super) fn back(&self) -> u32 {
        self.back.id()
    }

    /// Ends the Collector behind the gateways. Returns the metrics, log records and spans of each gateway.
    pub(super) fn end(self) -> [[Vec<u8>; 3]; MOST] {
        self.back.stop();
        let directory: &Path = self.directory.path();
        std::array::from_fn(|gateway| {
            ["metrics", "logs", "traces"]
                .map(|signal| fs::read(directory.join(format!("{gateway}-{signal}.zst"))).unwrap())
        })
    }
}

impl Routed {
    /// Its process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it.
    pub(super) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Ends it, and returns its report.
    pub(super) fn stop(mut self) -> Value {
        phasemeter_process::send(self.child.id(), TERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
        serde_json::from_slice(&fs::read(self.report).unwrap()).unwrap()
    }
}
