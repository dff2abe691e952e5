//! Which metrics are exported: a set, with metrics kept beside it or dropped from it by name.

use std::str::FromStr;

use super::instruments::{ALL, Instrument};
use super::metric_set::MetricSet;

/// Which metrics are exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSelection {
    set: MetricSet,
    /// Metrics beyond the set, a bit per place in [`ALL`].
    kept: u64,
    /// Metrics of the set that are not exported.
    dropped: u64,
}

impl Default for MetricSelection {
    fn default() -> Self {
        Self::of(MetricSet::Default)
    }
}

impl MetricSelection {
    /// The metrics of a set.
    #[must_use]
    pub const fn of(set: MetricSet) -> Self {
        Self { set, kept: 0, dropped: 0 }
    }

    /// Whether it has these streams.
    pub(super) fn has(self, streams: &Instrument) -> bool {
        let bit = bit(streams.name).unwrap_or_default();
        self.dropped & bit == 0 && (streams.set <= self.set || self.kept & bit != 0)
    }
}

/// The bit of a metric.
fn bit(name: &str) -> Option<u64> {
    ALL.iter().position(|known| known.name == name).map(|place| 1 << place)
}

/// All metrics, and the smallest set that has each.
pub fn metrics() -> impl Iterator<Item = (&'static str, MetricSet)> {
    ALL.iter().map(|metric| (metric.name, metric.set))
}

/// Why a selection is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricSelectionError {
    /// An element is neither a set nor about a metric.
    #[error(
        "expected minimal, default or all, then keep:METRIC or drop:METRIC, separated by commas"
    )]
    Element,
    /// There is no such metric.
    #[error("unknown metric {0:?}: expected one of {names}", names = names())]
    Metric(String),
}

fn names() -> String {
    ALL.map(|metric| metric.name).join(", ")
}

/// A set, `default` if it is left out, and `keep:METRIC` or `drop:METRIC`, separated by commas.
impl FromStr for MetricSelection {
    type Err = MetricSelectionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut selection = Self::default();
        for (place, element) in text.split(',').map(str::trim).enumerate() {
            let (bits, metric) = match element.split_once(':') {
                Some(("keep", metric)) => (&mut selection.kept, metric),
                Some(("drop", metric)) => (&mut selection.dropped, metric),
                _ => {
                    let set = MetricSet::ALL
                        .into_iter()
                        .find(|set| element.eq_ignore_ascii_case(set.name()));
                    let set = set.filter(|_| place == 0);
                    selection.set = set.ok_or(MetricSelectionError::Element)?;
                    continue;
                }
            };
            let unknown = || MetricSelectionError::Metric(metric.to_owned());
            *bits |= bit(metric).ok_or_else(unknown)?;
        }
        Ok(selection)
    }
}

#[cfg(test)]
mod tests {
    use super::super::instruments::{COST, HW_ERRORS, HW_ERRORS_OF_LINKS, HW_NETWORK_IO, HW_POWER};
    use super::*;

    #[test]
    fn selection_is_a_set_and_what_is_kept_or_dropped() {
        let has = |text: &str| {
            let selection: MetricSelection = text.parse().unwrap();
            [selection.has(&COST), selection.has(&HW_POWER), selection.has(&HW_NETWORK_IO)]
        };
        assert_eq!(has("minimal"), [true, false, false]);
        assert_eq!(has("default"), [true, true, false]);
        assert_eq!(has("all"), [true; 3]);
        assert_eq!(has("all, drop:hw.power"), [true, false, true]);
        assert_eq!(has("keep:hw.network.io"), [true; 3]);
        assert_eq!(has("minimal,keep:hw.power,drop:phasemeter.gpu.cost"), [false, true, false]);
        assert_eq!(has("keep:hw.power,drop:hw.power"), [true, false, false]);
        let errors = |text: &str| {
            let selection: MetricSelection = text.parse().unwrap();
            [selection.has(&HW_ERRORS), selection.has(&HW_ERRORS_OF_LINKS)]
        };
        assert_eq!(errors("default"), [true, false], "streams of one metric can be in two sets");
        assert_eq!(errors("keep:hw.errors"), [true, true]);
        assert_eq!(errors("all,drop:hw.errors"), [false, false]);
    }

    #[test]
    fn unknown_set_or_metric_is_rejected() {
        for text in ["", "most", "default,", "all,minimal", "default,hw.power", "keep"] {
            let rejected: Result<MetricSelection, _> = text.parse();
            assert_eq!(rejected, Err(MetricSelectionError::Element), "{text}");
        }
        let unknown = "default,drop:hw.powr".parse::<MetricSelection>();
        assert_eq!(unknown, Err(MetricSelectionError::Metric("hw.powr".to_owned())));
    }

    #[test]
    fn each_metric_has_a_bit() {
        assert!(ALL.len() <= 64);
        assert!(ALL.iter().zip(0..).all(|(metric, place)| bit(metric.name) == Some(1 << place)));
    }
}
