//! Runs a real Collector with the configuration in `otel-config/collector` on free ports.
//!
//! `OTELCOL` is its path: `make test-backends` builds one and sets it. Must not depend on what is
//! sent.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::otlp::{self, Captured};
use crate::output::print;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Deadline for the start and the end of a Collector on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// How often a Collector is started on other ports if one was taken.
const PORT_ATTEMPTS: u32 = 5;

/// Internal metrics of a Collector use a fixed port, which two Collectors cannot share.
const NO_METRICS: &str = "yaml:service::telemetry::metrics::level: none";

/// The Collector's executable.
#[derive(Debug)]
pub(crate) struct Otelcol {
    program: PathBuf,
}

/// A running Collector.
#[derive(Debug)]
pub(crate) struct Collector {
    child: Child,
    dir: TempDir,
    pub(crate) grpc: SocketAddr,
    pub(crate) http: SocketAddr,
    prometheus: SocketAddr,
}

impl Otelcol {
    /// The Collector at `OTELCOL`, which `make test-backends` sets; `None` if that is unset, and the
    /// test that calls this is reported as skipped.
    pub(crate) fn find() -> Option<Self> {
        let Some(program) = std::env::var_os("OTELCOL").filter(|path| !path.is_empty()) else {
            let test = thread::current().name().unwrap_or("a test").to_owned();
            print(&format!("\nSKIPPED: {test} (no Collector): run `make test-backends`\n"));
            return None;
        };
        let program = PathBuf::from(program);
        assert!(program.is_file(), "OTELCOL: no file {}", program.display());
        Some(Self { program })
    }

    /// A command with these files of `otel-config/collector` that writes its output to `dir`.
    pub(crate) fn command(&self, subcommand: Option<&str>, files: &[&str], dir: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(dir).stdin(Stdio::null()).args(subcommand);
        for file in files {
            command.arg("--config").arg(format!("{ROOT}/otel-config/collector/{file}"));
        }
        command
    }

    /// Starts it with the unmodified `collector.yaml`.
    pub(crate) fn start(&self) -> Collector {
        self.start_with(&["collector.yaml"], &[])
    }

    /// Starts it with these unmodified files and variables on free ports. Another process may take a port
    /// before the Collector binds it; then it is started again on other ports.
    pub(crate) fn start_with(&self, files: &[&str], variables: &[(&str, &str)]) -> Collector {
        for _ in 0..PORT_ATTEMPTS {
            if let Some(collector) = self.try_start(files, variables) {
                return collector;
            }
        }
        panic!("no free ports in {PORT_ATTEMPTS} attempts");
    }

    /// Starts it once; `None` if a port was taken.
    fn try_start(&self, files: &[&str], variables: &[(&str, &str)]) -> Option<Collector> {
        let dir = tempfile::tempdir().unwrap();
        let [grpc, http, prometheus, health] = free_ports();
        let mut command = self.command(None, files, dir.path());
        command.args(["--config", NO_METRICS]);
        for (variable, address) in [
            ("OTELCOL_GRPC", grpc),
            ("OTELCOL_HTTP", http),
            ("OTELCOL_PROMETHEUS", prometheus),
            ("OTELCOL_HEALTH", health),
        ] {
            command.env(variable, address.to_string());
        }
        command.env("OTELCOL_FILE", dir.path().join("otlp.jsonl"));
        let log = File::create(dir.path().join("log")).unwrap();
        let child = command.envs(variables.iter().copied()).stderr(log).spawn().unwrap();
        let mut collector = Collector { child, dir, grpc, http, prometheus };
        let began = Instant::now();
        loop {
            let healthy = get(health, "/").is_some_and(|page| page.starts_with("HTTP/1.0 200"));
            // In this order: a process that took the health port may answer in its place.
            if collector.child.try_wait().unwrap().is_some() {
                let log = collector.log();
                assert!(log.contains("address already in use"), "cannot start: {log}");
                return None;
            }
            if healthy {
                return Some(collector);
            }
            assert!(began.elapsed() < TIMEOUT, "not ready: {}", collector.log());
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Collector {
    /// The Prometheus scrape page.
    pub(crate) fn page(&self) -> String {
        get(self.prometheus, "/metrics").unwrap()
    }

    /// Its log.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("log")).unwrap_or_default()
    }

    /// Stops it and reads its file.
    pub(crate) fn captured(mut self) -> Captured {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < TIMEOUT, "the Collector does not end: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
        otlp::read(&fs::read_to_string(self.dir.path().join("otlp.jsonl")).unwrap())
    }
}

/// Ends the Collector however the test ends.
impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Local ports that were free a moment ago.
fn free_ports<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// The response of an HTTP server; `None` if there is none.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut response = String::new();
    stream.read_to_string(&mut response).ok()?;
    Some(response)
}
