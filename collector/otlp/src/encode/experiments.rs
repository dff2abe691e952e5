//! Spans of experiments that began and ended during a run, with what their time cost.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::units::Timestamp;

use super::span_cost::PricedTime;
use super::values::text;
use crate::experiment::SpanPlacement;

/// An experiment that ended.
#[derive(Clone, Debug)]
pub struct PricedExperiment<'a> {
    /// Its ID.
    pub id: &'a str,
    /// The placement of its span.
    pub placement: &'a SpanPlacement,
    /// Its tags.
    pub tags: &'a [(String, String)],
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// GPU time that is its own.
    pub time: PricedTime,
}

impl PricedExperiment<'_> {
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        let tags = self.tags.iter();
        let tags = tags
            .map(|(key, value)| text(&format!("phasemeter.experiment.tag.{key}"), value.as_str()));
        self.time.attributes().into_iter().chain(tags).collect()
    }
}
