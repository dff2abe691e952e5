//! Units of work.

/// A unit of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum WorkUnit {
    /// Training samples.
    Samples,
    /// Requests that a service has answered.
    Requests,
    /// Tokens.
    Tokens,
    /// Epochs.
    Epochs,
    /// Optimizer steps.
    Steps,
}

impl WorkUnit {
    /// All units.
    pub const ALL: [Self; 5] =
        [Self::Samples, Self::Requests, Self::Tokens, Self::Epochs, Self::Steps];

    /// The name in lines, reports and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Requests => "requests",
            Self::Tokens => "tokens",
            Self::Epochs => "epochs",
            Self::Steps => "steps",
        }
    }

    /// The unit with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The unit with this name, in uppercase or lowercase.
    #[must_use]
    pub fn from_any_case(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name))
    }
}
