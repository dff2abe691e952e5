//! Options for logs of metrics.

use std::path::PathBuf;

use clap::Args;
use phasemeter_logs::metric_log::DmonTimes;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::pod_labels::label_key;
use super::value::seconds;

/// Logs of metrics.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Metrics")]
pub struct MetricLogArgs {
    /// Mapping of your own, which replaces those of the same metrics. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub mapping: Vec<PathBuf>,

    /// A label of pods that pages have, like `team`, for `bill --by label:team`. Labels that neither this nor a mapping
    /// names are not kept. Repeatable, at most 16 times.
    #[arg(long, value_name = "KEY", value_parser = label_key)]
    pub label: Vec<String>,

    /// Time of the first rows of `dcgmi dmon`, if rows have no time, like 2026-07-27T00:22:27Z.
    #[arg(long, value_name = "TIME", value_parser = instant)]
    pub dmon_start: Option<Timestamp>,

    /// Seconds between the rows of `dcgmi dmon`: its option -d, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    pub dmon_interval: Nanos,
}

impl MetricLogArgs {
    /// The times of rows without any, if they are given.
    pub fn dmon_times(&self) -> Option<DmonTimes> {
        self.dmon_start.map(|start| DmonTimes { start, interval: self.dmon_interval })
    }
}

fn instant(text: &str) -> Result<Timestamp, String> {
    let parsed: Result<Instant, _> = text.parse();
    parsed.map(|Instant(at)| at).map_err(|error| error.to_string())
}
