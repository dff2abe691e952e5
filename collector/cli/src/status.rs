//! Options of the commands that show a run in progress.

use clap::Args;
use phasemeter_meter::units::Nanos;

use super::Format;
use super::value::seconds;

/// Where a run in progress answers.
#[derive(Clone, Debug, Args)]
pub struct StatusAddress {
    /// Address of the `--health-listen` of `run`, `agent` or `gateway` on this machine, HOST:PORT. That of a pod is
    /// reached by `kubectl port-forward`.
    #[arg(value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    pub address: String,
}

/// `phasemeter status`.
#[derive(Clone, Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub at: StatusAddress,

    /// Format: a page, or the report so far as JSON.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub format: Format,
}

/// `phasemeter top`.
#[derive(Clone, Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub at: StatusAddress,

    /// Seconds between updates.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    pub interval: Nanos,
}
