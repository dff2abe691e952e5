//! The command line: parsing and validation only. Doc comments of options are their help texts.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]
#![allow(missing_docs, reason = "flattened groups have no help of their own")]

#[cfg(feature = "full")]
mod agent;
#[cfg(feature = "full")]
mod alerts;
#[cfg(feature = "full")]
mod bill;
#[cfg(feature = "full")]
mod configuration;
mod declared;
#[cfg(feature = "full")]
mod doctor;
#[cfg(feature = "full")]
mod documents;
#[cfg(feature = "full")]
mod export;
#[cfg(feature = "full")]
mod gateway;
#[cfg(feature = "full")]
mod interruptions;
#[cfg(feature = "full")]
mod live;
mod metering;
#[cfg(feature = "full")]
mod metric_log;
#[cfg(feature = "full")]
mod plan;
#[cfg(feature = "full")]
mod pod_labels;
mod policies;
#[cfg(feature = "full")]
mod policy;
#[cfg(feature = "full")]
mod prices;
#[cfg(feature = "full")]
mod status;
mod value;
mod work;
#[cfg(feature = "full")]
mod workload;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

#[cfg(feature = "full")]
pub use agent::{AgentArgs, NodeArgs, PriceLabel};
#[cfg(feature = "full")]
pub use alerts::AlertArgs;
#[cfg(feature = "full")]
pub use bill::{
    BillArgs, BillFormat, CompareArgs, OverlayArgs, PageArgs, TrialArgs, TrialRecordArgs,
};
use clap::{Args, Parser, Subcommand, ValueEnum};
#[cfg(feature = "full")]
pub use configuration::{ConfigArgs, ConfigCommand, FileArgs};
#[cfg(feature = "full")]
pub use doctor::DoctorArgs;
#[cfg(feature = "full")]
pub use documents::{CompletionsArgs, ManArgs};
#[cfg(feature = "full")]
pub use export::{ExportArgs, FlushArgs};
#[cfg(feature = "full")]
pub use gateway::{GatewayArgs, ReceiveArgs};
#[cfg(feature = "full")]
pub use interruptions::{CommandSignal, InterruptionArgs};
#[cfg(feature = "full")]
pub use live::{LiveArgs, MachineArgs, RecordArgs, RunArgs, WorkloadArgs};
pub use metering::{
    ColorChoice, ExperimentArgs, Format, MeterArgs, MeteringArgs, MissingArgs, PriceArgs,
    ReportArgs, SendArgs,
};
#[cfg(feature = "full")]
pub use metric_log::MetricLogArgs;
use phasemeter_logs::nvidia_smi::UtcOffset;
#[cfg(feature = "full")]
pub use plan::{
    BatchingArgs, CapacityArgs, CheckpointingExtent, CommitmentArgs, MemoryArgs, OfferArg,
    Optimizer, OutputArgs, OwnArgs, PlanCommand, PlanPriceArgs, Precision, PricerArgs, SelectArgs,
    SharingArgs, Solve, SpotArgs, WorkloadArg,
};
#[cfg(feature = "full")]
pub use pod_labels::MAX_LABELS;
pub use policies::{Limit, PolicyArgs, PolicyLimits};
#[cfg(feature = "full")]
pub use policy::{
    BenchArgs, BuildArgs, CheckArgs, CompileArgs, GuestArgs, HostArgs, InputArgs, InspectArgs,
    Language, NewArgs, PolicyCommand, RunPolicyArgs, SignArgs, TestArgs, VerifyArgs,
};
#[cfg(feature = "full")]
pub use prices::{
    AgeArgs, BookArgs, Cloud, DiffArgs, ImportArgs, ListArgs, PricesCommand, ShowPricesArgs,
};
#[cfg(feature = "full")]
pub use status::{StatusArgs, TopArgs};
#[cfg(feature = "full")]
pub use workload::{RequestSizeArgs, SpanArgs, WorkMappingArgs};

/// Measures what GPUs cost and how much of it is wasted, and exports it over OpenTelemetry.
#[derive(Debug, Parser)]
#[command(name = "phasemeter", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,

    /// End with status 78, before anything starts, if a variable of OpenTelemetry or Phasemeter is invalid.
    /// Otherwise its default is used, with a warning.
    #[arg(long, global = true, help_heading = "Environment")]
    pub strict: bool,

    #[cfg(feature = "full")]
    #[command(flatten)]
    pub configuration: ConfigArgs,

    #[command(subcommand)]
    pub command: Command,
}

/// Logging to standard error.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Log format [env: PHASEMETER_LOG_FORMAT] [default: text].
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Minimum log level [env: PHASEMETER_LOG_LEVEL, else OTEL_LOG_LEVEL] [default: info].
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

impl Cli {
    /// The options of the log. `doctor` states all problems itself: without an option, it logs errors only.
    pub fn log(&self) -> LogArgs {
        #[cfg(feature = "full")]
        if matches!(self.command, Command::Doctor(_)) {
            return LogArgs { log_level: self.log.log_level.or(Some(LogLevel::Error)), ..self.log };
        }
        self.log
    }
}

/// A log format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// JSON, for programs: one object per line.
    Json,
}

/// A log level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// Also warnings.
    Warn,
    /// Also progress.
    #[default]
    Info,
    /// Also details.
    Debug,
    /// Everything.
    Trace,
}

/// A subcommand.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report the cost and waste of recorded nvidia-smi logs.
    Audit(Box<AuditArgs>),
    /// Meter this machine's GPUs while a command runs, or until interrupted.
    #[cfg(feature = "full")]
    Run(Box<RunArgs>),
    /// Meter all GPUs of this node, and divide their cost among the pods and jobs that hold them.
    #[cfg(feature = "full")]
    Agent(Box<AgentArgs>),
    /// Forward OTLP of other programs, and meter the GPUs whose metrics pass.
    #[cfg(feature = "full")]
    Gateway(Box<GatewayArgs>),
    /// Check what works here, from the driver to the backend, without metering or sending anything.
    #[cfg(feature = "full")]
    Doctor(Box<DoctorArgs>),
    /// Show what a run, agent or gateway in progress costs so far, and what to do first.
    #[cfg(feature = "full")]
    Status(StatusArgs),
    /// Show the GPUs of a run, agent or gateway in progress, live in the terminal.
    #[cfg(feature = "full")]
    Top(TopArgs),
    /// Deliver what runs that ended have left in the data directory.
    #[cfg(feature = "full")]
    Flush(FlushArgs),
    /// Record this machine's GPUs in nvidia-smi format, for a later audit.
    #[cfg(feature = "full")]
    Record(RecordArgs),
    /// Meter a synthetic fleet of eight GPUs; requires no GPU and no configuration.
    Demo(Box<DemoArgs>),
    /// Split the cost of any number of JSON reports: who pays for which GPU time.
    #[cfg(feature = "full")]
    Bill(BillArgs),
    /// Compare two JSON reports of the same work, before and after a change.
    #[cfg(feature = "full")]
    Compare(CompareArgs),
    /// Settle a recommendation to be tried, by two JSON reports of the same work.
    #[cfg(feature = "full")]
    Trial(TrialArgs),
    /// Write a JSON report as a page for a browser, which needs no network.
    #[cfg(feature = "full")]
    Page(PageArgs),
    /// Lay a JSON report over a file of PyTorch's profiler: phases and dollars as tracks in it.
    #[cfg(feature = "full")]
    Overlay(OverlayArgs),
    /// Plan before renting: memory, number of GPUs, payment plan, sharing, and more.
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Plan(PlanCommand),
    /// List, compare and import list prices.
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Prices(PricesCommand),
    /// Create, build, test, sign and inspect policies.
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Check and print configuration files, and print their schema.
    #[cfg(feature = "full")]
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print the completions of a shell, to be loaded by it.
    #[cfg(feature = "full")]
    Completions(CompletionsArgs),
    /// Print the man page of this program, or write one of each command.
    #[cfg(feature = "full")]
    Man(ManArgs),
    /// Compile a policy from standard input to standard output, within limits.
    #[command(name = COMPILE, hide = true)]
    Compile {
        /// Memory layout, memory in bytes and time in seconds.
        #[arg(num_args = 0..)]
        args: Vec<OsString>,
    },
    /// Keep signals to the process group pending, to tell them from signals to one process.
    #[cfg(feature = "full")]
    #[command(name = GROUP_PROBE, hide = true)]
    GroupProbe,
    /// Load the driver's library, to see whether that ends.
    #[cfg(feature = "full")]
    #[command(name = LOAD_TRIAL, hide = true)]
    LoadTrial,
}

/// The hidden command that compiles policies in a subprocess.
pub const COMPILE: &str = "compile-policy";

/// The hidden command that receives the signals of a process group.
#[cfg(feature = "full")]
pub const GROUP_PROBE: &str = "group-probe";

/// The hidden command that loads the driver's library.
#[cfg(feature = "full")]
pub const LOAD_TRIAL: &str = "load-driver";

/// `phasemeter audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Logs written by `nvidia-smi`, with `--query-gpu=… --format=csv`, `dmon -o DT` or `-q -x`, pages of
    /// dcgm-exporter, output of `dcgmi dmon`, or OTLP in JSON; plain or gzipped. `-` is standard input. Consecutive logs of the same
    /// GPUs are joined.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// Number of GPUs whose rows alternate in a log that does not identify them.
    #[arg(long, value_name = "N")]
    pub gpu_count: Option<NonZeroU32>,

    /// Columns of a log without a header, or in place of its header, like
    /// `timestamp,index,utilization.gpu`.
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,

    /// Model of the GPUs whose model is not in the log, like `NVIDIA H100 80GB HBM3`.
    #[arg(long, value_name = "NAME")]
    pub gpu_model: Option<String>,

    /// Model of all GPUs, in place of the log's.
    #[arg(long, value_name = "NAME", conflicts_with = "gpu_model")]
    pub gpu_model_override: Option<String>,

    /// UTC offset of the log's local times, like `+02:00` [default: UTC].
    #[arg(long, value_name = "±HH:MM", allow_hyphen_values = true)]
    pub utc_offset: Option<UtcOffset>,

    /// Work done over time, to report it by hour: a CSV file with the columns time (UTC), unit and
    /// count, like `2026-07-27T00:22:27Z,samples,512`. Its total replaces --work.
    #[arg(long, value_name = "FILE", conflicts_with = "work", help_heading = "Experiment")]
    pub work_log: Option<PathBuf>,

    /// Exit with status 1 if an alert opened, for checks in CI.
    #[cfg(feature = "full")]
    #[arg(long, requires = "alerts", help_heading = "Alerts")]
    pub fail_on_alert: bool,

    #[cfg(feature = "full")]
    #[command(flatten)]
    pub metrics: MetricLogArgs,

    #[command(flatten)]
    pub missing: MissingArgs,

    #[cfg(feature = "full")]
    #[command(flatten)]
    pub trials: TrialRecordArgs,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub send: SendArgs,
}

/// `phasemeter demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Seed of the fleet. Equal seeds produce equal reports.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub send: SendArgs,

    /// Export in real time, accelerated by this factor: at 1 the fleet starts now; at 60 its two
    /// hours end two minutes from now. SIGINT stops it early, with a report.
    #[cfg_attr(feature = "full", arg(requires = "otlp"))]
    #[arg(long, value_name = "N", help_heading = "Report")]
    pub speed: Option<NonZeroU32>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// The services of systemd start with these options.
    #[cfg(feature = "full")]
    #[test]
    fn services_start_with_options_that_exist() {
        for service in [
            include_str!("../../../otel-config/systemd/phasemeter-agent.service"),
            include_str!("../../../otel-config/systemd/phasemeter-gateway.service"),
        ] {
            let mut starts = service.lines().filter_map(|line| line.strip_prefix("ExecStart="));
            let line = starts.next().unwrap();
            assert_eq!(starts.next(), None);
            let words = line.split(' ').filter(|word| !word.starts_with('$'));
            let cli = Cli::try_parse_from(words).unwrap();
            assert!(matches!(cli.command, Command::Agent(_) | Command::Gateway(_)), "{line}");
        }
    }
}
