//! Options of every metering command: phases, price, experiment and report.

use std::path::PathBuf;

use clap::builder::TypedValueParser;
use clap::{Args, ValueEnum};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::presence::MissingTime;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::work_unit::WorkUnit;
use phasemeter_otlp::encode::MetricSelection;
use phasemeter_otlp::experiment::TraceParent;

#[cfg(feature = "full")]
use super::alerts::AlertArgs;
use super::declared::DeclaredArgs;
use super::policies::PolicyArgs;
use super::value::{one_of, plan, seconds, thresholds, traceparent};
use super::work::work;

/// Options of every metering command.
#[derive(Clone, Debug, Args)]
pub struct MeteringArgs {
    #[command(flatten)]
    pub meter: MeterArgs,
    #[command(flatten)]
    pub price: PriceArgs,
    #[command(flatten)]
    pub experiment: ExperimentArgs,
    #[command(flatten)]
    pub declared: DeclaredArgs,
    #[command(flatten)]
    pub policies: PolicyArgs,
    #[cfg(feature = "full")]
    #[command(flatten)]
    pub alerts: AlertArgs,
    #[command(flatten)]
    pub report: ReportArgs,
}

/// How time is classified.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Phases")]
pub struct MeterArgs {
    /// Utilization in percent from which time is underutilized, productive and compute-bound.
    #[arg(long, value_name = "P,P,P", default_value = "10,70,90", value_parser = thresholds)]
    pub thresholds: Thresholds,

    /// Seconds until a reading is stale [default: 3 × the reading interval, at least 1].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub stale_after: Option<Nanos>,

    /// Local time of a log in seconds east of UTC, from its own option.
    #[arg(skip)]
    pub utc_offset: Option<i32>,

    /// What time without readings of a log or a gateway is, from its own option.
    #[arg(skip)]
    pub missing: MissingTime,
}

/// Time in which the source of readings does not list a GPU.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Phases")]
pub struct MissingArgs {
    /// Time of GPUs without readings: `unobserved` is billed, `absent` is not [default: unobserved, and
    /// absent after the last reading of a host that is gone: all its GPUs end and never return while
    /// others go on for ten minutes, or it returns as another instance].
    #[arg(long, value_name = "KIND", value_parser = missing())]
    missing: Option<MissingTime>,
}

fn missing() -> impl TypedValueParser<Value = MissingTime> {
    one_of([
        ("unobserved", "All of it is unobserved, and billed", MissingTime::Unobserved),
        ("absent", "None of it is billed", MissingTime::Absent),
    ])
}

impl MissingArgs {
    /// What time without readings is.
    pub const fn kind(self) -> MissingTime {
        match self.missing {
            None => MissingTime::ByEvidence,
            Some(given) => given,
        }
    }
}

/// The price of a GPU-hour.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(next_help_heading = "Price")]
pub struct PriceArgs {
    /// Price in USD per GPU-hour [default: from the price book].
    #[arg(long, value_name = "USD", value_parser = Rate::parse)]
    pub price: Option<Rate>,

    /// Price book of your own, laid over the built-in one: a CSV file as written by `phasemeter prices
    /// import`. Repeatable; later ones take precedence.
    #[arg(long, value_name = "FILE")]
    pub prices: Vec<PathBuf>,

    /// Cloud provider; the price book lists aws, azure and gcp [default: cloud.provider in
    /// OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,

    /// Region, like us-east-1 [default: cloud.region in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,

    /// Instance type, like p5.48xlarge [default: host.type in OTEL_RESOURCE_ATTRIBUTES].
    #[arg(long, value_name = "NAME")]
    pub instance_type: Option<String>,

    /// Purchase plan: on_demand, spot, reserved_1y, reserved_3y or owned [default for the price book:
    /// on_demand].
    #[arg(long, value_name = "PLAN", value_parser = plan)]
    pub plan: Option<PaymentPlan>,
}

/// The experiment.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Experiment")]
pub struct ExperimentArgs {
    /// Experiment ID [default: the trace ID].
    #[arg(long = "experiment", value_name = "ID")]
    pub id: Option<String>,

    /// W3C trace context of the parent span of the experiment.
    #[arg(long, value_name = "TRACEPARENT", value_parser = traceparent)]
    pub traceparent: Option<TraceParent>,

    /// Work done, to report its unit cost, like `samples=200000`. Repeatable.
    #[arg(long, value_name = "UNIT=COUNT", value_parser = work)]
    pub work: Vec<(WorkUnit, u64)>,
}

/// Report and output files.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct ReportArgs {
    /// Report format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// Color of the text.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = ColorChoice::Auto)]
    pub color: ColorChoice,

    /// Explain all recommendations in full, or those with this code, as in --explain=CODE.
    #[arg(long, value_name = "CODE", num_args = 0..=1, require_equals = true)]
    pub explain: Option<Option<String>>,

    /// Show each GPU; by default, alike GPUs share a line if there are more than 16.
    #[arg(long)]
    pub all_gpus: bool,

    /// Also write the report to this file, as JSON.
    #[arg(long = "report", value_name = "FILE")]
    pub report_file: Option<PathBuf>,

    /// Also write the report to this file as a page for a browser, which needs no network.
    #[arg(long = "html", value_name = "FILE")]
    pub html_file: Option<PathBuf>,

    /// Also write all telemetry to this file, as OTLP JSON: one export request per line.
    #[arg(long, value_name = "FILE")]
    pub otlp_file: Option<PathBuf>,

    /// Metrics to export: minimal, default or all, then keep:METRIC or drop:METRIC, separated by commas [env:
    /// PHASEMETER_METRICS] [default: default].
    #[arg(long, value_name = "SET")]
    pub metrics: Option<MetricSelection>,
}

/// OTLP export of recorded or synthetic readings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Report")]
pub struct SendArgs {
    /// Also export all telemetry over OTLP to this endpoint, as in --otlp=http://localhost:4318
    /// [default endpoint: OTEL_EXPORTER_OTLP_ENDPOINT, else localhost]. The other
    /// OTEL_EXPORTER_OTLP_* variables apply.
    #[cfg(feature = "full")]
    #[arg(long, value_name = "ENDPOINT", num_args = 0..=1, require_equals = true)]
    pub otlp: Option<Option<String>>,
}

/// When the text has colors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Report format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Text, for people.
    Text,
    /// JSON, for programs.
    Json,
}

impl MeterArgs {
    /// The configuration of the meter for a log.
    pub fn config(&self) -> MeterConfig {
        MeterConfig {
            thresholds: self.thresholds,
            stale_after: self.stale_after.map_or(StaleAfter::Estimated, StaleAfter::Fixed),
            utc_offset: self.utc_offset,
            missing: self.missing,
            ..MeterConfig::default()
        }
    }
}
