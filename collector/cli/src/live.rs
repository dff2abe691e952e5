//! Options of the commands that read this machine's GPUs.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, FromArgMatches};
use phasemeter_engine::sampler::SamplerConfig;
use phasemeter_logs::nvidia_smi::UtcOffset;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::TraceMode;
use phasemeter_receiver::ListenAddress;

use super::export::ExportArgs;
use super::value::{duration, period, seconds};
use super::{InterruptionArgs, MeterArgs, MeteringArgs};
use super::{RequestSizeArgs, SpanArgs, TrialRecordArgs, WorkMappingArgs};

/// `phasemeter record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Log file to write, gzipped if its name ends in .gz; `-` is standard output. A file that has a log is kept.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// Overwrite FILE if it exists.
    #[arg(long)]
    pub overwrite: bool,

    /// GPU to record: its index, UUID or a prefix of it, a CDI device, `all`, or the path of a file with such names.
    /// Repeatable [default: PHASEMETER_GPU, else all visible GPUs].
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
#[command(mut_arg("command", |arg| arg.conflicts_with("duration")))]
pub struct RunArgs {
    #[command(flatten)]
    pub workload: WorkloadArgs,

    #[command(flatten)]
    pub machine: MachineArgs,
}

/// The command of a run, and what it reports.
#[derive(Debug, Args)]
pub struct WorkloadArgs {
    /// Command to run, with its arguments. Signals are forwarded to it, and its exit status is
    /// returned. Without a command, GPUs are metered until SIGINT or SIGTERM.
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,

    /// Receive the command's telemetry and forward it to OTEL_EXPORTER_OTLP_ENDPOINT. The command's
    /// variable of that name is this address: a free port of the loopback address, for the command only,
    /// or the given one, for everyone who can connect.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, requires = "command")]
    pub receive: Option<Option<ListenAddress>>,

    /// Implies --receive.
    #[command(flatten)]
    pub spans: SpanArgs,

    #[command(flatten)]
    pub request_size: RequestSizeArgs,

    #[command(flatten)]
    pub work_mappings: WorkMappingArgs,

    /// Unix socket on which the workload reports its work, one line each: `work samples 512`, `step`,
    /// `epoch` or `checkpoint`. Its path is in PHASEMETER_SOCKET of the command's environment
    /// [default: a new one, if there is a command].
    #[arg(long, value_name = "PATH")]
    pub work_socket: Option<PathBuf>,

    #[command(flatten)]
    pub interruptions: InterruptionArgs,
}

/// Options of the commands that meter this machine's GPUs.
#[derive(Debug, Args)]
pub struct MachineArgs {
    /// GPU to meter: its index, UUID or a prefix of it, a CDI device, `all`, or the path of a file with such names.
    /// Repeatable [default: PHASEMETER_GPU, else those of this pod, else all visible GPUs; in a pod without evidence,
    /// none. An agent meters all visible GPUs].
    #[arg(long = "gpu", value_name = "GPU", value_delimiter = ',')]
    pub gpus: Vec<String>,

    /// End with status 69, before the command starts, unless every selected GPU responds within 30
    /// seconds. Otherwise the command runs, and GPUs that do not respond are unobserved.
    #[arg(long)]
    pub require_gpu: bool,

    /// Utilization source for billing: nvml.gpu (polled), nvml.samples (driver samples) or gpm.sm
    /// (hardware counters). Falls back to nvml.gpu if the GPU does not support it.
    #[arg(long, value_name = "BASIS", default_value = "nvml.samples", value_parser = basis)]
    pub basis: Basis,

    /// Seconds between readings.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = interval)]
    pub interval: Nanos,

    /// Stop after this many seconds. Not allowed with a command.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Nanos>,

    /// Traces of GPU sessions: shared (the trace of the command, or of the given context) or
    /// per-session (one trace each, linked to the previous one). Without a command, or with
    /// per-session, a session ends every hour. Without command and context, every session has its
    /// own trace.
    #[arg(long, value_name = "MODE", default_value = "shared", value_parser = traces)]
    pub trace_mode: TraceMode,

    /// The /proc of the host, if it is mounted elsewhere. The programs on GPUs tell a service from a training;
    /// of each, only its command line is read, and nothing of it is kept [default: /proc, unless process
    /// IDs are those of a container].
    #[arg(long, value_name = "PATH")]
    pub procfs: Option<PathBuf>,

    /// End with status 74 if the backend has not accepted all telemetry, unless the command itself has
    /// failed.
    #[arg(long)]
    pub fail_on_undelivered: bool,

    #[command(flatten)]
    pub live: LiveArgs,
}

/// Options of the commands that meter until they are ended.
#[derive(Debug, Args)]
pub struct LiveArgs {
    #[command(flatten)]
    pub export: ExportArgs,

    /// UTC offset of the hours of the week, like `+02:00` [default: the time zone of TZ, else of this
    /// machine].
    #[arg(long, value_name = "±HH:MM", allow_hyphen_values = true)]
    pub utc_offset: Option<UtcOffset>,

    /// Also write the report of --report while the run goes on, this often: a number with s, m, h or d, like 1h. Each
    /// has all of the run until then, or of the period in progress, and replaces the one before, so that a run that is
    /// killed leaves it. The file has the start of the run in its name: FILE-20261126T140000Z.json.
    #[arg(long, value_name = "DURATION", value_parser = duration, requires = "report_file")]
    pub report_every: Option<Nanos>,

    /// Begin a new file of --report for each period in UTC, like 1h or 24h, of any length that divides a day. Each has
    /// the accounts of its period only, and its start in the name: FILE-20261126T134502Z-20261126T140000Z.json.
    #[arg(long, value_name = "DURATION", value_parser = period, requires = "report_file")]
    pub report_period: Option<Nanos>,

    /// Address for probes and for Prometheus, IP:PORT: /livez, /readyz, grpc.health.v1, and /metrics with all metrics
    /// that are exported as OTLP, even if no endpoint is set. Without a token: use loopback, or a network policy. Also
    /// /status, for `phasemeter status` and `top` on this machine [default: none].
    #[arg(long, value_name = "ADDRESS")]
    pub health_listen: Option<SocketAddr>,

    #[command(flatten)]
    pub metering: MeteringArgs,

    #[command(flatten)]
    pub windows: WindowArgs,

    #[command(flatten)]
    pub trials: TrialRecordArgs,
}

/// Windows of a live run.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Policies")]
pub struct WindowArgs {
    /// Seconds between windows that policies evaluate. The last window is at the end of the run.
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = seconds)]
    pub window_interval: Nanos,
}

impl WorkloadArgs {
    /// The options of a run without a command that reports no work.
    pub fn none() -> Result<Self, clap::Error> {
        let options = Self::augment_args(clap::Command::new("none").no_binary_name(true));
        Self::from_arg_matches(&options.try_get_matches_from([""; 0])?)
    }
}

impl MachineArgs {
    /// The configuration of the meter for a live run.
    pub fn config(&self, has_command: bool) -> MeterConfig {
        let MeterArgs { thresholds, stale_after, .. } = self.live.metering.meter;
        MeterConfig {
            thresholds,
            allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
            stale_after: stale_after
                .map_or(StaleAfter::from_interval(self.interval), StaleAfter::Fixed),
            basis: self.basis,
            session_every: if self.ends_sessions(has_command) {
                MeterConfig::SESSION
            } else {
                Nanos::ZERO
            },
            ..MeterConfig::default()
        }
    }

    /// How late what belongs to a period of the report may be known.
    pub fn lateness(&self) -> Nanos {
        let (allowed, interval) = (MeterConfig::LIVE_ALLOWED_LATENESS, self.interval);
        allowed.saturating_mul(2) + interval.saturating_mul(3)
    }

    /// Whether sessions end every hour: they do unless a command ends them.
    fn ends_sessions(&self, has_command: bool) -> bool {
        !has_command || self.trace_mode == TraceMode::PerSession
    }
}

fn traces(text: &str) -> Result<TraceMode, String> {
    match text {
        "shared" => Ok(TraceMode::Shared),
        "per-session" => Ok(TraceMode::PerSession),
        _ => Err("expected shared or per-session".to_owned()),
    }
}

fn basis(text: &str) -> Result<Basis, String> {
    let bases = [Basis::NvmlGpu, Basis::NvmlSamples, Basis::GpmSm];
    let found = bases.into_iter().find(|basis| basis.name() == text);
    found.ok_or_else(|| "expected nvml.gpu, nvml.samples or gpm.sm".to_owned())
}

fn interval(text: &str) -> Result<Nanos, String> {
    let fastest = SamplerConfig::MIN_TICK;
    seconds(text)
        .ok()
        .filter(|interval| *interval >= fastest)
        .ok_or_else(|| format!("expected seconds, at least {}", fastest.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Cli, Command};

    #[test]
    fn sessions_end_hourly_without_command() {
        let session = |args: &[&str]| {
            let cli = Cli::try_parse_from([&["phasemeter", "run"], args].concat()).unwrap();
            let Command::Run(args) = cli.command else { panic!("{args:?}") };
            args.machine.config(!args.workload.command.is_empty()).session_every
        };
        assert_eq!(session(&[]), MeterConfig::SESSION);
        assert_eq!(session(&["--", "train"]), Nanos::ZERO);
        assert_eq!(session(&["--trace-mode", "per-session", "--", "train"]), MeterConfig::SESSION);
        assert!(Cli::try_parse_from(["phasemeter", "run", "--trace-mode", "mine"]).is_err());
    }

    #[test]
    fn values_are_parsed_exactly_or_rejected() {
        assert_eq!(interval("0.1"), Ok(SamplerConfig::DEFAULT_TICK));
        assert!(interval("0.009").is_err());
        assert_eq!(basis("gpm.sm"), Ok(Basis::GpmSm));
        assert!(basis("gpm").is_err());
    }
}
