//! The data of one store: its resource limiter, and the lines its guest logged.

use phasemeter_terminal::escape::sanitize;

use crate::limits::{Limits, StoreLimiter};

/// Log lines kept per evaluation.
const MAX_LINES: usize = 32;
/// Bytes kept per log line.
const MAX_LINE_BYTES: usize = 512;

/// The data of one store.
#[derive(Debug)]
pub(crate) struct GuestState {
    pub(crate) limiter: StoreLimiter,
    pub(crate) log: Log,
}

/// What a guest logged in one evaluation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// The first 32 lines, each at most 512 bytes and without control characters.
    pub lines: Vec<(Level, String)>,
    /// Lines beyond those.
    pub dropped: u64,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// For the policy's author.
    Debug,
    /// Normal operation.
    Info,
    /// For the operator: something may be wrong.
    Warn,
    /// For the operator: something is wrong.
    Error,
}

impl Level {
    /// The prefix of a log line.
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

impl GuestState {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limiter: StoreLimiter::new(limits), log: Log::default() }
    }

    /// Records a log line, or counts it if the log is full.
    pub(crate) fn write(&mut self, level: Level, message: &str) {
        if self.log.lines.len() < MAX_LINES {
            self.log.lines.push((level, sanitize(message, MAX_LINE_BYTES)));
        } else {
            self.log.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_keeps_the_first_lines_and_counts_the_others() {
        let mut state = GuestState::new(Limits::default());
        for line in 0..MAX_LINES + 3 {
            state.write(Level::Info, &format!("line {line}"));
        }
        assert_eq!((state.log.lines.len(), state.log.dropped), (32, 3));
        assert_eq!(state.log.lines[31], (Level::Info, "line 31".to_owned()));
    }

    #[test]
    fn levels_have_names() {
        let levels = [Level::Debug, Level::Info, Level::Warn, Level::Error];
        assert_eq!(levels.map(Level::name), ["debug", "info", "warning", "error"]);
    }
}
