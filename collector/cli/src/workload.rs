//! Options of what the telemetry of a workload is used for: the price of its spans, and its work.

use std::path::PathBuf;

use clap::Args;
use phasemeter_attribution::Limits;
use phasemeter_attribution::selection::Selection;
use phasemeter_engine::gateway::SpanFilter;
use phasemeter_meter::units::Nanos;
use phasemeter_receiver as receiver;

use super::value::seconds;

const MEBIBYTE: usize = 1 << 20;

/// Which spans of a workload are priced.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Spans")]
pub struct SpanArgs {
    /// Price spans of the workload: those whose name matches a glob (train_step, llm_*), or that have an
    /// attribute (gen_ai.operation.name=chat), of the span or its resource. Repeatable, and separated by
    /// commas. They wait until the cost of their time is final, and leave with phasemeter.span.*.
    #[arg(long, value_name = "GLOB|KEY=VALUE")]
    pub price_spans: Vec<Selection>,

    /// Numeric attribute by which spans share GPU time while several are active, in proportion to the
    /// attribute divided by the duration of the span [default: equally].
    #[arg(long, value_name = "ATTRIBUTE", requires = "price_spans")]
    pub span_weight: Option<String>,

    /// Seconds that a span waits at most. Then it leaves without its cost, which follows as event
    /// phasemeter.span.priced.
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds, requires = "price_spans")]
    pub span_wait: Nanos,

    /// MiB of spans that wait at most. Further ones leave without their cost, which follows.
    #[arg(long, value_name = "MIB", default_value = "64", requires = "price_spans", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub span_memory: u16,
}

/// What the receiver takes.
#[derive(Clone, Copy, Debug, Args)]
pub struct RequestSizeArgs {
    /// MiB of a received request at most, compressed or not, over gRPC and HTTP; at most a quarter of the memory limit
    /// of the control group.
    #[arg(long, value_name = "MIB", default_value = "20", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub max_request_body_size: u16,
}

/// How counters of a workload are read.
#[derive(Clone, Debug, Args)]
pub struct WorkMappingArgs {
    /// Mapping of counters of your own to units of work: a TOML file like those in
    /// otel-config/mappings/work. Repeatable; it replaces the built-in mapping of the same metrics.
    #[arg(long, value_name = "FILE")]
    pub work_mapping: Vec<PathBuf>,
}

impl RequestSizeArgs {
    /// The limits of a receiver in a process with this much memory, if that is limited.
    pub fn limits(self, memory: Option<u64>) -> receiver::Limits {
        receiver::Limits::for_requests(usize::from(self.max_request_body_size) * MEBIBYTE, memory)
    }
}

impl SpanArgs {
    /// The spans that are priced.
    pub fn filter(&self) -> SpanFilter {
        SpanFilter { selections: self.price_spans.clone(), weight: self.span_weight.clone() }
    }

    /// Limits for waiting spans; zero if none are priced.
    pub fn limits(&self) -> Limits {
        let max_bytes = match self.price_spans.is_empty() {
            true => 0,
            false => usize::from(self.span_memory) * MEBIBYTE,
        };
        Limits { max_bytes, max_wait: self.span_wait, ..Limits::default() }
    }
}
