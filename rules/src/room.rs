//! What a guest stands in: the guard of its limits, and the lines that it logged.
//!
//! This room must not know which policy is in it.

use crate::fault::plain;
use crate::limits::{Guard, Limits};

/// The most lines that are kept of one run.
const LINES: usize = 32;
/// The most bytes that are kept of one line.
const LINE: usize = 512;

/// The data of one store.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) guard: Guard,
    pub(crate) log: Log,
}

/// What a guest logged in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The first 32 lines: at most 512 bytes each, no control characters.
    pub lines: Vec<(Level, String)>,
    /// How many more there were.
    pub dropped: u64,
}

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// To its author.
    Debug,
    /// To whoever follows closely.
    Info,
    /// To whoever runs it.
    Warn,
    /// To everyone.
    Error,
}

impl Level {
    /// As it stands before a line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warning",
            Self::Error => "error",
        }
    }
}

impl Room {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { guard: Guard::new(limits), log: Log::default() }
    }

    pub(crate) fn write(&mut self, level: Level, message: &str) {
        if self.log.lines.len() < LINES {
            self.log.lines.push((level, plain(message, LINE)));
        } else {
            self.log.dropped += 1;
        }
    }
}
