//! The kinds of metrics that senders declare.

use std::fmt;

/// The kind of a metric, as its sender declares it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instrument {
    /// Formats without declarations, such as recorded samples.
    #[default]
    Undeclared,
    /// A value of an instant.
    Gauge,
    /// A sum.
    Sum {
        /// Whether it never falls.
        is_monotonic: bool,
        /// Over which time it sums; `None` if that is not declared.
        temporality: Option<Temporality>,
    },
    /// A histogram with explicit or exponential buckets.
    Histogram {
        /// Over which time it counts; `None` if that is not declared.
        temporality: Option<Temporality>,
    },
    /// A summary of quantiles.
    Summary,
}

/// Over which time a point sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// Since the point before it.
    Delta,
    /// Since a start that all points have in common.
    Cumulative,
}

impl Temporality {
    /// The temporality with this number in OTLP.
    #[must_use]
    pub const fn from_otlp(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Delta),
            2 => Some(Self::Cumulative),
            _ => None,
        }
    }
}

impl Instrument {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = Self> {
        let temporalities = || [None, Some(Temporality::Delta), Some(Temporality::Cumulative)];
        let sums = temporalities().into_iter().flat_map(|temporality| {
            [false, true].map(|is_monotonic| Self::Sum { is_monotonic, temporality })
        });
        let histograms = temporalities().map(|temporality| Self::Histogram { temporality });
        [Self::Undeclared, Self::Gauge, Self::Summary].into_iter().chain(sums).chain(histograms)
    }
}

impl fmt::Display for Instrument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (temporality, kind) = match self {
            Self::Undeclared => return f.write_str("an undeclared value"),
            Self::Gauge => return f.write_str("a gauge"),
            Self::Summary => return f.write_str("a summary"),
            Self::Sum { is_monotonic: true, temporality } => (temporality, "monotonic sum"),
            Self::Sum { is_monotonic: false, temporality } => (temporality, "non-monotonic sum"),
            Self::Histogram { temporality } => (temporality, "histogram"),
        };
        match temporality {
            Some(Temporality::Delta) => write!(f, "a delta {kind}"),
            Some(Temporality::Cumulative) => write!(f, "a cumulative {kind}"),
            None => write!(f, "a {kind} without temporality"),
        }
    }
}
