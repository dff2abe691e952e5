//! The command line: what can be asked, in the words of its users.
//!
//! It parses and validates, and nothing else; what a value does is decided where it is used.
//! What documents an option here is what `--help` prints.

#![allow(missing_docs, reason = "flattened groups have no help of their own")]

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::hold::MaxHold;
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::Plan;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{Nanos, Utilization};

use crate::experiment::{TraceParent, Traces};
use crate::sampler::SamplerConfig;
use crate::source::nvidia_smi::UtcOffset;

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

    /// The least that is said there; else as PHASEMETER_LOG says, else info.
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
}

/// `phasemeter audit`.
#[derive(Debug, Args)]
pub struct AuditArgs {
    /// Logs written by `nvidia-smi --query-gpu=… --format=csv`, plain or gzipped; `-` is standard
    /// input. Logs of the same GPUs that follow one another are one log.
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,

    /// How many GPUs take turns in a log that does not name them.
    #[arg(long, value_name = "N")]
    pub gpus: Option<NonZeroU32>,

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
    #[arg(long, value_name = "TRACES", default_value = "shared", value_parser = traces)]
    pub trace: Traces,

    /// Also write the report to this file, as JSON. The one for people goes to standard error.
    #[arg(long = "report", value_name = "FILE")]
    pub report_file: Option<PathBuf>,

    #[command(flatten)]
    pub metering: MeteringArgs,
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
    pub max_hold: Option<Nanos>,
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

    /// on_demand, spot, reserved_1y, reserved_3y or own. The book is asked for on_demand without it.
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
            max_hold: self.max_hold.map_or(MaxHold::Estimated, MaxHold::Fixed),
            ..MeterConfig::default()
        }
    }
}

impl RunArgs {
    /// The meter's configuration for a live run.
    pub fn config(&self) -> MeterConfig {
        let MeterArgs { thresholds, max_hold } = self.metering.meter;
        MeterConfig {
            thresholds,
            lateness: MeterConfig::LIVE_LATENESS,
            max_hold: max_hold.map_or(MaxHold::of_cadence(self.interval), MaxHold::Fixed),
            basis: self.basis,
            session_every: if self.ends_sessions() { MeterConfig::SESSION } else { Nanos::ZERO },
            ..MeterConfig::default()
        }
    }

    /// A command has an end, and its trace with it; nothing else is known to have one.
    fn ends_sessions(&self) -> bool {
        self.command.is_empty() || self.trace == Traces::PerSession
    }
}

fn traces(text: &str) -> Result<Traces, String> {
    match text {
        "shared" => Ok(Traces::Shared),
        "per-session" => Ok(Traces::PerSession),
        _ => Err("give shared or per-session".to_owned()),
    }
}

fn basis(text: &str) -> Result<Basis, String> {
    let known = [Basis::NvmlGpu, Basis::NvmlSamples, Basis::GpmSm];
    let named = known.into_iter().find(|basis| basis.name() == text);
    named.ok_or_else(|| "give nvml.gpu, nvml.samples or gpm.sm".to_owned())
}

fn interval(text: &str) -> Result<Nanos, String> {
    let fastest = SamplerConfig::FASTEST;
    seconds(text).ok().filter(|interval| *interval >= fastest).ok_or_else(|| {
        format!("give seconds, like 0.1; no value changes every {} s", fastest.as_secs_f64())
    })
}

fn thresholds(text: &str) -> Result<Thresholds, String> {
    let bounds: Option<Vec<_>> = text.split(',').map(percent).collect();
    match bounds.as_deref() {
        Some(&[idle, productive, compute_bound]) => {
            Thresholds::new(idle, productive, compute_bound).map_err(|error| error.to_string())
        }
        _ => Err("give three percentages, like 10,70,90".to_owned()),
    }
}

fn percent(text: &str) -> Option<Utilization> {
    decimal(text, 4).and_then(|ppm| u32::try_from(ppm).ok()).and_then(Utilization::from_ppm)
}

fn seconds(text: &str) -> Result<Nanos, String> {
    decimal(text, 9)
        .filter(|nanos| *nanos > 0)
        .map(Nanos)
        .ok_or_else(|| "give seconds above 0, like 15 or 0.5".to_owned())
}

/// A plain decimal number times 10^`places`; `None` where it is none, or finer than that.
fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !whole.is_empty() && fraction.len() <= places && digits(whole) && digits(fraction);
    if fits { format!("{whole}{fraction:0<places$}").parse().ok() } else { None }
}

fn work(text: &str) -> Result<(WorkUnit, u64), String> {
    let wanted =
        "give a unit and a count above 0, like samples=200000 (samples, tokens, epochs, steps)";
    let (unit, count) = text.split_once('=').ok_or(wanted)?;
    let unit = WorkUnit::from_str(unit, true).map_err(|_| wanted)?;
    match count.parse() {
        Ok(count) if count > 0 => Ok((unit, count)),
        _ => Err(wanted.to_owned()),
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
        assert_eq!(session(&["--trace", "per-session", "--", "train"]), MeterConfig::SESSION);
        assert!(Cli::try_parse_from(["phasemeter", "run", "--trace", "mine"]).is_err());
    }

    #[test]
    fn values_are_read_exactly_or_refused() {
        assert_eq!(seconds("0.5"), Ok(Nanos::from_millis(500)));
        assert_eq!(seconds("15"), Ok(Nanos::from_secs(15)));
        for text in ["", "0", "-1", "1e9", "x", "0.0000000001", "99999999999999"] {
            assert!(seconds(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(interval("0.1"), Ok(SamplerConfig::TICK));
        assert!(interval("0.009").is_err());
        assert_eq!(basis("gpm.sm"), Ok(Basis::GpmSm));
        assert!(basis("gpm").is_err());
        assert_eq!(thresholds("10,70,90"), Ok(Thresholds::default()));
        for text in ["", "10", "10,70", "10,70,101", "70,10,90", "10,70,90,95"] {
            assert!(thresholds(text).is_err(), "{text:?} was taken");
        }
        assert_eq!(work("samples=200000"), Ok((WorkUnit::Samples, 200_000)));
        for text in ["samples", "samples=0", "=5", "cats=5", "samples=-1"] {
            assert!(work(text).is_err(), "{text:?} was taken");
        }
    }
}
