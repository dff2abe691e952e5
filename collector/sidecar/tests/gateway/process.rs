//! Runs the gateway in an environment of its own.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phasemeter_otlp::delivery::{Client, Config, Destination};
use serde_json::Value;
use tempfile::TempDir;

use crate::mock_backend::MockBackend;

/// A script of the fake driver.
pub(crate) const ONE_GPU: &str = "[[device]]";

const TERM: i32 = 15;

/// A running gateway that bills $3.60 per GPU-hour once it is stopped.
pub(crate) struct Gateway {
    child: Child,
    address: String,
    /// The address for probes.
    probes: Option<String>,
    log: JoinHandle<String>,
    directory: TempDir,
}

/// The binary, with a backend over gRPC.
pub(crate) fn phasemeter(backend: &MockBackend) -> Command {
    phasemeter_to(&format!("http://{}", backend.address))
}

fn phasemeter_to(backend: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().env("PATH", "/usr/bin:/bin").stdin(Stdio::null());
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").env("PHASEMETER_METRICS", "all");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", backend);
    // A backend of a test answers when the test says so. What is sent again after a timeout arrives twice.
    command.env("OTEL_EXPORTER_OTLP_TIMEOUT", "600000");
    command
}

impl Gateway {
    /// Starts it on a free port.
    pub(crate) fn start(backend: &MockBackend, options: &[&str]) -> Self {
        Self::start_at(&format!("http://{}", backend.address), options)
    }

    /// Starts it before the backend at this endpoint.
    pub(crate) fn start_at(backend: &str, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = phasemeter_to(backend);
        command.arg("gateway");
        if !options.contains(&"--config") {
            command.args(["--price", "3.6"]);
        }
        if !options.iter().any(|option| option.starts_with("--listen")) {
            command.args(["--listen", "127.0.0.1:0"]);
        }
        if !options.contains(&"--hold") {
            command.args(["--hold", "3600"]);
        }
        if !options.contains(&"--max-age") {
            // Readings of tests have fixed times.
            command.args(["--max-age", "315360000"]);
        }
        command.args(["--no-default-policies", "--report"]);
        command.arg(directory.path().join("report.json")).args(options);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut log = String::new();
        let address = loop {
            let start = log.len();
            assert!(lines.read_line(&mut log).unwrap() > 0, "the gateway ended: {log}");
            if let Some((_, address)) = log[start..].split_once("receiving OTLP on ") {
                break address.split_whitespace().next().unwrap().to_owned();
            }
        };
        let probes = log.split_once("/metrics on ").map(|(_, rest)| rest);
        let probes = probes.map(|rest| rest.split_whitespace().next().unwrap().to_owned());
        let log = thread::spawn(move || rest(log, lines));
        Self { child, address, probes, log, directory }
    }

    /// Its endpoint.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Its address for probes.
    pub(crate) fn probes(&self) -> &str {
        self.probes.as_deref().unwrap()
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Samples its memory until it ends; returns the most that it had, in KiB, without the pages of the program file:
    /// those of a test build are many, and are released now and then.
    pub(crate) fn peak_kib(&self) -> JoinHandle<u64> {
        let status = format!("/proc/{}/status", self.id());
        let sample = move || {
            let status = std::fs::read_to_string(&status).ok()?;
            let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
            value.trim().trim_end_matches(" kB").parse().ok()
        };
        let wait = || thread::sleep(Duration::from_millis(5));
        thread::spawn(move || iter::from_fn(sample).inspect(|_| wait()).max().unwrap())
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it; returns its exit status and its report.
    pub(crate) fn stop(self) -> (ExitStatus, Value) {
        let (status, report, _) = self.stop_with_log();
        (status, report)
    }

    /// Stops it; returns its log too.
    pub(crate) fn stop_with_log(self) -> (ExitStatus, Value, String) {
        phasemeter_process::send(self.child.id(), TERM).unwrap();
        self.end()
    }

    /// The reports that it has written so far, by their names.
    pub(crate) fn reports(&self) -> BTreeMap<String, Value> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let entries = entries.map(|entry| entry.unwrap().path());
        let reports = entries.filter(|path| path.extension().is_some_and(|it| it == "json"));
        let read = |path: PathBuf| {
            let report = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            (path.display().to_string(), report)
        };
        reports.map(read).collect()
    }

    /// Stops it; returns the reports of its periods.
    pub(crate) fn stop_with_periods(mut self) -> BTreeMap<String, Value> {
        phasemeter_process::send(self.child.id(), TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.reports()
    }

    /// Waits until it has ended by itself; returns its log too.
    pub(crate) fn end(mut self) -> (ExitStatus, Value, String) {
        let status = self.child.wait().unwrap();
        let log = self.log.join().unwrap();
        let report = std::fs::read(self.directory.path().join("report.json"));
        let report = report.unwrap_or_else(|error| panic!("{error}: {log}"));
        (status, serde_json::from_slice(&report).unwrap(), log)
    }
}

fn rest(mut log: String, mut lines: BufReader<ChildStderr>) -> String {
    while lines.read_line(&mut log).unwrap() > 0 {}
    log
}

/// The report of an audit of a file with this name and content, at the price of the gateway.
pub(crate) fn audit(name: &str, content: &str) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, content).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().args(["audit", "--format", "json", "--price", "3.6"]);
    let output = command.arg("--no-default-policies").arg(path).output().unwrap();
    let problem = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {problem}"))
}

/// The exit status and the log of a gateway that does not start.
pub(crate) fn rejection(endpoint: &str, options: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    command.arg("gateway").args(options);
    if !options.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

/// A client that sends to this endpoint over gRPC.
pub(crate) fn client(endpoint: &str) -> Client {
    client_of(endpoint, "grpc", "none")
}

/// A client that sends to this endpoint by a protocol, with a compression.
pub(crate) fn client_of(endpoint: &str, protocol: &str, compression: &str) -> Client {
    let variable = |name: &str| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.to_owned()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some(protocol.to_owned()),
        "OTEL_EXPORTER_OTLP_COMPRESSION" => Some(compression.to_owned()),
        _ => None,
    };
    let mut config = Config::read(Destination::Environment, variable).unwrap().unwrap();
    config.queue_bytes = u64::MAX;
    Client::start(&config).unwrap()
}
