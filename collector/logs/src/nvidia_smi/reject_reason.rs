//! Why a row is rejected.

use std::io;

use super::error::HeaderError;
use super::timestamp::FORMS;

/// Why a row is rejected.
#[derive(Debug, thiserror::Error)]
pub(super) enum RejectReason {
    #[error("expected {expected} cells, found {found}")]
    CellCount { found: usize, expected: usize },
    #[error("invalid timestamp; expected {FORMS}")]
    Timestamp,
    #[error("longer than 64 KiB")]
    TooLong,
    #[error("no valid GPU ID")]
    NoGpuId,
    #[error("more than {0} GPUs in one log")]
    TooManyGpus(usize),
    #[error("incomplete tick: {found} rows of {expected} GPUs")]
    IncompleteTick { found: usize, expected: usize },
    #[error("differs from line {first}, of the same instant and GPU")]
    Different { first: u64 },
    #[error("unusable header: {0}")]
    Header(HeaderError),
    #[error("follows an unusable header")]
    NoColumns,
    #[error("compressed data corrupt or truncated from here on: {0}")]
    Corrupt(io::Error),
}
