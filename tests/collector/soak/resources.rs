//! Memory and CPU time of the gateway over the time, beside those of the scraping Collector.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use crate::output::print;

/// Measurements in the whole time.
const MEASUREMENTS: u32 = 40;

/// The gateway is measured until the end.
pub(super) struct Watch {
    gateway: u32,
    length: Duration,
    began: Instant,
    /// KiB.
    resident: Vec<u64>,
}

impl Watch {
    pub(super) fn start(gateway: u32, length: Duration) -> Self {
        Self { gateway, length, began: Instant::now(), resident: Vec::new() }
    }

    /// Measures until this part of the time has passed.
    pub(super) fn until(&mut self, part: f64, collector: u32) {
        let end = self.length.mul_f64(part);
        let every = self.length / MEASUREMENTS;
        loop {
            let done = u32::try_from(self.resident.len()).unwrap();
            let next = every * (done + 1);
            let until = self.began + next.min(end);
            thread::sleep(until.saturating_duration_since(Instant::now()));
            if next > end {
                return;
            }
            let resident = resident(self.gateway);
            self.resident.push(resident);
            print(&format!(
                "{:>5} s: gateway {:.1} MiB, {:.1} s of CPU; Collector {:.1} MiB, {:.1} s of CPU",
                next.as_secs(),
                resident as f64 / 1_024.0,
                cpu(self.gateway),
                self::resident(collector) as f64 / 1_024.0,
                cpu(collector),
            ));
        }
    }

    /// The peak of the last quarter is at most a tenth above that of the second.
    pub(super) fn assert_flat(&self) {
        let quarter = self.resident.len() / 4;
        let peak = |from: usize| self.resident[from..from + quarter].iter().max().unwrap();
        let (early, late) = (peak(quarter), peak(self.resident.len() - quarter));
        assert!(
            late * 10 <= early * 11,
            "the memory of the gateway grows: {:?} KiB",
            self.resident
        );
    }
}

/// The resident memory of a process in KiB, without pages of its file, which it releases now and then.
pub(crate) fn resident(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// The CPU time of a process in seconds.
pub(crate) fn cpu(pid: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name of the program is in parentheses, and may contain spaces.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
    ticks.sum::<u64>() as f64 / rustix::param::clock_ticks_per_second() as f64
}
