//! Keeps requests on disk until they are delivered.
//!
//! An outbox is an append-only log in one directory: segments of records, each with a checksum, and a file that
//! says up to where requests are settled. The core, [`Outbox`], knows neither files nor clocks: it works on a
//! [`Disk`], and time is an argument, so that a simulation can cut its power at any point.
//! [`FileDisk`] is a real directory, and [`RunDirectory`] the one of a running process.
//!
//! The README of this crate has the format, what is synced when, and what survives.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bytes;
mod data_directory;
mod disk;
mod error;
mod file_disk;
mod head;
mod journal;
mod lane;
mod limits;
mod losses;
mod outbox;
mod place;
mod record;
mod recovery;
mod run_directory;
mod segment;
mod stream;

pub use self::data_directory::{DataDirectory, DataError};
pub use self::disk::{Directories, Disk};
pub use self::error::{OpenError, ReadError};
pub use self::file_disk::FileDisk;
pub use self::journal::{ATTEMPTS, JOURNAL, Journal, JournalError, Payloads};
pub use self::limits::Limits;
pub use self::losses::{Loss, Losses, Reason};
pub use self::outbox::Outbox;
pub use self::place::Pending;
pub use self::record::{Record, Records};
pub use self::run_directory::{RunDirectory, Runs};
pub use self::stream::Stream;
