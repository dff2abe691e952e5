//! The metered GPUs: a driver script with GPM and sample rings as on an H100.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fake_nvml::Fake;

use crate::BenchError;
use crate::paths::Paths;

/// Number of GPUs.
pub(super) const GPUS: u32 = 8;
/// Index of the GPU that is busy for 50 ms of every second, and its utilization in percent.
pub(super) const BURST: usize = 7;
pub(super) const BURST_PERCENT: f64 = 5.0;

/// Input-bound training in cycles of twelve seconds.
const STARVED: &str = "
[[device]]
repeat = true
[[device.phase]]
for_ms = 7000
utilization = 96
tensor = 45
dram = 60
power_w = 640
memory_used_mib = 71000
processes = [{ pid = 4711, memory_mib = 70000 }]
[[device.phase]]
for_ms = 5000
utilization = 4
power_w = 130
memory_used_mib = 71000
processes = [{ pid = 4711, memory_mib = 70000 }]
";

const STEADY: &str = "
[[device]]
[[device.phase]]
utilization = 78
tensor = 30
dram = 40
power_w = 520
memory_used_mib = 60000
processes = [{ pid = 4712, memory_mib = 59000 }]
";

const BURSTS: &str = "
[[device]]
[[device.phase]]
burst = { period_ms = 1000, on_ms = 50 }
power_w = 480
memory_used_mib = 30000
processes = [{ pid = 4713, memory_mib = 29000 }]
";

/// Time since the start of the script, long enough for full rings.
const BEFORE: Duration = Duration::from_secs(60);

/// Installs the driver with its script.
pub(super) fn install(paths: &Paths) -> Result<Fake, BenchError> {
    let dir = paths.file("driver");
    fs::create_dir_all(&dir).map_err(BenchError::at(&dir))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let start = now.saturating_sub(BEFORE).as_millis();
    let gpus = [STARVED.repeat(4), STEADY.repeat(3), BURSTS.to_owned()].concat();
    let script = format!("start_unix_ms = {start}\nlength_ms = 600000\n{gpus}");
    Ok(Fake::install(&dir, &script)?)
}
