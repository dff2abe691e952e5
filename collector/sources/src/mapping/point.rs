//! Points of metrics, and the pod of a GPU by their labels.

use phasemeter_meter::instrument::Instrument;
pub(super) use phasemeter_meter::label_filter::MAX_LABEL;
use phasemeter_meter::units::Timestamp;

/// A number point of a metric, with the labels of point and resource.
#[derive(Clone, Copy)]
pub struct Point<'a> {
    /// The name of the metric.
    pub metric: &'a str,
    /// The value of a label of the point, else of its resource.
    pub label: &'a dyn Fn(&str) -> Option<&'a str>,
    /// The instrument that its sender declares.
    pub instrument: Instrument,
    /// Since when it sums, if that is declared.
    pub start: Option<Timestamp>,
    /// When it was measured.
    pub at: Timestamp,
    /// The value; not a number if there is none.
    pub number: f64,
}

/// The pod that a GPU is assigned to, by the labels of a point.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels {
    /// Its UID.
    pub uid: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
}
