//! Options of the gateway, and those of receiving OTLP.

use std::path::PathBuf;

use clap::Args;
use clap::builder::RangedU64ValueParser;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::presence::MissingTime;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::Nanos;
use phasemeter_receiver::ListenAddress;
use phasemeter_sources::mapping::ReadingBuffer;

use super::pod_labels::label_key;
use super::value::seconds;
use super::{LiveArgs, MeterArgs, MissingArgs, RequestSizeArgs, SpanArgs, WorkMappingArgs};

/// The longest that a value may be older than the clock: ten years.
const MAX_AGE: Nanos = Nanos::from_secs(3_650 * 86_400);

/// From a minute to ten years.
fn age(text: &str) -> Result<Nanos, String> {
    let is_allowed = |age: &Nanos| (Nanos::from_secs(60)..=MAX_AGE).contains(age);
    let expected =
        || format!("expected seconds from 60 to {}, ten years", MAX_AGE.0 / 1_000_000_000);
    seconds(text).ok().filter(is_allowed).ok_or_else(expected)
}

/// `phasemeter gateway`.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    #[command(flatten)]
    pub receive: ReceiveArgs,

    #[command(flatten)]
    pub spans: SpanArgs,

    /// Charge spans whose resource names no known GPU, pod or host for all GPUs [default: they have no cost].
    #[arg(long, requires = "price_spans")]
    pub span_all_gpus: bool,

    #[command(flatten)]
    pub work: WorkMappingArgs,

    /// Mapping of metrics of your own: a TOML file like those in otel-config/mappings. Repeatable; it
    /// replaces the built-in mapping of the same metrics.
    #[arg(long, value_name = "FILE")]
    pub mapping: Vec<PathBuf>,

    /// A label of pods that metrics have, like `team`, for `bill --by label:team`. Labels that neither this nor a
    /// mapping names are not kept. Repeatable, at most 16 times.
    #[arg(long, value_name = "KEY", value_parser = label_key)]
    pub label: Vec<String>,

    /// Utilization source for billing, if a GPU has several: dcgm.gpu, dcgm.gr_engine, dcgm.sm, nvml.gpu,
    /// nvml.samples or hw.gpu [default: the first of dcgm.gpu, dcgm.gr_engine, dcgm.sm, nvml.samples,
    /// nvml.gpu, hw.gpu that it has].
    #[arg(long, value_name = "BASIS", value_parser = basis)]
    pub basis: Option<Basis>,

    /// Seconds between the arrival of a reading and its billing. Longer than the export interval of any
    /// agent that meters the same GPUs and exports through this gateway: time that it bills is not billed
    /// again.
    #[arg(long, value_name = "SECONDS", default_value = "90", value_parser = seconds)]
    pub hold: Nanos,

    /// Seconds that a value may be older than this machine's clock when it arrives: what waited in queues during an
    /// outage is metered. Older ones are dropped, as those more than 5 min ahead are.
    #[arg(long, value_name = "SECONDS", default_value = "86400", value_parser = age)]
    pub max_age: Nanos,

    /// Most GPUs that are metered, up to 0.13 MiB of memory each. The metrics of those that are first seen when
    /// there are so many pass; they are counted, and named in the log.
    #[arg(
        long,
        value_name = "N",
        default_value_t = ReadingBuffer::MAX_GPUS,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..=1_000_000)
    )]
    pub max_gpus: usize,

    /// GPU that another meter bills, by UUID. Repeatable.
    #[arg(long, value_name = "UUID")]
    pub exclude_gpu: Vec<String>,

    /// Host whose GPUs another meter bills. Repeatable.
    #[arg(long, value_name = "HOST")]
    pub exclude_host: Vec<String>,

    /// Names of all gateways that receive the same, separated by commas. Each meters its own part of the GPUs, and
    /// passes on its own part of what it receives. The same list for each gateway.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "replica")]
    pub replicas: Vec<String>,

    /// Name of this gateway among --replicas. It is the service.instance.id of what it sends.
    #[arg(long, value_name = "NAME", requires = "replicas")]
    pub replica: Option<String>,

    /// A balancer in front sends each node to one of several gateways, and may send it to another one: time in which a
    /// host is silent as a whole is not billed here, and its sums end at its last reading.
    #[arg(long, conflicts_with_all = ["replicas", "missing"])]
    pub routed: bool,

    /// Stop after this many seconds [default: until SIGINT or SIGTERM].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub duration: Option<Nanos>,

    #[command(flatten)]
    pub missing: MissingArgs,

    #[command(flatten)]
    pub live: LiveArgs,
}

/// Where to listen, and which clients are accepted.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Receive")]
pub struct ReceiveArgs {
    /// Address to receive OTLP on, gRPC and HTTP alike: IP:PORT or unix:PATH. Repeatable. Other than on
    /// loopback it requires TLS and a token.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_values = ["127.0.0.1:4317", "127.0.0.1:4318"]
    )]
    pub listen: Vec<ListenAddress>,

    /// Certificate chain of the receiver, in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,

    /// Private key of the certificate, in PEM format.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,

    /// File with the bearer token that every client must send.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,

    #[command(flatten)]
    pub size: RequestSizeArgs,
}

impl GatewayArgs {
    /// The configuration of meters. Each GPU has its own basis and time until a reading is stale.
    pub fn config(&self) -> MeterConfig {
        let MeterArgs { thresholds, .. } = self.live.metering.meter;
        MeterConfig {
            thresholds,
            // Readings are held, and released in order.
            allowed_lateness: Nanos::ZERO,
            session_every: MeterConfig::SESSION,
            missing: if self.routed { MissingTime::Elsewhere } else { self.missing.kind() },
            // Of many GPUs: 30 KiB each.
            ended_holders: 16,
            ..MeterConfig::default()
        }
    }
}

fn basis(text: &str) -> Result<Basis, String> {
    Basis::named(text).ok_or_else(|| format!("expected one of {}", Basis::NAMES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_is_from_a_minute_to_ten_years() {
        assert_eq!(age("60"), Ok(Nanos::from_secs(60)));
        assert_eq!(age("315360000"), Ok(MAX_AGE));
        for text in ["59.9", "315360000.1", "x", "1e999"] {
            assert!(age(text).is_err_and(|error| error.starts_with("expected ")), "{text:?}");
        }
    }
}
