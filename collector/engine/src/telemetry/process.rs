//! Metrics of this process.

use std::fs;

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;
use rustix::param::clock_ticks_per_second;

/// Linux's status of this process.
const STATUS: &str = "/proc/self/status";

/// Linux's statistics of this process, on one line.
const STAT: &str = "/proc/self/stat";

/// CPU modes and the positions of their times in [`STAT`] after the name of the executable, which
/// can contain spaces.
const CPU_MODES: [(&str, usize); 2] = [("user", 11), ("system", 12)];

pub(super) fn watch(meter: &Meter) {
    meter
        .f64_observable_counter("process.cpu.time")
        .with_unit("s")
        .with_description("CPU time of all threads, by mode")
        .with_callback(|observer| {
            let stat = fs::read_to_string(STAT).unwrap_or_default();
            for (mode, position) in CPU_MODES {
                if let Some(ticks) = cpu_ticks(&stat, position) {
                    let seconds = ticks as f64 / clock_ticks_per_second() as f64;
                    observer.observe(seconds, &[KeyValue::new("cpu.mode", mode)]);
                }
            }
        })
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

/// CPU time in clock ticks; `None` if it is missing or invalid.
fn cpu_ticks(stat: &str, position: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(position)?.parse().ok()
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
    fn cpu_time_is_read_per_mode_after_any_executable_name() {
        let stat = "7 (a b) c)) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 0 0 20 0 1 0 9 1 2";
        let of = |stat| CPU_MODES.map(|(_, position)| cpu_ticks(stat, position));
        assert_eq!(of(stat), [Some(150), Some(25)]);
        assert_eq!(of("7 (a) S 1"), [None, None]);
        assert_eq!(of(""), [None, None]);
    }

    #[test]
    fn resident_memory_is_in_bytes_or_missing() {
        assert_eq!(resident("VmHWM:\t  9 kB\nVmRSS:\t    7788 kB\n"), Some(7_974_912));
        for value in ["", "VmRSS:\n", "VmRSS: 12\n", "VmRSS: many kB\n"] {
            assert_eq!(resident(value), None, "{value}");
        }
    }
}
