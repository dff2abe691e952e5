//! A progress bar on standard error, if it is a terminal.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::standard_error;

/// Readings between updates.
const EVERY: u32 = 1 << 16;

/// The progress of an audit.
pub(super) struct Progress {
    bar: ProgressBar,
    until_next: u32,
}

impl Progress {
    /// Hidden unless standard error is a terminal. `progress`: bytes read and in total, if known.
    pub(super) fn new(progress: (u64, Option<u64>)) -> Self {
        let bar = match progress {
            _ if !standard_error::stream().is_terminal() => ProgressBar::hidden(),
            (_, Some(size)) => ProgressBar::new(size).with_style(style(
                "{bar:40} {bytes} of {total_bytes} · {bytes_per_sec} · {eta} left",
            )),
            (_, None) => ProgressBar::no_length().with_style(style("{bytes} · {bytes_per_sec}")),
        };
        Self { bar, until_next: EVERY }
    }

    /// Counts a reading.
    pub(super) fn step(&mut self, progress: impl FnOnce() -> (u64, Option<u64>)) {
        self.until_next -= 1;
        if self.until_next == 0 {
            self.until_next = EVERY;
            self.bar.set_position(progress().0);
        }
    }

    /// Removes the bar.
    pub(super) fn finish(self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
