//! Why an outbox cannot be opened, or a request cannot be read.

use std::io;

use thiserror::Error;

/// An outbox cannot be opened. Nothing was changed.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The disk refused.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// A newer version has written it.
    #[error("written by a newer version, in format {0}; deliver it with that version")]
    Newer(u32),
}

/// A stored request cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It was settled or dropped.
    #[error("no longer stored")]
    Gone,
    /// The disk refused: the bytes may be whole.
    #[error("cannot be read: {0}")]
    Disk(io::Error),
    /// Its bytes are not there, or not what was written.
    #[error("unreadable: {0}")]
    Unreadable(String),
}
