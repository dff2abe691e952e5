//! A gateway whose report is read once it has stopped.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::delivery::{Client, Config, Destination};
use serde_json::Value;
use tempfile::TempDir;

/// Deadline of an export on a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

const TERM: i32 = 15;

/// Lines of its log that are kept for an assertion that fails.
const LOG_LINES: usize = 60;

/// The binary, with metrics sent to this endpoint.
pub(crate) fn phasemeter(endpoint: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
    command.env_clear().stdin(Stdio::null());
    command.env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", endpoint);
    command.env("OTEL_TRACES_EXPORTER", "none").env("OTEL_LOGS_EXPORTER", "none");
    command
}

/// A gateway, stopped by [`Gateway::stop`].
pub(crate) struct Gateway {
    child: Child,
    pub(crate) address: String,
    directory: TempDir,
    /// Reads its log; returns the end of it.
    log: JoinHandle<VecDeque<String>>,
}

impl Gateway {
    /// Starts it at $3.60 per hour with these options.
    pub(crate) fn start(mut command: Command, options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        command.args(["gateway", "--listen=127.0.0.1:0", "--price=3.6"]).args(options);
        command.args(["--no-default-policies", "--report"]);
        command.arg(directory.path().join("report.json")).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = loop {
            let line = log.next().unwrap().unwrap();
            if let Some((_, address)) = line.split_once("receiving OTLP on ") {
                break address.split_whitespace().next().unwrap().to_owned();
            }
        };
        let log = thread::spawn(move || {
            let mut end = VecDeque::new();
            for line in log.map_while(Result::ok) {
                end.push_back(line);
                end.drain(..end.len().saturating_sub(LOG_LINES));
            }
            end
        });
        Self { child, address, directory, log }
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it these requests over gRPC, in order.
    pub(crate) fn send(&self, requests: impl IntoIterator<Item = EncodedRequest>) {
        let endpoint = format!("http://{}", self.address);
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(endpoint.clone()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
            _ => None,
        };
        let config = Config::read(Destination::Environment, variable).unwrap().unwrap();
        let client = Client::start(&config).unwrap();
        requests.into_iter().for_each(|request| client.enqueue_waiting(request, TIMEOUT));
        assert!(client.flush(TIMEOUT).all_sent());
    }

    /// Stops it, and returns its report.
    pub(crate) fn stop(mut self) -> Value {
        phasemeter_process::send(self.child.id(), TERM).unwrap();
        let status = self.child.wait().unwrap();
        let log = self.log.join().unwrap();
        assert!(status.success(), "{status}: {log:#?}");
        let report = fs::read(self.directory.path().join("report.json")).unwrap();
        serde_json::from_slice(&report).unwrap()
    }
}
