//! Options of the configuration file, and `phasemeter config`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The configuration file.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Environment")]
pub struct ConfigArgs {
    /// Configuration file, in the format of OpenTelemetry's declarative configuration. Options take precedence; variables
    /// of OpenTelemetry count only as references in it [env: OTEL_CONFIG_FILE].
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// `phasemeter config`.
#[derive(Clone, Debug, Subcommand)]
pub enum ConfigCommand {
    /// List everything that is wrong in a configuration file. Status 78 if anything is.
    Check(FileArgs),
    /// Print a configuration file with its references replaced, without secrets.
    Print(FileArgs),
    /// Print the JSON Schema of the file, for editors.
    Schema,
}

/// A configuration file.
#[derive(Clone, Debug, Args)]
pub struct FileArgs {
    /// The file [default: that of --config, else OTEL_CONFIG_FILE].
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
}
