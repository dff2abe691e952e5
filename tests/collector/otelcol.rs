//! Runs a real Collector with the configuration in `otel-config/collector`.
//!
//! `OTELCOL` is its path: `make test-backends` builds one and sets it.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::otlp::{self, Captured};
use crate::server::{Server, executable, get};

/// Internal metrics of a Collector use a fixed port, which two Collectors cannot share.
const NO_METRICS: &str = "yaml:service::telemetry::metrics::level: none";

/// Its configurations.
const CONFIGURATIONS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/collector");

/// The file is read as a whole.
const ONE_FILE: &str = "yaml:exporters::file::rotation::max_megabytes: 4096";

/// The Collector's executable.
#[derive(Debug)]
pub(crate) struct Otelcol {
    program: PathBuf,
}

/// A running Collector.
#[derive(Debug)]
pub(crate) struct Collector {
    server: Server,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    pub(crate) prometheus: SocketAddr,
}

/// A running Collector with the configuration of a page.
#[derive(Debug)]
pub(crate) struct PageCollector {
    server: Server,
}

impl PageCollector {
    /// Stops it and returns its log.
    pub(crate) fn log(mut self) -> String {
        self.server.stop();
        self.server.log()
    }
}

impl Otelcol {
    /// The Collector at `OTELCOL`.
    pub(crate) fn find() -> Option<Self> {
        executable("OTELCOL").map(|program| Self { program })
    }

    /// Its path.
    pub(crate) fn program(&self) -> &Path {
        &self.program
    }

    /// A command with these files of `otel-config/collector` that writes its output to `dir`.
    pub(crate) fn command(&self, subcommand: Option<&str>, files: &[&str], dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(dir).stdin(Stdio::null()).args(subcommand);
        for file in files {
            command.arg("--config").arg(format!("{CONFIGURATIONS}/{file}"));
        }
        command
    }

    /// Starts it with the unmodified `collector.yaml`.
    pub(crate) fn start(&self) -> Collector {
        self.start_with(&["collector.yaml"], &[])
    }

    /// Starts it with these unmodified files and variables.
    pub(crate) fn start_with(&self, files: &[&str], variables: &[(&str, &str)]) -> Collector {
        self.start_merged(files, &[], variables)
    }

    /// Starts it with the configuration of a page, beside which only its health is reported.
    pub(crate) fn start_page(&self, yaml: &str) -> PageCollector {
        let (server, _) = Server::start("/", |[health], dir| {
            fs::write(dir.join("page.yaml"), yaml).unwrap();
            let mut command = self.command(None, &[], dir);
            command.args(["--config", "page.yaml", "--config", NO_METRICS]);
            command.arg("--config").arg(format!(
                "yaml:{{extensions: {{health_check: {{endpoint: \"{health}\"}}}}, \
                 service: {{extensions: [health_check]}}}}"
            ));
            command
        });
        PageCollector { server }
    }

    /// Starts it with these unmodified files, merged with configuration in YAML, and variables.
    pub(crate) fn start_merged(
        &self,
        files: &[&str],
        merged: &[&str],
        variables: &[(&str, &str)],
    ) -> Collector {
        let (server, [_, grpc, http, prometheus]) = Server::start("/", |ports, dir| {
            let mut command = self.command(None, files, dir);
            command.args(["--config", NO_METRICS]);
            for yaml in merged {
                command.arg("--config").arg(format!("yaml:{yaml}"));
            }
            let names = ["OTELCOL_HEALTH", "OTELCOL_GRPC", "OTELCOL_HTTP", "OTELCOL_PROMETHEUS"];
            for (name, port) in names.iter().zip(ports) {
                command.env(name, port.to_string());
            }
            command.env("OTELCOL_FILE", dir.join("otlp.jsonl"));
            command.env("OTELCOL_ARCHIVE", dir.join("otlp"));
            command.envs(variables.iter().copied());
            command
        });
        Collector { server, grpc, http, prometheus }
    }
}

impl Otelcol {
    /// Starts it with the unmodified `collector.yaml` at an address for HTTP, with this file, which it continues.
    pub(crate) fn start_again(&self, http: Option<SocketAddr>, file: &Path) -> Collector {
        let given = [None, None, http, None];
        let (server, [_, grpc, http, prometheus]) = Server::start_at(given, "/", |ports, dir| {
            let mut command = self.command(None, &["collector.yaml"], dir);
            command.args(["--config", NO_METRICS, "--config", ONE_FILE]).env("OTELCOL_FILE", file);
            let names = ["OTELCOL_HEALTH", "OTELCOL_GRPC", "OTELCOL_HTTP", "OTELCOL_PROMETHEUS"];
            for (name, port) in names.iter().zip(ports) {
                command.env(name, port.to_string());
            }
            command
        });
        Collector { server, grpc, http, prometheus }
    }
}

impl Collector {
    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.server.id()
    }

    /// Ends it, so that its files are complete.
    pub(crate) fn stop(mut self) {
        self.server.stop();
    }

    /// The Prometheus scrape page.
    pub(crate) fn page(&self) -> String {
        get(self.prometheus, "/metrics").unwrap()
    }

    /// Stops it and reads its file.
    pub(crate) fn captured(mut self) -> Captured {
        self.server.stop();
        otlp::read(&fs::read_to_string(self.server.dir().join("otlp.jsonl")).unwrap())
    }

    /// Stops it and returns the compressed files of metrics, traces and logs.
    pub(crate) fn archives(mut self) -> [Vec<u8>; 3] {
        self.server.stop();
        ["metrics", "traces", "logs"]
            .map(|signal| fs::read(self.server.dir().join(format!("otlp-{signal}.zst"))).unwrap())
    }
}
