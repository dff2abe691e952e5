//! What live metering is compared with: nvitop-exporter at the interval that it has by default.

use std::process::Command;

use fake_nvml::Fake;

use super::free_port;
use super::process::Process;
use crate::BenchError;
use crate::place::Place;

/// Starts the one that `make bench` brought; `None` where it could not.
pub(super) fn start(place: &Place, fake: &Fake) -> Result<Option<Process>, BenchError> {
    let program = place.python().with_file_name("nvitop-exporter");
    if !program.is_file() {
        return Ok(None);
    }
    let mut command = Command::new(program);
    command.env_clear().args(["--bind-address", "127.0.0.1", "--interval", "1", "--port"]);
    command.arg(free_port()?.port().to_string()).envs(fake.environment());
    Process::start(&mut command, &place.file("nvitop.txt")).map(Some)
}
