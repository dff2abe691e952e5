//! Fleets whose hosts and GPUs come, go and return; and until when each GPU is billed, checked GPU by GPU
//! against all others.

use crate::{ORACLE_ACCOUNTS, Oracle, Row, stale_after};

/// Milliseconds that others go on for after a host is gone.
const GONE: u64 = 600_000;

/// Milliseconds between two readings of a random fleet.
const TICK: u64 = 15_000;

/// The readings of a GPU, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// Its host.
    pub host: &'a str,
    /// The last reading.
    pub last: u64,
    /// How long it represents the present.
    pub stale_after: u64,
}

/// The end of each GPU: that of the run, unless its host has gone.
pub fn ends(gpus: &[Listed<'_>]) -> Vec<u64> {
    let end = gpus.iter().map(|gpu| gpu.last).max().unwrap();
    let mut ends = Vec::new();
    for gpu in gpus {
        let mut host = gpu.last;
        let mut patience = GONE;
        for other in gpus {
            if other.host == gpu.host {
                host = host.max(other.last);
                patience = patience.max(other.stale_after);
            }
        }
        ends.push(if host + patience <= end { host } else { end });
    }
    ends
}

/// A GPU of a fleet.
#[derive(Clone, Debug)]
pub struct FleetGpu {
    pub host: String,
    pub index: usize,
    pub uuid: String,
    /// In time order.
    pub rows: Vec<Row>,
}

/// What is expected of a GPU, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedGpu {
    pub start: u64,
    pub end: u64,
    /// In the order of [`ORACLE_ACCOUNTS`].
    pub time: [u64; 7],
    /// The part of the unobserved time after its last reading.
    pub vanished: u64,
    /// From its end to that of the run.
    pub absent: u64,
}

/// What is expected of each GPU.
pub fn expected(gpus: &[FleetGpu]) -> Vec<ExpectedGpu> {
    let listed = gpus.iter().map(|gpu| Listed {
        host: &gpu.host,
        last: gpu.rows[gpu.rows.len() - 1].at,
        stale_after: stale_after(&gpu.rows),
    });
    let listed: Vec<_> = listed.collect();
    let run = listed.iter().map(|gpu| gpu.last).max().unwrap();
    let all = gpus.iter().zip(&listed).zip(ends(&listed));
    all.map(|((gpu, listed), end)| ExpectedGpu {
        start: gpu.rows[0].at,
        end,
        time: ORACLE_ACCOUNTS.map(|account| Oracle::until(&gpu.rows, end).millis_in(account)),
        vanished: end.saturating_sub(listed.last + listed.stale_after),
        absent: run - end,
    })
    .collect()
}

/// A fleet of a few hosts from `start` on. Each comes and goes, some return, and some of their GPUs do.
pub fn random(seed: u64, start: u64) -> Vec<FleetGpu> {
    let mut random = Random(seed);
    let ticks = 60 + random.below(120);
    let mut gpus = Vec::new();
    for host in 0..1 + random.below(4) {
        let listed = random.stays(ticks);
        for index in 0..1 + random.below(3) as usize {
            let own = random.stays(ticks);
            let mut rows = Vec::new();
            for tick in 0..ticks {
                let is_in = |stays: &[(u64, u64)]| {
                    stays.iter().any(|(from, to)| (*from..*to).contains(&tick))
                };
                if is_in(&listed) && is_in(&own) {
                    let ppm = [0, 50, 80, 95, 100][random.below(5) as usize] * 10_000;
                    rows.push(Row { at: start + tick * TICK, ppm: Some(ppm), held: None });
                }
            }
            // Intervals tell how long a reading represents the present.
            if rows.len() > 8 {
                let uuid = format!("GPU-5a9a3bc4-7a6b-4e5b-9d3e-00000000{host:02}{index:02}");
                gpus.push(FleetGpu { host: format!("node{host}"), index, uuid, rows });
            }
        }
    }
    if gpus.is_empty() { self::random(seed + 1_000_000, start) } else { gpus }
}

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }

    /// The ticks in which something is there: all of them, until it goes, or until it goes and from when it
    /// returns, after a time that is often about ten minutes.
    fn stays(&mut self, ticks: u64) -> Vec<(u64, u64)> {
        let first = if self.below(3) == 0 { self.below(ticks / 2) } else { 0 };
        let last = first + 1 + self.below(ticks - first);
        match self.below(4) {
            0 | 1 => vec![(first, ticks)],
            2 => vec![(first, last)],
            _ => vec![(first, last), (last + 2 + self.below(60), ticks)],
        }
    }
}
