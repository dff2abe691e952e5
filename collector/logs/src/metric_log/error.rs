//! Why a log of metrics is unusable, or a line of it.

/// An unusable log of metrics.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricLogError {
    /// It has no value that a mapping recognizes.
    #[error(
        "{file}: no value of a GPU; check that it has metrics of --mapping or the built-in ones"
    )]
    NoValue {
        /// The log, as given by the user.
        file: String,
    },
    /// It has invalid lines only.
    #[error("{file}, line {line}: {reason}")]
    Invalid {
        /// The log, as given by the user.
        file: String,
        /// The first rejected line.
        line: u64,
        /// Why it was rejected.
        reason: String,
    },
    /// It has more points than fit in memory.
    #[error("{file}: more than {most} points of series; export a shorter time, or fewer metrics")]
    TooManyPoints {
        /// The log, as given by the user.
        file: String,
        /// The most.
        most: usize,
    },
    /// Logs of different kinds cannot be merged.
    #[error("{file}: is {kind}, unlike {first}; audit them separately")]
    Mixed {
        /// The log, as given by the user.
        file: String,
        /// What it is.
        kind: &'static str,
        /// The first log.
        first: String,
    },
}

/// Why a line is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    #[error("longer than {0} KiB")]
    TooLong(usize),
    #[error("not UTF-8")]
    Encoding,
    #[error("expected NAME{{LABEL=\"VALUE\", …}} NUMBER [TIMESTAMP]")]
    Sample,
    #[error("more than {0} labels")]
    TooManyLabels(usize),
    #[error("no time; write it before each page, as by date -u '+# %Y-%m-%dT%H:%M:%SZ'")]
    NoPageTime,
    #[error(
        "no time; add it to each line, as by TZ=UTC ts '%Y-%m-%dT%H:%M:%.SZ', or set --dmon-start"
    )]
    NoRowTime,
    #[error("invalid time")]
    Time,
    #[error("no header #Entity before it")]
    NoHeader,
    #[error("expected an entity and {expected} values, found {found}")]
    CellCount { expected: usize, found: usize },
    #[error("invalid JSON of an OTLP request")]
    Json,
    #[error("a JSON document that is cut off")]
    CutOff,
    #[error("invalid JSON of series; expected an answer to a query, or an export")]
    SeriesJson,
    #[error("a failed query, without series")]
    Query,
    #[error("a series without __name__; query metrics themselves, not functions of them")]
    NoMetricName,
    #[error("more than {0} points")]
    TooManyPoints(usize),
    #[error("older than the samples before it; sort the file by time")]
    Late,
    #[error("a GPU over the limit of {0}; audit the files of fewer GPUs at a time")]
    TooManyGpus(usize),
}
