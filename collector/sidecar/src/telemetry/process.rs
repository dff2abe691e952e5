//! Metrics of this process.

use std::fs;

use opentelemetry::metrics::Meter;
use rustix::time::{ClockId, clock_gettime};

/// Linux's status of this process.
const STATUS: &str = "/proc/self/status";

pub(super) fn watch(meter: &Meter) {
    meter
        .f64_observable_counter("process.cpu.time")
        .with_unit("s")
        .with_description("CPU time of all threads")
        .with_callback(|observer| observer.observe(cpu_seconds(), &[]))
        .build();
    meter
        .i64_observable_up_down_counter("process.memory.usage")
        .with_unit("By")
        .with_description("Resident memory")
        .with_callback(|observer| {
            let status = fs::read_to_string(STATUS).unwrap_or_default();
            if let Some(resident) = resident(&status) {
                observer.observe(resident, &[]);
            }
        })
        .build();
}

fn cpu_seconds() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    std::time::Duration::try_from(spent).map_or(0.0, |spent| spent.as_secs_f64())
}

/// Resident memory in bytes; `None` if it is missing or invalid.
fn resident(status: &str) -> Option<i64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix(" kB")?.parse::<i64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_in_bytes_or_missing() {
        assert_eq!(resident("VmHWM:\t  9 kB\nVmRSS:\t    7788 kB\n"), Some(7_974_912));
        for value in ["", "VmRSS:\n", "VmRSS: 12\n", "VmRSS: many kB\n"] {
            assert_eq!(resident(value), None, "{value}");
        }
    }
}
