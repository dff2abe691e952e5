//! The versions of FOCUS that are written, and how.

use super::tags::TagFormat;

/// A version of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FocusVersion {
    /// 1.2: a row per GPU and period.
    #[default]
    V1_2,
    /// 1.4: a divided GPU has a row per holder.
    V1_4,
}

impl FocusVersion {
    /// As the metadata of a dataset names it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V1_2 => "1.2",
            Self::V1_4 => "1.4",
        }
    }

    /// Whether it has columns for the parts of a resource that is divided.
    #[must_use]
    pub const fn has_allocations(self) -> bool {
        matches!(self, Self::V1_4)
    }
}

/// How rows are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FocusOptions {
    /// The version of FOCUS.
    pub version: FocusVersion,
    /// Whose rules tags follow.
    pub tags: TagFormat,
    /// The invoice that the charges are on, if it is known.
    pub invoice: Option<String>,
}
