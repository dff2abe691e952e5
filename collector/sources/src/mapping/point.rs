//! Points of metrics, and what their labels tell of the pod of a GPU.

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
    /// What its sender declares the metric as.
    pub instrument: Instrument,
    /// Since when it sums, if that is declared.
    pub start: Option<Timestamp>,
    /// When it was measured.
    pub at: Timestamp,
    /// The value; not a number if there is none.
    pub number: f64,
}

/// What labels tell of the pod that a GPU is assigned to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodLabels {
    /// Its UID.
    pub uid: Option<String>,
    /// Its namespace.
    pub namespace: Option<String>,
    /// Its name.
    pub name: Option<String>,
}
