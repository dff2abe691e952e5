//! The engine: how WebAssembly is compiled and run here, the same in every process that compiles.
//!
//! This room must not know what a policy is.

use std::io;
use std::time::Duration;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::limits::Limits;
use crate::ticker::{SLOTS, Ticker};

/// The address space of the largest 32-bit memory. Reserved for each, its accesses need no bounds
/// checks; that costs addresses, not memory.
const WHOLE_MEMORY: u64 = 4 << 30;

/// What is reserved where addresses are short: the default limit, so that hardly any memory moves
/// as it grows.
const SOME_MEMORY: u64 = 64 << 20;

/// How memories lie in the address space. Compiled code fits one of them only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each memory has all the addresses it could ever need.
    Wide,
    /// Memories have little more than they use, where address space is short (`ulimit -v`).
    Narrow,
}

impl Layout {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Wide, Self::Narrow].into_iter().find(|layout| layout.name() == name)
    }
}

/// What decides how code is compiled, and what code may do.
fn config(layout: Layout) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    // Any processor of this architecture, not the one at hand: so what was compiled on one
    // machine runs on the next.
    #[cfg(target_os = "linux")]
    config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    // Guests are cut off by both; see `limits`.
    config.consume_fuel(true).epoch_interruption(true);
    // The same answer on every machine, to the bit.
    config.cranelift_nan_canonicalization(true).relaxed_simd_deterministic(true);
    // Nothing here is concurrent within a store, and a scalar call is three times as fast without.
    config.concurrency_support(false);
    // A guest's frames say nothing to the operator.
    config.wasm_backtrace_max_frames(None);
    if layout == Layout::Narrow {
        config.memory_reservation(SOME_MEMORY).memory_reservation_for_growth(SOME_MEMORY);
        config.memory_guard_size(0);
    }
    Ok(config)
}

/// An engine without a pool: all that compiling needs.
pub(crate) fn compiler(layout: Layout) -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&config(layout)?)
}

/// Instances wait ready-made in a pool, so that a fresh one costs microseconds.
fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let slots = u32::try_from(SLOTS).unwrap_or(u32::MAX);
    let each = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let total = |count: usize| each(count).saturating_mul(slots);
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_core_instances(total(limits.instances))
        .total_memories(total(limits.memories))
        .total_tables(total(limits.tables))
        .max_core_instances_per_component(each(limits.instances))
        .max_memories_per_component(each(limits.memories))
        .max_tables_per_component(each(limits.tables))
        .table_elements(limits.table_elements)
        // What a run wrote to is cleared for the next rather than given back and faulted in again:
        // twice as fast. Two mebibytes a slot hold the stack and the data of a Rust policy. The
        // kernel says which pages those were, from 6.7 on.
        .pagemap_scan(Enabled::Auto)
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(64 << 10)
        // How much of it a guest may use is for the guard to say, and by type.
        .max_memory_size(usize::try_from(WHOLE_MEMORY).unwrap_or(usize::MAX));
    pool
}

/// An engine with its clock.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) ticker: Ticker,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
}

impl Runtime {
    /// Starts an engine: with a pool, or without where the address space is too short for one.
    pub(crate) fn start(limits: Limits) -> Result<Self, RuntimeError> {
        if limits.fuel == 0 || limits.deadline == Duration::ZERO || limits.memory == 0 {
            return Err(RuntimeError::NoLimits);
        }
        let pooled = config(Layout::Wide).and_then(|mut config| {
            config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(&limits)));
            wasmtime::Engine::new(&config)
        });
        let (engine, layout) = match pooled {
            Ok(engine) => (engine, Layout::Wide),
            Err(_) => {
                let engine = compiler(Layout::Narrow).map_err(RuntimeError::Engine)?;
                (engine, Layout::Narrow)
            }
        };
        let ticker = Ticker::start(engine.weak()).map_err(RuntimeError::Ticker)?;
        Ok(Self { engine, ticker, layout, limits })
    }
}

/// Why nothing can be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The limits leave nothing.
    #[error("fuel, deadline and memory of a policy must be above 0")]
    NoLimits,
    /// The machine cannot run WebAssembly.
    #[error("this machine cannot run WebAssembly: {0:#}")]
    Engine(#[source] wasmtime::Error),
    /// No thread.
    #[error("the thread that ends slow policies cannot be started: {0}")]
    Ticker(#[source] io::Error),
}
