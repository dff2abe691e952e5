//! A queue with batches: random arrivals, one GPU, and a batcher that waits for more requests.
//!
//! Deterministic: equal seeds give equal results.

/// A batcher in front of one GPU; times in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Batcher {
    /// Requests per second, at random times.
    pub arrivals: f64,
    /// How long the first request of a batch waits for others.
    pub wait: f64,
    /// The most requests in a batch.
    pub max_batch: usize,
    /// Time of a batch without its items.
    pub batch_time: f64,
    /// Additional time per item.
    pub item_time: f64,
}

/// What happened to the requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// Requests per batch.
    pub mean_batch: f64,
    /// The fraction of time that the GPU worked.
    pub utilization: f64,
    /// Median latency in seconds.
    pub p50: f64,
    /// 99th percentile of the latency.
    pub p99: f64,
    /// The fraction of requests above the budget.
    pub late: f64,
}

impl Batcher {
    /// Requests per second that full batches serve.
    #[must_use]
    pub fn capacity(&self) -> f64 {
        self.max_batch as f64 / self.service(self.max_batch)
    }

    /// The time of a batch of this size.
    #[must_use]
    pub fn service(&self, size: usize) -> f64 {
        self.batch_time + self.item_time * size as f64
    }

    /// Serves this many requests and counts those that take longer than `budget`.
    #[must_use]
    pub fn simulate(&self, requests: usize, seed: u64, budget: f64) -> Served {
        let arrivals = arrivals(self.arrivals, requests, seed);
        let mut latencies = Vec::with_capacity(arrivals.len());
        let (mut free, mut worked, mut batches) = (0.0_f64, 0.0, 0_u32);
        let mut rest = arrivals.as_slice();
        while let Some(&first) = rest.first() {
            // Full, or the wait is over; but not before the GPU is free.
            let full = rest.get(self.max_batch.saturating_sub(1)).copied().unwrap_or(f64::MAX);
            let start = free.max(full.min(first + self.wait));
            let waiting = rest.iter().take(self.max_batch).take_while(|&&at| at <= start).count();
            let (batch, later) = rest.split_at(waiting.max(1));
            let service = self.service(batch.len());
            free = start + service;
            worked += service;
            batches += 1;
            latencies.extend(batch.iter().map(|at| free - at));
            rest = later;
        }
        latencies.sort_by(f64::total_cmp);
        let late = latencies.iter().filter(|&&latency| latency > budget).count();
        Served {
            mean_batch: latencies.len() as f64 / f64::from(batches.max(1)),
            utilization: worked / free.max(f64::MIN_POSITIVE),
            p50: percentile(&latencies, 50),
            p99: percentile(&latencies, 99),
            late: late as f64 / latencies.len().max(1) as f64,
        }
    }
}

/// The smallest value with at least this percentage of values at or below it.
fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

/// Times of a Poisson process.
fn arrivals(per_second: f64, count: usize, seed: u64) -> Vec<f64> {
    let mut state = seed;
    let mut at = 0.0;
    let mut next = || {
        // SplitMix64, to 53 bits in (0, 1].
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let uniform = (((bits ^ (bits >> 31)) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        at -= uniform.ln() / per_second;
        at
    };
    (0..count).map(|_| next()).collect()
}
