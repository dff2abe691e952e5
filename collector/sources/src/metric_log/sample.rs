//! A number of a metric with what names it. Must not depend on formats.

use std::borrow::Cow;

use phasemeter_meter::units::Timestamp;

/// A number of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) metric: Cow<'a, str>,
    /// The labels of the sample, then those of its resource.
    pub(super) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// Its time; `None` if it has none of its own.
    pub(super) at: Option<Timestamp>,
    pub(super) number: f64,
}

impl Sample<'_> {
    /// The first label with this name.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }
}
