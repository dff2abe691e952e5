//! The `phasemeter` binary: parses the command line and runs the subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use phasemeter::cli::Cli;
use phasemeter::command;
use phasemeter::log;
use tracing::error;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(cli.log, |name| std::env::var(name).ok());
    match command::run(cli.command) {
        Ok(status) => status,
        Err(error) => {
            error!("{}", error.in_one_line());
            error.exit_code()
        }
    }
}
