//! The command line: what can be asked, in the words of its users.
//!
//! It parses and validates, and nothing else; what a value does is decided where it is used.
//! What documents an option here is what `--help` prints.

#![allow(missing_docs, reason = "flattened groups have no help of their own")]

mod advice;
mod metering;
mod policy;
mod value;

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

pub use advice::{AdviceArgs, Limit, WindowArgs};
use clap::{Args, Parser, Subcommand, ValueEnum};
pub use metering::{
    ExperimentArgs, Format, MeterArgs, MeteringArgs, PriceArgs, ReportArgs, SendArgs, WorkUnit,
};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::TraceMode;
use phasemeter_sources::nvidia_smi::UtcOffset;
pub use policy::{
    BenchArgs, BuildArgs, CheckArgs, CompileArgs, GuestArgs, HostArgs, InspectArgs, Language,
    NewArgs, PolicyCommand, RunPolicyArgs, ShownArgs, SignArgs, TestArgs, VerifyArgs,
};

use self::value::{basis, interval, seconds, traces};

/// Meters GPUs: readings become phases, phases become dollars, all of it OpenTelemetry.
#[derive(Debug, Parser)]
#[command(name = "phasemeter", version, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub log: LogArgs,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What is said of the work while it is done.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// How lines on standard error are written; else as PHASEMETER_LOG_FORMAT says, else as text.
    #[arg(long, global = true, value_enum, value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,

    /// The least that is said there; else as PHASEMETER_LOG_LEVEL says, else info.
    #[arg(long, global = true, value_enum, value_name = "LEVEL")]
    pub log_level: Option<LogLevel>,
}

/// How a line of the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: an object a line.
    Json,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What did not succeed.
    Error,
    /// And what someone should look at.
    Warn,
    /// And how the work goes.
    #[default]
    Info,
    /// And what explains it.
    Debug,
    /// And each step.
    Trace,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Tell what recorded nvidia-smi logs cost, and how much of it was wasted.
    Audit(Box<AuditArgs>),
    /// Meter the GPUs of this machine: while a command runs, or until it is told to end.
    Run(Box<RunArgs>),
    /// Record the GPUs of this machine as nvidia-smi would, to audit it later.
    Record(RecordArgs),
    /// Meter a made-up fleet of eight GPUs: no GPU, no configuration needed.
    Demo(Box<DemoArgs>),
    /// Write policies: start, build, test, sign and look into them.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Compile the policy on standard input, with limits of its own, to standard output.
    #[command(name = COMPILE, hide = true)]
    Compile {
        /// The layout of memory, the memory in bytes and the time in seconds.
        #[arg(num_args = 0..)]
        args: Vec<OsString>,
    },
}

/// The hidden command by which this program compiles policies in a child of its own.
pub const COMPILE: &str = "compile-policy";

/// `phasemeter audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Logs written by `nvidia-smi --query-gpu=… --format=csv`, plain or gzipped; `-` is standard
    /// input. Logs of the same GPUs that follow one another are one log.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// How many GPUs take turns in a log that does not name them.
    #[arg(long, value_name = "N")]
    pub gpu_count: Option<NonZeroU32>,

    /// The columns of a log without a header, like `timestamp,index,utilization.gpu`.
    #[arg(long, value_name = "NAMES")]
    pub columns: Option<String>,

    /// The model of the GPUs, where the log does not say, like `NVIDIA H100 80GB HBM3`.
    #[arg(long, value_name = "NAME")]
    pub gpu_model: Option<String>,

    /// The zone of the log's local times, like `+02:00`. They are taken as UTC without it.
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
    /// The log to write, gzipped where its name ends in .gz; `-` is standard output.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// A GPU to record: its index or uuid, or the beginning of that. Repeatable. Without it those
    /// that NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES leave, else all.
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,

    /// How many seconds lie between two readings.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    pub interval: Nanos,

    /// End after so many seconds. Without it, SIGINT or SIGTERM ends it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Nanos>,
}

/// `phasemeter run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The command to run and its arguments. It gets the signals that come, and its exit status is
    /// passed on. Without one the GPUs are metered until SIGINT or SIGTERM.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,

    /// A GPU to meter: its index or uuid, or the beginning of that. Repeatable. Without it those
    /// that NVIDIA_VISIBLE_DEVICES and CUDA_VISIBLE_DEVICES leave, else all.
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,

    /// What the bill is made from, where the GPU tells it: nvml.gpu (polled), nvml.samples (the
    /// driver's own samples) or gpm.sm (hardware counters). Where it does not, what polling reads.
    #[arg(long, value_name = "MEASURE", default_value = "nvml.samples", value_parser = basis)]
    pub basis: Basis,

    /// How many seconds lie between two readings.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    pub interval: Nanos,

    /// End after so many seconds. A command ends by itself.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "command")]
    pub duration: Option<Nanos>,

    /// Which traces the sessions of the GPUs stand in: shared (that of the command, or of the given
    /// context) or per-session (each in its own, linked to the one before). Without a command, or
    /// per-session, sessions end each hour. Without a command and a context each has its own trace.
    #[arg(long, value_name = "MODE", default_value = "shared", value_parser = traces)]
    pub trace_mode: TraceMode,

    /// Also write the report to this file, as JSON. The one for people goes to standard error.
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
    /// Another seed makes another fleet; the same seed the same report.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub send: SendArgs,

    /// Send it as time passes, this many times as fast as the clock, so that it can be watched: at
    /// 1 the fleet begins now, at 60 its two hours end two minutes from now. SIGINT ends it early,
    /// with its report.
    #[arg(long, value_name = "N", requires = "otlp", help_heading = "Report")]
    pub speed: Option<NonZeroU32>,
}

impl RunArgs {
    /// The meter's configuration for a live run.
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

    /// A command has an end, and its trace with it; nothing else is known to have one.
    fn ends_sessions(&self) -> bool {
        self.command.is_empty() || self.trace_mode == TraceMode::PerSession
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sessions_end_where_nothing_else_does() {
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
