//! Collectors with the unmodified configuration in `otel-config/collector`: one that receives the exports, and
//! one that scrapes a fleet.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use crate::BenchError;
use crate::paths::Paths;
use crate::process::{Process, free_port};

const CONFIG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/collector");
/// Internal metrics of a Collector use a fixed port.
const NO_METRICS: &str = "yaml:service::telemetry::metrics::level: none";
/// Deadline for startup.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// A running Collector.
pub(crate) struct Otelcol {
    process: Process,
    pub(crate) http: SocketAddr,
    file: PathBuf,
}

impl Otelcol {
    /// Starts the Collector set in `OTELCOL`, as `make bench` does; `None` if unset.
    pub(crate) fn start(paths: &Paths) -> Result<Option<Self>, BenchError> {
        Self::configured(paths, &[], &[])
    }

    /// Starts one with these receivers, in YAML, that sends what they scrape to a gateway.
    pub(crate) fn scraping(
        paths: &Paths,
        receivers: &str,
        gateway: &str,
    ) -> Result<Option<Self>, BenchError> {
        let queue = paths.file("scraping-queue");
        // There may be none.
        _ = fs::remove_dir_all(&queue);
        let config = [format!("{CONFIG}/gateway.yaml"), format!("yaml:{receivers}")];
        let queue = queue.display().to_string();
        Self::configured(paths, &config, &[("OTELCOL_GATEWAY", gateway), ("OTELCOL_QUEUE", &queue)])
    }

    fn configured(
        paths: &Paths,
        further: &[String],
        variables: &[(&str, &str)],
    ) -> Result<Option<Self>, BenchError> {
        let Some(program) = env::var_os("OTELCOL").filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let file = paths.file("live.jsonl");
        // The Collector appends to an existing file. There may be none.
        _ = fs::remove_file(&file);
        let mut command = Command::new(program);
        command.arg("--config").arg(format!("{CONFIG}/collector.yaml"));
        further.iter().for_each(|config| _ = command.args(["--config", config]));
        command.args(["--config", NO_METRICS]).env("OTELCOL_FILE", &file);
        command.envs(variables.iter().copied());
        let http = free_port()?;
        command.env("OTELCOL_HTTP", http.to_string());
        for other in ["OTELCOL_GRPC", "OTELCOL_PROMETHEUS", "OTELCOL_HEALTH"] {
            command.env(other, free_port()?.to_string());
        }
        let process = Process::start(&mut command, &paths.file("otelcol.txt"))?;
        let began = Instant::now();
        while TcpStream::connect(http).is_err() {
            if began.elapsed() > START_TIMEOUT {
                let expected = "a ready Collector";
                return Err(BenchError::Output { path: paths.file("otelcol.txt"), expected });
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(Self { process, http, file }))
    }

    /// Its process ID.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Stops it and returns the file with everything it received.
    pub(crate) fn stop(self) -> Result<PathBuf, BenchError> {
        self.process.terminate()?;
        Ok(self.file)
    }
}
