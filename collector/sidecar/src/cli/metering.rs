//! What every command that meters can be told: how time is read, what it costs, whose it is, and
//! what comes out.
//!
//! This room must not know which command it is.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::Plan;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::TraceParent;

use super::AdviceArgs;
use super::value::{seconds, thresholds, work};

/// What every command that meters can be told.
#[derive(Clone, Debug, Args)]
pub struct MeteringArgs {
    #[command(flatten)]
    pub meter: MeterArgs,
    #[command(flatten)]
    pub price: PriceArgs,
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    #[command(flatten)]
    pub advice: AdviceArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How time is read.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Phases")]
pub struct MeterArgs {
    /// Utilization in percent at which underutilized, productive and compute-bound begin.
    #[arg(long, value_name = "P,P,P", default_value = "10,70,90", value_parser = thresholds)]
    pub thresholds: Thresholds,

    /// How many seconds a reading holds when none follows. A log's is told from its cadence.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stale_after: Option<Nanos>,
}

/// What a GPU-hour costs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Price")]
pub struct PriceArgs {
    /// Dollars a GPU-hour. Without it the price book is asked.
    #[arg(long, value_name = "USD", value_parser = Rate::parse, 
          conflicts_with_all = ["provider", "region", "instance_type"])]
    pub price: Option<Rate>,

    /// The cloud, as the price book names it: aws, azure, gcp.
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// The region, like us-east-1.
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,

    /// The instance type, like p5.48xlarge.
    #[arg(long, value_name = "NAME")]
    pub instance_type: Option<String>,

    /// on_demand, spot, reserved_1y, reserved_3y or owned. The book is asked for on_demand without it.
    #[arg(long, value_name = "PLAN")]
    pub plan: Option<Plan>,
}

/// What the time belongs to.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Experiment")]
pub struct ExperimentArgs {
    /// The experiment's id. Without it the trace id serves.
    #[arg(long = "experiment", value_name = "ID")]
    pub id: Option<String>,

    /// The W3C trace context that the experiment is a child of.
    #[arg(long, value_name = "TRACEPARENT")]
    pub traceparent: Option<TraceParent>,

    /// Work that was done, to tell what a unit of it cost, like `samples=200000`. Repeatable.
    #[arg(long, value_name = "UNIT=COUNT", value_parser = work)]
    pub work: Vec<(WorkUnit, u64)>,
}

/// What work is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WorkUnit {
    /// Training samples or requests.
    Samples,
    /// Tokens.
    Tokens,
    /// Epochs.
    Epochs,
    /// Optimizer steps.
    Steps,
}

impl WorkUnit {
    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Tokens => "tokens",
            Self::Epochs => "epochs",
            Self::Steps => "steps",
        }
    }
}

/// What comes out.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// How the report is written.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Also write what a live run sends: OTLP JSON, one export request a line.
    #[arg(long, value_name = "FILE")]
    pub otlp_file: Option<PathBuf>,
}

/// Where what a live run would have sent is sent.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct SendArgs {
    /// Also send what a live run would have sent, to this endpoint, as in
    /// --otlp=http://localhost:4318; without one to where OTEL_EXPORTER_OTLP_ENDPOINT says, else to
    /// this machine. The other OTEL_EXPORTER_OTLP_… variables hold as well.
    #[arg(long, value_name = "ENDPOINT", num_args = 0..=1, require_equals = true)]
    pub otlp: Option<Option<String>>,
}

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs, by the schema in the repository.
    Json,
}

impl MeterArgs {
    /// The meter's configuration for a log.
    pub fn config(&self) -> MeterConfig {
        MeterConfig {
            thresholds: self.thresholds,
            stale_after: self.stale_after.map_or(StaleAfter::Estimated, StaleAfter::Fixed),
            ..MeterConfig::default()
        }
    }
}
