//! Interprets memory use: in use, preallocated, or rising.

use crate::Gpu;
use crate::column::{mean, observed, peak};

/// Parts whose means must all rise. An assumption.
const PARTS: usize = 8;

/// The least rise, as a share of the memory. An assumption.
const RISE: f64 = 0.1;

/// The recent parts of the window that are looked at, if all of it does not rise: earlier low use must not
/// hide a rise. None is shorter than half an hour.
const RECENT: [usize; 3] = [2, 4, 8];

/// The shortest of these parts, in seconds. An assumption.
const MIN_RECENT_SECONDS: f64 = 1_800.0;

/// Share of the memory before a crash: a process that runs out of memory ends, and its successor
/// starts over. An assumption.
const FULL: f64 = 0.8;

/// Most of what is left of it after a crash. An assumption.
const LEFT: f64 = 0.5;

/// How a GPU uses its memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// Not recorded.
    Unknown,
    /// At most this share of the memory is in use.
    InUse(f64),
    /// A large block of constant size: how much of it is in use is unknown.
    Pool(f64),
    /// It rises all the time, or has risen without a pause since it was lower.
    Rising {
        /// The last share in use.
        share: f64,
        /// Seconds until it is full, at this rate.
        seconds_left: f64,
    },
}

impl Memory {
    /// Returns the share in use, if it is known and does not rise.
    #[must_use]
    pub fn in_use(self) -> Option<f64> {
        if let Self::InUse(share) = self { Some(share) } else { None }
    }

    /// Returns whether it is a large block of constant size.
    #[must_use]
    pub fn is_pool(self) -> bool {
        matches!(self, Self::Pool(_))
    }

    /// Returns whether it rises all the time.
    #[must_use]
    pub fn is_rising(self) -> bool {
        matches!(self, Self::Rising { .. })
    }
}

impl Gpu {
    /// Returns the share of the memory in a preallocated block, of which it is unknown how much is in use.
    #[must_use]
    pub fn memory_pool(&self) -> Option<f64> {
        self.metric("memory.pool")
    }

    /// Returns how the GPU uses its memory; `step_seconds` is that of the window.
    #[must_use]
    pub fn memory_use(&self, step_seconds: f64) -> Memory {
        let total = self.memory_total_bytes.filter(|total| *total > 0);
        let Some((total, peak)) = total.zip(self.memory_peak()) else { return Memory::Unknown };
        let total = total as f64;
        if let Some(rising) = rising(&self.memory, total, step_seconds) {
            return rising;
        }
        self.memory_pool().map_or(Memory::InUse(peak / total), Memory::Pool)
    }
}

/// Looks for a rise in all of the column since memory was last full, then in its recent parts.
fn rising(column: &[f64], total: f64, step_seconds: f64) -> Option<Memory> {
    let column = column.get(last_crash(column, total)..)?;
    rise(column, &[], total, step_seconds).or_else(|| {
        let parts = RECENT.into_iter().map(|part| column.len() - column.len() / part);
        let long = parts
            .filter(|start| (column.len() - start) as f64 * step_seconds >= MIN_RECENT_SECONDS);
        long.map(|start| column.split_at(start))
            .find_map(|(earlier, recent)| rise(recent, earlier, total, step_seconds))
    })
}

/// The point after memory was full and dropped for the last time; 0 if it never did.
fn last_crash(column: &[f64], total: f64) -> usize {
    let is_crash = |pair: &[f64]| pair[0] >= FULL * total && pair[1] <= LEFT * pair[0];
    // The point of the drop may be of both processes.
    column.windows(2).rposition(is_crash).map_or(0, |point| (point + 2).min(column.len()))
}

/// The rise over a column, to more than was in use earlier.
fn rise(column: &[f64], earlier: &[f64], total: f64, step_seconds: f64) -> Option<Memory> {
    let part = column.len() / PARTS;
    if part == 0 {
        return None;
    }
    let mean_of = |number: usize| mean(&column[number * part..(number + 1) * part]);
    // Most columns do not rise: their ends tell.
    let (first, last) = (mean_of(0)?, mean_of(PARTS - 1)?);
    // Each part must rise by a good part of the mean rise: no steps, no saturation.
    let rise = (last - first) / (PARTS - 1) as f64;
    if last - first < RISE * total || peak(earlier).is_some_and(|peak| peak > first + rise) {
        return None;
    }
    let means: Option<Vec<_>> = (0..PARTS).map(mean_of).collect();
    if !means?.windows(2).all(|pair| pair[1] - pair[0] >= 0.5 * rise) {
        return None;
    }
    let now = observed(column).last()?;
    let per_second = rise / (part as f64 * step_seconds);
    let seconds_left = f64::max(total - now, 0.0) / per_second;
    Some(Memory::Rising { share: now / total, seconds_left })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{steady, with_memory};

    const GIB: f64 = (1_u64 << 30) as f64;

    fn with(memory: impl Fn(usize) -> f64) -> Memory {
        let gpu = steady(600, 0.5);
        let memory = (0..gpu.utilization.len()).map(|point| memory(point) * GIB).collect();
        Gpu { memory, ..gpu }.memory_use(1.0)
    }

    #[test]
    fn memory_is_in_use_unless_it_is_a_pool() {
        let pool = with_memory(steady(600, 0.5), 60.0);
        assert_eq!(pool.memory_use(1.0), Memory::Pool(pool.memory_share().unwrap()));
        let small = with_memory(steady(600, 0.5), 20.0);
        assert_eq!(small.memory_use(1.0), Memory::InUse(small.memory_share().unwrap()));
        assert!(with(|point| 60.0 + (point % 7) as f64).in_use().is_some());
        assert_eq!(steady(600, 0.5).memory_use(1.0), Memory::Unknown);
    }

    #[test]
    fn only_continuous_rise_is_rising() {
        let Memory::Rising { share, seconds_left } = with(|point| 41.0 + point as f64 / 20.0)
        else {
            panic!("not rising")
        };
        assert!(
            (share - 0.89).abs() < 0.01 && (seconds_left - 174.0).abs() < 5.0,
            "{seconds_left}"
        );
        assert!(!with(|point| if point < 300 { 5.0 } else { 60.0 }).is_rising());
        assert!(!with(|point| 40.0 + (point % 100) as f64 / 10.0).is_rising());
        assert!(!with(|point| 40.0 + point as f64 / 200.0).is_rising());
    }

    #[test]
    fn rise_that_ended_in_a_crash_does_not_hide_the_next() {
        let leak = |length: usize| {
            move |point: usize| 20.0 + (point % length) as f64 * 58.0 / length as f64
        };
        assert!(with(leak(220)).is_rising());
        let short = |point: usize| 20.0 + (point % 220) as f64 * 0.1;
        assert!(!with(short).is_rising(), "it was never full");
    }

    #[test]
    fn earlier_low_use_does_not_hide_a_rise() {
        let with = |step_seconds, memory: &dyn Fn(usize) -> f64| {
            let gpu = steady(600, 0.5);
            let memory = (0..600).map(|point| memory(point) * GIB).collect();
            Gpu { memory, ..gpu }.memory_use(step_seconds)
        };
        // A sixth of the window, as the last four hours of a day.
        let late = |point: usize| 20.0 + point.saturating_sub(500) as f64 * 0.56;
        let Memory::Rising { share, seconds_left } = with(144.0, &late) else {
            panic!("not rising")
        };
        assert!((share - 0.95).abs() < 0.01, "{share}");
        assert!((seconds_left / 60.0 - 17.0).abs() < 3.0, "{seconds_left}");
        assert!(!with(4.0, &late).is_rising(), "five minutes are no trend");
        let cycles = |point: usize| 20.0 + (point % 100) as f64 * 0.4;
        assert!(!with(144.0, &cycles).is_rising(), "it was as full before");
        let grown = |point: usize| if point < 560 { 20.0 } else { 60.0 };
        assert!(!with(144.0, &grown).is_rising(), "a step, without a trend");
    }
}
