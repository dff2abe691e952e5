//! The experiments that ended during a run, for its report.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

/// Experiments that are kept apart; the cost of others is added up.
const MAX_LISTED: usize = 1_000;

/// An experiment that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct EndedExperiment {
    /// Its ID.
    pub id: String,
    /// The trace and span ID of its span, in hexadecimal digits.
    pub trace_id: String,
    /// See `trace_id`.
    pub span_id: String,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// Start.
    pub from: Timestamp,
    /// End.
    pub to: Timestamp,
    /// GPU time that is its own.
    pub gpu_time: Nanos,
    /// What that cost.
    pub cost: NanoUsd,
    /// Mean utilization of it; `None` if none was observed.
    pub utilization: Option<f64>,
    /// Energy of it in joules; `None` if unknown.
    pub joules: Option<f64>,
}

/// The experiments of a run. With what none of them has, they sum to its bill.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExperimentLog {
    /// The first ones, in the order in which their cost became final.
    pub listed: Vec<EndedExperiment>,
    /// Number of all others, their GPU time and its cost.
    pub more: u64,
    /// See `more`.
    pub more_time: Nanos,
    /// See `more`.
    pub more_cost: NanoUsd,
    /// What no experiment has of the bill.
    pub unattributed: NanoUsd,
}

impl ExperimentLog {
    /// Adds an experiment.
    pub fn add(&mut self, ended: EndedExperiment) {
        if self.listed.len() < MAX_LISTED {
            self.listed.push(ended);
        } else {
            self.more = self.more.saturating_add(1);
            self.more_time = Nanos(self.more_time.0.saturating_add(ended.gpu_time.0));
            self.more_cost += ended.cost;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_beyond_the_list_is_added_up() {
        let mut log = ExperimentLog::default();
        for number in 0..MAX_LISTED + 3 {
            log.add(EndedExperiment {
                id: number.to_string(),
                trace_id: String::new(),
                span_id: String::new(),
                tags: Vec::new(),
                from: Timestamp::EPOCH,
                to: Timestamp::EPOCH,
                gpu_time: Nanos(7),
                cost: NanoUsd(5),
                utilization: None,
                joules: None,
            });
        }
        assert_eq!((log.listed.len(), log.more), (MAX_LISTED, 3));
        assert_eq!((log.more_time, log.more_cost), (Nanos(21), NanoUsd(15)));
    }
}
