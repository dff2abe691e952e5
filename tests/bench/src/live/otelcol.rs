//! The Collector that is exported to: `otel-config/collector/collector.yaml` as it stands.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use rustix::process::{Pid, Signal, kill_process};

use super::free_port;
use super::process::Process;
use crate::BenchError;
use crate::place::Place;

const PIPELINE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../otel-config/collector/collector.yaml");
/// Its own metrics would go to a port that is the same for all Collectors.
const NO_METRICS: &str = "yaml:service::telemetry::metrics::level: none";
/// It does not take longer to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// A Collector that runs.
pub(super) struct Otelcol {
    process: Process,
    pub(super) http: SocketAddr,
    file: PathBuf,
}

impl Otelcol {
    /// Starts the one that `OTELCOL` names, as `make bench` does; `None` where it names none.
    pub(super) fn start(place: &Place) -> Result<Option<Self>, BenchError> {
        let Some(program) = env::var_os("OTELCOL").filter(|path| !path.is_empty()) else {
            return Ok(None);
        };
        let file = place.file("live.jsonl");
        // It would write on where the run before ended. There may have been none.
        _ = fs::remove_file(&file);
        let mut command = Command::new(program);
        command.args(["--config", PIPELINE, "--config", NO_METRICS]).env("OTELCOL_FILE", &file);
        let http = free_port()?;
        command.env("OTELCOL_HTTP", http.to_string());
        for other in ["OTELCOL_GRPC", "OTELCOL_PROMETHEUS", "OTELCOL_HEALTH"] {
            command.env(other, free_port()?.to_string());
        }
        let process = Process::start(&mut command, &place.file("otelcol.txt"))?;
        let began = Instant::now();
        while TcpStream::connect(http).is_err() {
            if began.elapsed() > PATIENCE {
                let what = "that it is ready";
                return Err(BenchError::Output { path: place.file("otelcol.txt"), what });
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(Self { process, http, file }))
    }

    /// Stops it; the file that has all that arrived.
    pub(super) fn stop(self) -> Result<PathBuf, BenchError> {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, Signal::TERM).map_err(|source| BenchError::Network(source.into()))?;
        }
        self.process.end()?;
        Ok(self.file)
    }
}
