//! Where readings come from: the start of the line.
//!
//! A source is pulled; what it knows of its GPUs grows as it is read. Nothing behind this room
//! knows which source it was, and this room must not know what readings are for.

#![forbid(unsafe_code)]

use std::io;

use phasemeter_meter::reading::{GpuIdentity, Reading};

pub mod clock;
pub mod demo;
pub mod nvidia_smi;
pub mod nvml;
pub mod paced;

/// Something that readings can be pulled from.
pub trait Source {
    /// The next reading, and the GPU it is of as an index into [`Source::gpus`]; `None` at the end.
    /// The readings of one GPU come in the order they were taken, as far as its clock allows.
    ///
    /// # Errors
    /// Where the source cannot go on. After an error it is not to be asked again.
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError>;

    /// The GPUs seen so far, in order of first appearance. The list only grows; an entry may gain
    /// facts, and a name may gain its file, whenever [`Source::next`] is called.
    fn gpus(&self) -> &[GpuIdentity];

    /// The line refused the reading that [`Source::next`] gave last; the source books it, with
    /// this reason, among what it had to leave out.
    fn reject(&mut self, reason: &str);
}

/// Why a source cannot be used, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// It cannot be opened, or reading it failed half-way: nothing is known of what is in it.
    #[error("{input}: cannot be read; check that it is there and readable")]
    Unreadable {
        /// The file, as the user named it.
        input: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// A directory stands where a log should.
    #[error("{input}: is a directory; name the logs in it")]
    Directory {
        /// The directory, as the user named it.
        input: String,
    },
    /// It can be read, but no honest readings can be made of it.
    #[error(transparent)]
    Log(#[from] nvidia_smi::LogError),
}
