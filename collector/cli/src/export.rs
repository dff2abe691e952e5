//! Options of what is kept for the backend, and `phasemeter flush`.

use std::path::PathBuf;

use clap::Args;
use phasemeter_meter::units::Nanos;

use super::value::duration;

/// Options of export beside the variables of OpenTelemetry.
#[derive(Clone, Debug, Default, Args)]
pub struct ExportArgs {
    /// Directory for requests until the backend has accepted them, for the report of each run, and for what a run that is
    /// killed goes on from. What a run that ended has left there for the same endpoints is sent first. Without a command, the
    /// time since then is reported as a gap. For this process only [env: PHASEMETER_DATA]
    /// [default: /var/lib/phasemeter, $XDG_STATE_HOME/phasemeter or ~/.local/state/phasemeter, shared with others, if
    /// the first, or the parent of the others, exists; else requests wait in memory].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// File with headers for the backend, such as a token: name=value, one per line, values percent-encoded as in
    /// OTEL_EXPORTER_OTLP_HEADERS, which it replaces; read again after a change [env: PHASEMETER_OTLP_HEADERS_FILE].
    #[arg(long, value_name = "FILE")]
    pub otlp_headers_file: Option<PathBuf>,
}

/// `phasemeter flush`.
#[derive(Clone, Debug, Args)]
pub struct FlushArgs {
    #[command(flatten)]
    pub export: ExportArgs,

    /// Give up after this long: a number with s, m, h or d. What is left stays.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    pub timeout: Nanos,
}
