//! The `phasemeter` binary: parses the command line and runs the subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use phasemeter::command;
use phasemeter::{log, standard_error, usage};
use phasemeter_cli::Cli;
use tracing::error;

/// How long the end waits for the reader of standard error.
const FLUSH: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage::report(&error),
    };
    log::start(cli.log, |name| std::env::var(name).ok());
    let status = match command::run(cli) {
        Ok(status) => status,
        Err(error) => {
            error!("{}", error.in_one_line());
            error.exit_code()
        }
    };
    log::finish();
    // Its reader may be stuck.
    let _ = standard_error::flush(FLUSH, || false);
    status
}
