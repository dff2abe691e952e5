//! Why a log is unusable, and how to fix it.

use super::convert::Foreign;

/// An unusable log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {kind}", .line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct LogError {
    /// The log as given by the user, or the invalid option.
    pub file: String,
    /// The line with the problem, counted from 1, if there is one.
    pub line: Option<u64>,
    /// The problem.
    pub kind: LogErrorKind,
}

/// The problem of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogErrorKind {
    /// No rows, with or without a header.
    #[error("no rows; check the output of nvidia-smi")]
    NoRows,
    /// Only invalid rows.
    #[error(
        "no valid row (line {line}: {reason}); check that it is a log of nvidia-smi --format=csv"
    )]
    NoValidRow {
        /// The line of the first rejected row.
        line: u64,
        /// Why it was rejected.
        reason: String,
    },
    /// Not a log, or one of another format.
    #[error(transparent)]
    Foreign(#[from] Foreign),
    /// An unusable header, or `--columns`.
    #[error(transparent)]
    Header(#[from] HeaderError),
    /// A later header adds or removes the columns that identify GPUs.
    #[error("header {} the GPU identifier; split the log here and audit both parts", if *.identified { "adds" } else { "removes" })]
    IdentificationChanged {
        /// Whether rows identify their GPU from here on.
        identified: bool,
    },
    /// Interleaved rows of several unidentified GPUs without `--gpu-count`.
    #[error("rows look like {} interleaved GPUs, without a column that identifies them; set --gpu-count {}, or --gpu-count 1 for a single GPU", join_or(.candidates), .candidates.first().unwrap_or(&1))]
    GpuCountRequired {
        /// The possible numbers of GPUs.
        candidates: Vec<u32>,
    },
    /// `--gpu-count` does not match the rows.
    #[error("rows do not match --gpu-count {requested}; set --gpu-count {}", if .candidates.is_empty() { "1".to_owned() } else { format!("{} or 1", join_or(.candidates)) })]
    GpuCountMismatch {
        /// The value of `--gpu-count`.
        requested: u32,
        /// The possible numbers of GPUs.
        candidates: Vec<u32>,
    },
    /// There are too few rows to verify `--gpu-count`.
    #[error(
        "too few rows to verify --gpu-count {requested}; record a longer log, or add the column index or uuid"
    )]
    TooShort {
        /// The value of `--gpu-count`.
        requested: u32,
    },
    /// `--gpu-count` contradicts the IDs in the log.
    #[error("identifies {found} GPUs, not {requested}; remove --gpu-count")]
    GpusIdentified {
        /// The value of `--gpu-count`.
        requested: u32,
        /// The number of GPUs in the first tick.
        found: usize,
    },
    /// Rows of one instant and ID differ.
    #[error(
        "differs from line {first}, of the same instant and GPU {gpu}, so several GPUs share this ID; add uuid to --query-gpu, or a column hostname, or audit each host's log as a file of its own; if the log is of {found} GPU{} only, set --gpu-count {found}", if *.found == 1 { "" } else { "s" }
    )]
    SharedId {
        /// The ID.
        gpu: String,
        /// The line of the first of these rows.
        first: u64,
        /// The number of IDs.
        found: usize,
    },
    /// A header is followed by earlier rows of the same GPUs.
    #[error(
        "rows since the last header are {seconds} s earlier than those before it, so two logs are in one file; split it at that header and audit both parts"
    )]
    Overlap {
        /// By how much they are earlier.
        seconds: u64,
    },
}

/// Why a line is not a usable header.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It has no known column.
    #[error(
        "no known column; specify the columns, for example --columns 'timestamp, index, utilization.gpu, memory.used'"
    )]
    UnknownColumns,
    /// It has one cell: nvidia-smi's table, the output of `nvidia-smi dmon`, or a message.
    #[error(
        "{found} is not CSV; record with nvidia-smi --format=csv -l 1 --query-gpu=timestamp,index,name,utilization.gpu,memory.used,memory.total,power.draw"
    )]
    NotCsv {
        /// The line.
        found: String,
    },
    /// It has no `timestamp`.
    #[error("no column timestamp in {found}; add timestamp to --query-gpu")]
    NoTimestamp {
        /// The header.
        found: String,
    },
    /// It has no column to meter a GPU by.
    #[error(
        "no column utilization.gpu, memory.used or power.draw in {found}; add one to --query-gpu"
    )]
    NoMeteredColumn {
        /// The header.
        found: String,
    },
}

/// Bytes of a log as printable text, truncated and without control characters.
pub(super) fn printable(bytes: &[u8]) -> String {
    const MAX_LENGTH: usize = 200;
    let printable = bytes.get(..MAX_LENGTH).unwrap_or(bytes);
    let more = if bytes.len() > MAX_LENGTH { "…" } else { "" };
    format!("'{}{more}'", printable.escape_ascii())
}

fn join_or(numbers: &[u32]) -> String {
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ")
}
