//! Phasemeter: parse, run, say how it went.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use phasemeter::cli::Cli;
use phasemeter::command;
use phasemeter::telemetry::log;
use tracing::error;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(cli.log, |name| std::env::var(name).ok());
    match command::run(cli.command) {
        Ok(status) => status,
        Err(failure) => {
            error!("{}", failure.in_one_line());
            failure.exit_code()
        }
    }
}
