//! A number of a metric with what names it.

use std::borrow::Cow;

use phasemeter_meter::instrument::Instrument;
use phasemeter_meter::units::Timestamp;

/// A number of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) metric: Cow<'a, str>,
    /// The labels of the sample, then those of its resource.
    pub(super) labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    /// What its metric is declared as.
    pub(super) instrument: Instrument,
    /// Since when it sums, if that is declared.
    pub(super) start: Option<Timestamp>,
    /// Its time; `None` if it has none of its own.
    pub(super) at: Option<Timestamp>,
    pub(super) number: f64,
}

impl<'a> Sample<'a> {
    /// A sample of a format that declares nothing.
    pub(super) const fn undeclared(
        metric: Cow<'a, str>,
        labels: Vec<(Cow<'a, str>, Cow<'a, str>)>,
        at: Option<Timestamp>,
        number: f64,
    ) -> Self {
        Self { metric, labels, instrument: Instrument::Undeclared, start: None, at, number }
    }

    /// The first label with this name.
    pub(super) fn label(&self, name: &str) -> Option<&str> {
        let found = self.labels.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| &**value)
    }
}
