//! Logs that `nvidia-smi --query-gpu=… --format=csv` wrote: the source of an audit.
//!
//! ```text
//! stream → lines → decoder (columns, row, registry) → log → logs (fleet) → Reading
//! ```
//!
//! A log may be gzip or UTF-16, have any columns in any order, name its GPUs or leave it to the
//! order of its rows, be cut off, or have been appended to. What can be read is read; a row that
//! cannot is booked with its line and reason; what could only be guessed is refused. Memory does
//! not grow with the length of a log. What is read can be written too: `recording`. Nothing here
//! must know what readings are for.

mod cell;
#[cfg(test)]
mod chunked_reader;
mod columns;
pub mod csv_writer;
mod decoder;
mod error;
mod fleet;
mod gpu_registry;
mod identity;
mod interleave;
mod limits;
mod lines;
mod log;
mod logs;
mod rejected;
mod row;
mod stream;
mod timestamp;

use std::num::NonZeroU32;

pub use columns::{GpuIdentification, PowerColumn};
pub use error::{HeaderError, LogError, LogErrorKind};
pub use logs::{LogSummary, Logs};
pub use rejected::{RejectedRow, RejectedRows};
pub use stream::Input;
pub use timestamp::{UtcOffset, UtcOffsetError};

/// What the user says of logs that they do not say themselves. It holds for all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// How many GPUs take turns in a log that does not name them.
    pub gpus: Option<NonZeroU32>,
    /// The columns of a log without a header, as `--query-gpu` takes them.
    pub columns: Option<String>,
    /// The model of all GPUs, whatever a log says.
    pub gpu_model: Option<String>,
    /// How far the clock of the logs was ahead of UTC, where their timestamps have no zone.
    pub utc_offset: Option<UtcOffset>,
}
