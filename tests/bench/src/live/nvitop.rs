//! The baseline for live metering: nvitop-exporter at its default interval.

use std::process::Command;

use fake_nvml::Fake;

use crate::BenchError;
use crate::paths::Paths;
use crate::process::{Process, free_port};

/// Starts the one installed by `make bench`; `None` if it is not installed.
pub(super) fn start(paths: &Paths, fake: &Fake) -> Result<Option<Process>, BenchError> {
    let program = paths.python().with_file_name("nvitop-exporter");
    if !program.is_file() {
        return Ok(None);
    }
    let mut command = Command::new(program);
    command.env_clear().args(["--bind-address", "127.0.0.1", "--interval", "1", "--port"]);
    command.arg(free_port()?.port().to_string()).envs(fake.environment());
    Process::start(&mut command, &paths.file("nvitop.txt")).map(Some)
}
