//! A real Collector that runs what `otel-config/collector` holds, on ports of its own.
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

use crate::otlp::{self, Told};
use crate::shown::show;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// No Collector takes longer to be ready, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Collector's own metrics go to a port that is the same for all; two of them would meet there.
const NO_METRICS: &str = "yaml:service::telemetry::metrics::level: none";

/// A program to start Collectors with.
#[derive(Debug)]
pub(crate) struct Otelcol {
    program: PathBuf,
}

/// A Collector that runs until it is stopped.
#[derive(Debug)]
pub(crate) struct Collector {
    child: Child,
    folder: TempDir,
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
            show(&format!("\nSKIPPED: {test} (no Collector): run `make test-backends`\n"));
            return None;
        };
        let program = PathBuf::from(program);
        assert!(program.is_file(), "OTELCOL: no file {}", program.display());
        Some(Self { program })
    }

    /// It with these files of `otel-config/collector`; what it writes goes into `folder`.
    pub(crate) fn command(
        &self,
        subcommand: Option<&str>,
        files: &[&str],
        folder: &Path,
    ) -> Command {
        let mut command = Command::new(&self.program);
        command.env_clear().current_dir(folder).stdin(Stdio::null()).args(subcommand);
        for file in files {
            command.arg("--config").arg(format!("{ROOT}/otel-config/collector/{file}"));
        }
        command
    }

    /// Starts `collector.yaml` as it stands.
    pub(crate) fn start(&self) -> Collector {
        self.start_with(&["collector.yaml"], &[])
    }

    /// Starts these files as they stand; what is not said by `variables` is free ports and a file.
    pub(crate) fn start_with(&self, files: &[&str], variables: &[(&str, &str)]) -> Collector {
        let folder = tempfile::tempdir().unwrap();
        let [grpc, http, prometheus, health] = free_ports();
        let mut command = self.command(None, files, folder.path());
        command.args(["--config", NO_METRICS]);
        for (variable, address) in [
            ("OTELCOL_GRPC", grpc),
            ("OTELCOL_HTTP", http),
            ("OTELCOL_PROMETHEUS", prometheus),
            ("OTELCOL_HEALTH", health),
        ] {
            command.env(variable, address.to_string());
        }
        command.env("OTELCOL_FILE", folder.path().join("otlp.jsonl"));
        let log = File::create(folder.path().join("log")).unwrap();
        let child = command.envs(variables.iter().copied()).stderr(log).spawn().unwrap();
        let mut collector = Collector { child, folder, grpc, http, prometheus };
        let began = Instant::now();
        while !get(health, "/").is_some_and(|answer| answer.starts_with("HTTP/1.0 200")) {
            let ended = collector.child.try_wait().unwrap();
            let waited = began.elapsed() > PATIENCE;
            assert!(ended.is_none() && !waited, "it does not start: {}", collector.log());
            thread::sleep(Duration::from_millis(20));
        }
        collector
    }
}

impl Collector {
    /// The page that Prometheus scrapes.
    pub(crate) fn page(&self) -> String {
        get(self.prometheus, "/metrics").unwrap()
    }

    /// What it has said of itself.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Stops it; what stands in its file.
    pub(crate) fn told(mut self) -> Told {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let began = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < PATIENCE, "it does not end: {}", self.log());
            thread::sleep(Duration::from_millis(20));
        }
        otlp::read(&fs::read_to_string(self.folder.path().join("otlp.jsonl")).unwrap())
    }
}

/// However a test ends, its Collector ends with it.
impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports of this machine that were free a moment ago.
fn free_ports<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

/// The whole answer of an HTTP server; `None` where nobody listens.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}
