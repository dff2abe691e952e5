//! Source of an audit: logs written by `nvidia-smi --query-gpu=… --format=csv`.
//!
//! ```text
//! stream → lines → decoder (columns, usual_row, row, gpu_registry)
//! → log (admission: local_clock, spread, row_order, instants, clock_jump)
//! → read_ahead → logs (fleet) → Reading
//! ```
//!
//! A log may be gzip or UTF-16, have any columns in any order, identify its GPUs or rely on row
//! order, be truncated, or be appended to. Invalid rows are recorded with line and reason;
//! ambiguous logs are rejected. Memory does not grow with the length of a log. `csv_writer` writes
//! the same format.

mod admission;
mod alignment;
mod cell;
mod columns;
mod convert;
pub mod csv_writer;
mod decoder;
mod digits;
mod entry;
mod error;
mod fleet;
mod gpu_registry;
mod identity;
mod instants;
mod interleave;
mod limits;
mod local_clock;
mod log;
mod logs;
mod read_ahead;
mod reject_reason;
mod row;
mod row_order;
mod separation;
mod spacing;
mod spread;
mod ticks;
mod timestamp;
mod usual_row;

use std::num::NonZeroU32;

use phasemeter_meter::units::Nanos;

use crate::log::GivenModel;

pub use columns::GpuIdentification;
pub use convert::Foreign;
pub use error::{HeaderError, LogError, LogErrorKind};
pub use local_clock::{LocalStep, LocalSteps};
pub use log::LogFormat;
pub use logs::{LogSummary, Logs};
pub use row_order::TickSummary;
pub use separation::Separation;
pub use timestamp::{ParseUtcOffsetError, UtcOffset};

/// Options that apply to all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// The number of interleaved GPUs in logs that do not identify them.
    pub gpus: Option<NonZeroU32>,
    /// The columns of all logs, in place of their headers, in the syntax of `--query-gpu`.
    pub columns: Option<String>,
    /// The model given by the user.
    pub gpu_model: Option<GivenModel>,
    /// The UTC offset of timestamps without a time zone.
    pub utc_offset: Option<UtcOffset>,
    /// How long a reading is valid, to detect jumps of the clock; `None` if it is estimated.
    pub stale_after: Option<Nanos>,
}
