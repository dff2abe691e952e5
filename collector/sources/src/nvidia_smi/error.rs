//! Why a log cannot be used at all, and what to do about it.

/// No honest readings can be made of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {kind}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct LogError {
    /// The log as the user named it, or the option that is wrong.
    pub file: String,
    /// The line that shows it, from 1, where one does.
    pub line: Option<u64>,
    /// What is wrong.
    pub kind: LogErrorKind,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// No row, be there a header or not.
    #[error("has no rows; check that nvidia-smi wrote to it")]
    NoRows,
    /// Rows, but none that can be read.
    #[error(
        "has no row that can be read (line {line}: {reason}); check that it is a log of nvidia-smi --format=csv"
    )]
    NoValidRow {
        /// The first row that was refused.
        line: u64,
        /// Why it was.
        reason: String,
    },
    /// Its header, or `--columns`, cannot be used.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A later header has a column that names GPUs and an earlier one has not, or the other way.
    #[error("from this header on rows {} their GPU, other than before; cut the log in two here and audit both", if *.identified { "name" } else { "do not name" })]
    IdentificationChanged {
        /// Whether rows name their GPU from here on.
        identified: bool,
    },
    /// Rows of several GPUs with nothing that tells them apart, and nobody said how many.
    #[error("looks like {} GPUs in turn, with no column that names them; give --gpu-count {}, or --gpu-count 1 if it is one GPU", join_or(.candidates), .candidates.first().unwrap_or(&1))]
    GpuCountRequired {
        /// The numbers of GPUs that fit.
        candidates: Vec<u32>,
    },
    /// `--gpu-count` says a number that does not fit the rows.
    #[error("its rows do not come in turns of {requested}; {}", if .candidates.is_empty() { "no number fits but --gpu-count 1".to_owned() } else { format!("what fits is --gpu-count {}, or --gpu-count 1", join_or(.candidates)) })]
    GpuCountMismatch {
        /// What `--gpu-count` said.
        requested: u32,
        /// The numbers that fit.
        candidates: Vec<u32>,
    },
    /// `--gpu-count` says a number, and there are too few rows to check it.
    #[error(
        "is too short to show that its rows come in turns of {requested}; log longer, or with the column index or uuid"
    )]
    TooShort {
        /// What `--gpu-count` said.
        requested: u32,
    },
    /// `--gpu-count` contradicts the ids in the log.
    #[error("identifies {found} GPUs, not {requested}; remove --gpu-count")]
    GpusIdentified {
        /// What `--gpu-count` said.
        requested: u32,
        /// How many GPUs its first tick names.
        found: usize,
    },
    /// It was given twice and would be counted twice.
    #[error("is named twice; name each log once")]
    DuplicateLog,
}

/// Why a line is no header that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It names no column that is known.
    #[error(
        "no header, it names no known column; say what the columns are, like --columns 'timestamp, index, utilization.gpu, memory.used'"
    )]
    UnknownColumns,
    /// It has no `timestamp`.
    #[error("no column timestamp, only {found}; add timestamp to --query-gpu")]
    NoTimestamp {
        /// The header.
        found: String,
    },
    /// It has nothing that a GPU could be metered by.
    #[error(
        "none of the columns utilization.gpu, memory.used and power.draw, only {found}; add one to --query-gpu"
    )]
    NoMeteredColumn {
        /// The header.
        found: String,
    },
}

/// Bytes of a log as they can be printable: not too many, and none that a terminal obeys.
pub(super) fn printable(bytes: &[u8]) -> String {
    const MAX_LENGTH: usize = 200;
    let printable = bytes.get(..MAX_LENGTH).unwrap_or(bytes);
    let more = if bytes.len() > MAX_LENGTH { "…" } else { "" };
    format!("'{}{more}'", printable.escape_ascii())
}

fn join_or(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}
