//! The wasmtime engine: how WebAssembly is compiled and run, the same in every process that
//! compiles.

use std::time::Duration;

use wasmtime::{Config, Enabled, InstanceAllocationStrategy, PoolingAllocationConfig};

use crate::codegen;
use crate::epoch::{EpochTicker, MAX_CONCURRENT};
use crate::limits::Limits;

/// Address space of the largest 32-bit memory. With this much reserved per memory, accesses need no
/// bounds checks. It costs addresses, not memory.
const FULL_RESERVATION: u64 = 4 << 30;

/// Reserved per memory if address space is short: the default memory limit, so that memories rarely
/// move as they grow.
const SMALL_RESERVATION: u64 = 64 << 20;

/// Target of wasmtime's interpreter on 64-bit processors.
pub(crate) const INTERPRETER: &str = "pulley64";

/// How linear memories lie in the address space. Compiled code fits only one layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Each memory reserves all the addresses it could ever need.
    Wide,
    /// Each memory reserves little more than it uses, for a short address space (`ulimit -v`).
    Narrow,
    /// Like `Narrow`, for bytecode that is interpreted: the same on every machine, never executable.
    Interpreted,
}

impl Layout {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Wide => "wide",
            Self::Narrow => "narrow",
            Self::Interpreted => "interpreted",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let mut all = [Self::Wide, Self::Narrow, Self::Interpreted].into_iter();
        all.find(|layout| layout.name() == name)
    }
}

/// Everything that affects generated code, or what it may do.
fn config(layout: Layout) -> wasmtime::Result<Config> {
    let mut config = Config::new();
    if layout == Layout::Interpreted {
        config.target(INTERPRETER)?;
    } else if cfg!(target_os = "linux") {
        // The baseline processor of this architecture, not the one at hand, so that an artifact
        // runs on other machines too.
        config.target(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH))?;
    }
    // See `limits`.
    config.consume_fuel(true).epoch_interruption(true);
    // Bit-identical results on every machine.
    config.relaxed_simd_deterministic(true);
    codegen::configure(&mut config);
    // Nothing is concurrent within a store, and scalar calls are three times as fast without it.
    config.concurrency_support(false);
    // Guest stack frames do not help an operator, and a guest's code is smaller without.
    config.wasm_backtrace_max_frames(None).generate_address_map(false).native_unwind_info(false);
    // For copy-on-write, data is padded to 64 KiB, more than most policies have. Such data cannot be
    // used where it is in this program, either.
    config.memory_init_cow(false);
    if layout != Layout::Wide {
        config.memory_reservation(SMALL_RESERVATION);
        config.memory_reservation_for_growth(SMALL_RESERVATION);
        config.memory_guard_size(0);
    }
    Ok(config)
}

/// An engine without an instance pool, sufficient for compiling.
pub(crate) fn unpooled(layout: Layout) -> wasmtime::Result<wasmtime::Engine> {
    wasmtime::Engine::new(&config(layout)?)
}

/// Instances are preallocated, so that a fresh one costs microseconds.
fn pool(limits: &Limits) -> PoolingAllocationConfig {
    let slots = u32::try_from(MAX_CONCURRENT).unwrap_or(u32::MAX);
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
        // Pages are cleared for the next instance instead of unmapped and faulted in again, which is
        // twice as fast. Two MiB per slot hold the stack and data of a Rust policy. The kernel could
        // report which pages were written, but wasmtime then opens a file in every process that this
        // one forks, and aborts it if there is none left: the command of `run`.
        .pagemap_scan(Enabled::No)
        .linear_memory_keep_resident(2 << 20)
        .table_keep_resident(64 << 10)
        // The store limiter enforces the memory limit, with a typed error.
        .max_memory_size(usize::try_from(FULL_RESERVATION).unwrap_or(usize::MAX));
    pool
}

/// An engine with its epoch ticker.
#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) engine: wasmtime::Engine,
    pub(crate) ticker: EpochTicker,
    pub(crate) layout: Layout,
    pub(crate) limits: Limits,
}

impl Runtime {
    /// Starts an engine: one with an instance pool, or without if the address space is too short
    /// or `interpreter` is set.
    pub(crate) fn start(limits: Limits, interpreter: bool) -> Result<Self, RuntimeError> {
        if limits.fuel == 0 || limits.deadline == Duration::ZERO || limits.memory == 0 {
            return Err(RuntimeError::NoLimits);
        }
        let (engine, layout) = if interpreter || !codegen::AVAILABLE {
            (unpooled(Layout::Interpreted), Layout::Interpreted)
        } else {
            let pooled = config(Layout::Wide).and_then(|mut config| {
                config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(&limits)));
                wasmtime::Engine::new(&config)
            });
            match pooled {
                Ok(engine) => (Ok(engine), Layout::Wide),
                Err(_) => (unpooled(Layout::Narrow), Layout::Narrow),
            }
        };
        let engine = engine.map_err(RuntimeError::Engine)?;
        Ok(Self { engine, ticker: EpochTicker::default(), layout, limits })
    }
}

/// Why no policy can be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// A limit is 0.
    #[error("invalid policy limits: fuel, deadline and memory must be above 0")]
    NoLimits,
    /// wasmtime cannot start on this machine.
    #[error("cannot start the WebAssembly runtime: {0:#}")]
    Engine(#[source] wasmtime::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_found_by_name() {
        for layout in [Layout::Wide, Layout::Narrow, Layout::Interpreted] {
            assert_eq!(Layout::from_name(layout.name()), Some(layout));
        }
        assert_eq!(Layout::from_name(""), None);
    }

    #[test]
    fn only_interpreted_layout_is_bytecode() {
        for layout in [Layout::Wide, Layout::Narrow, Layout::Interpreted] {
            let engine = unpooled(layout).unwrap();
            assert_eq!(engine.is_pulley(), layout == Layout::Interpreted, "{layout:?}");
        }
    }

    #[test]
    fn runtime_rejects_limits_of_zero() {
        let limits = Limits::default();
        for limits in [
            Limits { fuel: 0, ..limits },
            Limits { deadline: Duration::ZERO, ..limits },
            Limits { memory: 0, ..limits },
        ] {
            assert!(
                matches!(Runtime::start(limits, false), Err(RuntimeError::NoLimits)),
                "{limits:?}"
            );
        }
    }
}
