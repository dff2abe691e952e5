//! Why a log is not read as a continuation of earlier logs with the same GPU IDs.

use std::fmt;

/// Why a log without UUIDs does not continue an earlier log although both have GPUs with the same
/// bus ID or index; in ascending order of how close the logs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Separation {
    /// The logs overlap in time.
    Overlap,
    /// The earlier log identifies its GPUs by UUID.
    Uuids,
    /// GPUs with the same ID have different models.
    Models,
    /// Each log has GPUs that the other lacks.
    Ids,
    /// The log starts more than a day after the end of the earlier one.
    Gap,
    /// There are several logs that it might continue.
    Ambiguous,
}

impl fmt::Display for Separation {
    /// The reason, to follow "since".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overlap => "the logs overlap in time",
            Self::Uuids => "the earlier log has UUIDs",
            Self::Models => "their models differ",
            Self::Ids => "each log has GPUs that the other lacks",
            Self::Gap => "more than 24 h lie between the logs",
            Self::Ambiguous => "there are several logs that it could continue",
        })
    }
}
