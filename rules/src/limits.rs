//! Resource limits of one evaluation, and the store limiter that enforces those on memory and
//! tables.
//!
//! Fuel decides, the deadline protects. Fuel is counted in instructions and is the same on every
//! machine; the deadline covers machines so slow that the fuel would last too long.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// The epoch's tick, and so how late a deadline can be noticed.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Resource limits of one evaluation: a fresh instance, `configure` and one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Fuel, about one per instruction. Default 500,000,000: about a quarter of a second of plain
    /// computation, a thousand times what a default policy consumes.
    pub fuel: u64,
    /// Wall clock time. Default 1 s: fuel runs out first unless the machine is overloaded.
    pub deadline: Duration,
    /// Linear memory, all memories together, in bytes. Default 64 MiB: a Python interpreter fits.
    pub memory: usize,
    /// Elements per table. Default 65,536: interpreters need about ten thousand.
    pub table_elements: usize,
    /// Core instances. Default 64: a component linked from shared libraries has a few dozen.
    pub instances: usize,
    /// Linear memories. Default 4: one, and one per adapter.
    pub memories: usize,
    /// Tables. Default 32.
    pub tables: usize,
    /// Bytes that a guest may pass to the host in one call: its result, or a log line. Default
    /// 1 MiB: 64 recommendations of full length need a quarter of that.
    pub output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fuel: 500_000_000,
            deadline: Duration::from_secs(1),
            memory: 64 << 20,
            table_elements: 1 << 16,
            instances: 64,
            memories: 4,
            tables: 32,
            output: 1 << 20,
        }
    }
}

impl Limits {
    /// The deadline in ticks, rounded up, plus one for the tick in progress.
    pub(crate) fn deadline_ticks(&self) -> u64 {
        let ticks = self.deadline.as_nanos().div_ceil(TICK.as_nanos());
        u64::try_from(ticks).unwrap_or(u64::MAX / 2).min(u64::MAX / 2) + 1
    }
}

/// Counts what a store holds, and rejects growth beyond the limits.
///
/// Rejected growth ends the evaluation instead of returning −1 to the guest, which hardly any
/// allocator survives. The type of the error then identifies the limit; nothing is guessed from the
/// trap that would follow.
#[derive(Debug)]
pub(crate) struct StoreLimiter {
    limits: Limits,
    memory: usize,
}

impl StoreLimiter {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, memory: 0 }
    }

    /// Linear memory of the store in bytes. It never shrinks, so this is also the peak.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }
}

/// A limit that a guest tried to exceed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitExceeded {
    /// Linear memory.
    #[error("memory limit exceeded: requested {requested} bytes, limit {limit}")]
    Memory {
        /// Bytes, all memories together.
        requested: usize,
        /// The limit.
        limit: usize,
    },
    /// Elements of a table.
    #[error("table limit exceeded: requested {requested} elements, limit {limit}")]
    Table {
        /// Elements.
        requested: usize,
        /// The limit.
        limit: usize,
    },
}

impl ResourceLimiter for StoreLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let requested = self.memory.saturating_add(desired.saturating_sub(current));
        let limit = self.limits.memory;
        if requested > limit {
            return Err(LimitExceeded::Memory { requested, limit }.into());
        }
        // Beyond the memory's own maximum, the guest gets −1 and nothing grows.
        let grows = maximum.is_none_or(|maximum| desired <= maximum);
        if grows {
            self.memory = requested;
        }
        Ok(grows)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let limit = self.limits.table_elements;
        if desired > limit {
            return Err(LimitExceeded::Table { requested: desired, limit }.into());
        }
        Ok(true)
    }

    fn instances(&self) -> usize {
        self.limits.instances
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_is_rounded_up_to_ticks_plus_one() {
        let ticks = |deadline| Limits { deadline, ..Limits::default() }.deadline_ticks();
        assert_eq!(ticks(Duration::from_secs(1)), 1_001);
        assert_eq!(ticks(Duration::from_micros(1_500)), 3);
        assert_eq!(ticks(Duration::from_nanos(1)), 2);
        assert_eq!(ticks(Duration::MAX), u64::MAX / 2 + 1);
    }

    #[test]
    fn memory_may_grow_up_to_its_limit() {
        let limit = Limits::default().memory;
        let mut limiter = StoreLimiter::new(Limits::default());
        assert!(limiter.memory_growing(0, 1_000, None).unwrap());
        assert!(limiter.memory_growing(1_000, limit, Some(limit)).unwrap());
        assert_eq!(limiter.memory(), limit);
        let error = limiter.memory_growing(0, 1, None).unwrap_err();
        let exceeded = LimitExceeded::Memory { requested: limit + 1, limit };
        assert_eq!(error.downcast_ref(), Some(&exceeded));
        assert_eq!(limiter.memory(), limit);
    }

    #[test]
    fn memory_does_not_grow_beyond_its_own_maximum() {
        let mut limiter = StoreLimiter::new(Limits::default());
        assert!(!limiter.memory_growing(0, 1_001, Some(1_000)).unwrap());
        assert_eq!(limiter.memory(), 0);
        assert!(limiter.memory_growing(0, 1_000, Some(1_000)).unwrap());
        assert_eq!(limiter.memory(), 1_000);
    }

    #[test]
    fn tables_may_grow_up_to_their_limit() {
        let limits = Limits::default();
        let limit = limits.table_elements;
        let mut limiter = StoreLimiter::new(limits);
        assert!(limiter.table_growing(0, limit, None).unwrap());
        let error = limiter.table_growing(0, limit + 1, None).unwrap_err();
        let exceeded = LimitExceeded::Table { requested: limit + 1, limit };
        assert_eq!(error.downcast_ref(), Some(&exceeded));
    }

    #[test]
    fn store_parts_are_limited() {
        let limits = Limits { instances: 5, memories: 6, tables: 7, ..Limits::default() };
        let limiter = StoreLimiter::new(limits);
        assert_eq!((limiter.instances(), limiter.memories(), limiter.tables()), (5, 6, 7));
    }

    #[test]
    fn default_limits_match_their_documentation() {
        let limits = Limits::default();
        assert_eq!((limits.memory, limits.table_elements), (67_108_864, 65_536));
        assert_eq!(limits.output, 1_048_576);
    }
}
