//! The command line: parsing and validation only. Doc comments of options are their help texts.
//!
//! Must not depend on what an option does.

#![allow(missing_docs, reason = "flattened groups have no help of their own")]

mod metering;
mod policies;
mod policy;
mod value;
mod work;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
pub use metering::{
    ExperimentArgs, Format, MeterArgs, MeteringArgs, PriceArgs, ReportArgs, SendArgs,
};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::TraceMode;
use phasemeter_sources::nvidia_smi::UtcOffset;
pub use policies::{Limit, PolicyArgs, WindowArgs};
pub use policy::{
    BenchArgs, BuildArgs, CheckArgs, CompileArgs, GuestArgs, HostArgs, InputArgs, InspectArgs,
    Language, NewArgs, PolicyCommand, RunPolicyArgs, SignArgs, TestArgs, VerifyArgs,
};
pub use work::WorkUnit;

use self::value::{basis, interval, seconds, traces};

/// Measures what GPUs cost and how much of it is wasted, and exports it over OpenTelemetry.
#[derive(Debug, Parser)]
#[command(name = "phasemeter", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,

    #[command(subcommand)]
    pub command: Command,
}

/// Logging to standard error.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Log format [env: PHASEMETER_LOG_FORMAT] [default: text].
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// Minimum log level [env: PHASEMETER_LOG_LEVEL] [default: info].
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
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
    Run(Box<RunArgs>),
    /// Record this machine's GPUs in nvidia-smi format, for a later audit.
    Record(RecordArgs),
    /// Meter a synthetic fleet of eight GPUs; requires no GPU and no configuration.
    Demo(Box<DemoArgs>),
    /// Create, build, test, sign and inspect policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Compile a policy from standard input to standard output, within limits.
    #[command(name = COMPILE, hide = true)]
    Compile {
        /// Memory layout, memory in bytes and time in seconds.
        #[arg(num_args = 0..)]
        args: Vec<OsString>,
    },
}

/// The hidden command that compiles policies in a subprocess.
pub const COMPILE: &str = "compile-policy";

/// `phasemeter audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Logs written by `nvidia-smi --query-gpu=… --format=csv`, plain or gzipped; `-` is standard
    /// input. Consecutive logs of the same GPUs are joined.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// Number of GPUs whose rows alternate in a log that does not identify them.
    #[arg(long, value_name = "N")]
    pub gpu_count: Option<NonZeroU32>,

    /// Columns of a log without a header, like `timestamp,index,utilization.gpu`.
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,

    /// Model of the GPUs, like `NVIDIA H100 80GB HBM3`, if the log has no model column.
    #[arg(long, value_name = "NAME")]
    pub gpu_model: Option<String>,

    /// UTC offset of the log's local times, like `+02:00` [default: UTC].
    #[arg(long, value_name = "±HH:MM", allow_hyphen_values = true)]
    pub utc_offset: Option<UtcOffset>,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub send: SendArgs,
}

/// `phasemeter record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Log file to write, gzipped if its name ends in .gz; `-` is standard output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// GPU to record: its index, UUID or a prefix of the UUID. Repeatable [default: the GPUs visible
    /// by NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, else all].
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,

    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    pub interval: Nanos,

    /// Stop after this many seconds [default: until SIGINT or SIGTERM].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Nanos>,
}

/// `phasemeter run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Command to run, with its arguments. Signals are forwarded to it, and its exit status is
    /// returned. Without a command, GPUs are metered until SIGINT or SIGTERM.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,

    /// GPU to meter: its index, UUID or a prefix of the UUID. Repeatable [default: the GPUs visible
    /// by NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES, else all].
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,

    /// Utilization source for billing: nvml.gpu (polled), nvml.samples (driver samples) or gpm.sm
    /// (hardware counters). Falls back to nvml.gpu if the GPU does not support it.
    #[arg(long, value_name = "BASIS", default_value = "nvml.samples", value_parser = basis)]
    pub basis: Basis,

    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    pub interval: Nanos,

    /// Stop after this many seconds. Not allowed with a command.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "command")]
    pub duration: Option<Nanos>,

    /// Traces of GPU sessions: shared (the trace of the command, or of the given context) or
    /// per-session (one trace each, linked to the previous one). Without a command, or with
    /// per-session, a session ends every hour. Without command and context, every session has its
    /// own trace.
    #[arg(long, value_name = "MODE", default_value = "shared", value_parser = traces)]
    pub trace_mode: TraceMode,

    /// Also write the report to this file, as JSON. The text report goes to standard error.
    #[arg(long = "report", value_name = "FILE")]
    pub report_file: Option<PathBuf>,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub windows: WindowArgs,
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
    #[arg(long, value_name = "N", requires = "otlp", help_heading = "Report")]
    pub speed: Option<NonZeroU32>,
}

impl RunArgs {
    /// The configuration of the meter for a live run.
    pub fn config(&self) -> MeterConfig {
        let MeterArgs { thresholds, stale_after } = self.metering.meter;
        MeterConfig {
            thresholds,
            allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
            stale_after: stale_after
                .map_or(StaleAfter::from_interval(self.interval), StaleAfter::Fixed),
            basis: self.basis,
            session_every: if self.ends_sessions() { MeterConfig::SESSION } else { Nanos::ZERO },
            ..MeterConfig::default()
        }
    }

    /// Whether sessions end every hour: they do unless a command ends them.
    fn ends_sessions(&self) -> bool {
        self.command.is_empty() || self.trace_mode == TraceMode::PerSession
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sessions_end_hourly_without_command() {
        let session = |args: &[&str]| {
            let cli = Cli::try_parse_from([&["phasemeter", "run"], args].concat()).unwrap();
            let Command::Run(args) = cli.command else { panic!("{args:?}") };
            args.config().session_every
        };
        assert_eq!(session(&[]), MeterConfig::SESSION);
        assert_eq!(session(&["--", "train"]), Nanos::ZERO);
        assert_eq!(session(&["--trace-mode", "per-session", "--", "train"]), MeterConfig::SESSION);
        assert!(Cli::try_parse_from(["phasemeter", "run", "--trace-mode", "mine"]).is_err());
    }
}
