//! Resource limits of one evaluation, and the store limiter that enforces those on memory and
//! tables.
//!
//! Fuel decides, the deadline protects. Fuel is counted in instructions and is the same on every
//! machine; the deadline covers machines so slow that the fuel would last too long. Must not depend
//! on what is evaluated.

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
