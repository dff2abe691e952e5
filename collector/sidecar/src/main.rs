//! Phasemeter: parse, run, say how it went.

use std::process::ExitCode;

use clap::Parser;
use phasemeter::cli::Cli;
use phasemeter::command;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match command::run(cli.command) {
        Ok(status) => status,
        Err(failure) => {
            eprintln!("phasemeter: {}", failure.in_one_line());
            failure.exit_code()
        }
    }
}
