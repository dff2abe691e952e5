//! Experiments that ended during a run, each with what its time cost.

use std::collections::BTreeMap;

use phasemeter_engine::pipeline::EndedExperiment;
use serde::Serialize;

use super::input::Input;
use super::value::{Seconds, Usd, Utc};

/// The experiments of a run. With what none of them has, they sum to the bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Experiments {
    /// The first ones.
    pub listed: Vec<RunExperiment>,
    /// Number of all others, their GPU time and its cost.
    pub more: MoreExperiments,
    /// What no experiment has of the bill; `None` unless every GPU has a price.
    pub unattributed_usd: Option<Usd>,
}

/// An experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunExperiment {
    /// Its ID.
    pub id: String,
    /// W3C trace ID of its span.
    pub trace_id: String,
    /// W3C span ID of its span.
    pub span_id: String,
    /// Start.
    pub start: Utc,
    /// End.
    pub end: Utc,
    /// GPU time that is its own.
    pub gpu_seconds: Seconds,
    /// What that cost; `None` unless every GPU has a price.
    pub cost_usd: Option<Usd>,
    /// Mean utilization of it in percent; `None` if none was observed.
    pub utilization: Option<f64>,
    /// Energy of it in joules; `None` if unknown.
    pub energy_joules: Option<f64>,
    /// Its tags.
    pub tags: BTreeMap<String, String>,
}

/// Experiments that are not listed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoreExperiments {
    /// Their number.
    pub count: u64,
    /// GPU time that is their own.
    pub gpu_seconds: Seconds,
    /// What that cost; `None` unless every GPU has a price.
    pub cost_usd: Option<Usd>,
}

impl Experiments {
    /// The experiments of a run; `None` if none began.
    pub(super) fn build(input: &Input<'_>) -> Option<Self> {
        let log = input.experiments?;
        let is_priced = input.gpus.iter().all(|gpu| gpu.price.is_ok());
        let usd = |cost| is_priced.then_some(Usd(cost));
        let experiment = |ended: &EndedExperiment| RunExperiment {
            id: ended.id.clone(),
            trace_id: ended.trace_id.clone(),
            span_id: ended.span_id.clone(),
            start: Utc(input.wall.wall(ended.from)),
            end: Utc(input.wall.wall(ended.to)),
            gpu_seconds: Seconds(ended.gpu_time),
            cost_usd: usd(ended.cost),
            utilization: ended.utilization.map(|ratio| ratio * 100.0),
            energy_joules: ended.joules,
            tags: ended.tags.iter().cloned().collect(),
        };
        Some(Self {
            listed: log.listed.iter().map(experiment).collect(),
            more: MoreExperiments {
                count: log.more,
                gpu_seconds: Seconds(log.more_time),
                cost_usd: usd(log.more_cost),
            },
            unattributed_usd: usd(log.unattributed),
        })
    }
}
