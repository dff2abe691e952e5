//! Spans of experiments that began and ended during a run, with what their time cost.
//!
//! Must not depend on how their cost is found.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::values::{number, text};
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
    pub gpu_time: Nanos,
    /// What that cost; `None` if any GPU is unpriced.
    pub cost: Option<NanoUsd>,
    /// Mean utilization of it; `None` if none was observed.
    pub utilization: Option<f64>,
    /// Energy of it in joules; `None` if unknown.
    pub joules: Option<f64>,
}

impl PricedExperiment<'_> {
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        let tags = self.tags.iter();
        let tags = tags
            .map(|(key, value)| text(&format!("phasemeter.experiment.tag.{key}"), value.as_str()));
        let cost = self.cost.map(|cost| number("phasemeter.span.cost", cost.as_f64()));
        let gpu_seconds = number("phasemeter.span.gpu_seconds", self.gpu_time.as_secs_f64());
        let utilization = self.utilization.map(|it| number("phasemeter.span.utilization", it));
        let energy = self.joules.map(|it| number("phasemeter.span.energy", it));
        let costs = cost.into_iter().chain([gpu_seconds]).chain(utilization).chain(energy);
        costs.chain(tags).collect()
    }
}
