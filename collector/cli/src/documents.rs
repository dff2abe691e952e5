//! Options of the commands that print what is made from the command line.

use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `phasemeter completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// `phasemeter man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write the page of each command into this directory, as `phasemeter-audit.1`.
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
}
