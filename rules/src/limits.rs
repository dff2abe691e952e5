//! What a run may use up, and the guard that holds it to that.
//!
//! Fuel decides, the deadline protects: fuel is counted in instructions and is the same on every
//! machine; the deadline is for a machine so slow that fuel would take too long. This room must
//! not know what runs.

use std::time::Duration;

use wasmtime::ResourceLimiter;

/// How long the tick is that deadlines are counted in, and so how late a kill may come.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// What one run of one policy may use up. A run is a fresh instance, its settings and one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Instructions, roughly. 500,000,000 by default: about a quarter of a second of honest work,
    /// a thousand times what a shipped policy takes.
    pub fuel: u64,
    /// Wall clock. 1 s by default: fuel runs out first on any machine that is not in trouble.
    pub deadline: Duration,
    /// All linear memory together, in bytes. 64 MiB by default: a Python interpreter fits.
    pub memory: usize,
    /// The elements of each table. 65,536 by default: interpreters have some ten thousand.
    pub table_elements: usize,
    /// Core instances. 64 by default: a component linked from shared libraries has a few dozen.
    pub instances: usize,
    /// Linear memories. 4 by default: one, and one for each adapter.
    pub memories: usize,
    /// Tables. 32 by default.
    pub tables: usize,
    /// Bytes that a guest hands over in one call, answer or log line. 1 MiB by default: 64
    /// recommendations of full length are a quarter of it.
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
    /// The deadline in ticks. One more than fits into it: the tick in progress is already partly
    /// over.
    pub(crate) fn ticks(&self) -> u64 {
        let ticks = self.deadline.as_nanos().div_ceil(TICK.as_nanos());
        u64::try_from(ticks).unwrap_or(u64::MAX / 2).min(u64::MAX / 2) + 1
    }
}

/// Counts what a store holds, and refuses what is above the limits.
///
/// Growth that is refused ends the run, rather than showing the guest a −1 that hardly any
/// allocator survives: so the reason is told by the type of the error, not guessed from the trap
/// that would follow.
#[derive(Debug)]
pub(crate) struct Guard {
    limits: Limits,
    memory: usize,
}

impl Guard {
    pub(crate) const fn new(limits: Limits) -> Self {
        Self { limits, memory: 0 }
    }

    /// The linear memory of the store. It never shrinks, so this is also the most there was.
    pub(crate) const fn memory(&self) -> usize {
        self.memory
    }
}

/// What a guest asked for and may not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    /// More linear memory.
    #[error("it asked for {wanted} bytes of memory, and may have {limit}")]
    Memory {
        /// In bytes, all memories together.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
    /// A larger table.
    #[error("it asked for a table of {wanted} elements, and may have {limit}")]
    Table {
        /// In elements.
        wanted: usize,
        /// The limit.
        limit: usize,
    },
}

impl ResourceLimiter for Guard {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let wanted = self.memory.saturating_add(desired.saturating_sub(current));
        let limit = self.limits.memory;
        if wanted > limit {
            return Err(TooMuch::Memory { wanted, limit }.into());
        }
        // Beyond its own maximum the guest gets its −1, and nothing grows.
        let grows = maximum.is_none_or(|maximum| desired <= maximum);
        if grows {
            self.memory = wanted;
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
            return Err(TooMuch::Table { wanted: desired, limit }.into());
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
