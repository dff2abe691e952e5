//! Why a report cannot be laid over a profile: one line that names the file and what to do.

use std::io;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;

use crate::report::{Gpu, Report};

/// Why a report cannot be laid over a profile.
#[derive(Debug, thiserror::Error)]
pub enum OverlayError {
    /// The profile cannot be read.
    #[error("{file}: cannot be read; check its name and permissions")]
    Unreadable {
        /// The profile.
        file: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is not a profile.
    #[error(
        "{file}: {problem}; expected a JSON file of PyTorch's profiler, as `export_chrome_trace` writes"
    )]
    NotAProfile {
        /// The file.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The report is of another time.
    #[error("{file}: is of {profile}, and the report of {report}; name a report of the same time")]
    Apart {
        /// The profile.
        file: String,
        /// The time of the profile.
        profile: String,
        /// The time of the report.
        report: String,
    },
    /// The profile changed between two reads of it.
    #[error("{file}: changed while it was read; run the command again")]
    Changed {
        /// The profile.
        file: String,
    },
    /// The result cannot be written.
    #[error("cannot write the profile")]
    Output(#[source] io::Error),
}

impl OverlayError {
    /// That a profile cannot be read.
    pub fn unreadable(file: &str) -> impl Fn(io::Error) -> Self {
        |source| Self::Unreadable { file: file.to_owned(), source }
    }

    /// That a report and a profile have no time in common.
    pub(super) fn apart(file: &str, profile: (Timestamp, Timestamp), report: &Report) -> Self {
        let spans = || report.gpus.iter().filter_map(Gpu::span);
        let all = spans().map(|span| span.0).min().zip(spans().map(|span| span.1).max());
        let report = all.map_or_else(|| "no time at all".to_owned(), range);
        Self::Apart { file: file.to_owned(), profile: range(profile), report }
    }
}

fn range((from, to): (Timestamp, Timestamp)) -> String {
    format!("{} to {}", Instant(from), Instant(to))
}
