//! The `phasemeter` binary: parses the command line and runs the subcommand.

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use phasemeter::command::{self, CommandError};
use phasemeter::variables::variable;
use phasemeter::{log, standard_error, usage};
use phasemeter_cli::Cli;
use tracing::{error, warn};

/// How long the end waits for the reader of standard error.
const FLUSH: Duration = Duration::from_secs(5);

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().collect();
    let (cli, warnings, refused) = match parse(&arguments) {
        Ok(parsed) => parsed,
        Err(error) => return usage::report(&error),
    };
    log::start(cli.log(), variable);
    for warning in warnings {
        warn!("{warning}");
    }
    let ran = match refused {
        Some(error) => Err(error),
        None => command::run(cli),
    };
    let status = match ran {
        Ok(status) => status,
        Err(error) => {
            for line in error.lines() {
                error!("{line}");
            }
            error.exit_code()
        }
    };
    log::finish();
    // Its reader may be stuck.
    let _ = standard_error::flush(FLUSH, || false);
    status
}

/// The command line, warnings about its configuration file, and why it must not run.
type Parsed = (Cli, Vec<String>, Option<CommandError>);

#[cfg(feature = "full")]
fn parse(arguments: &[OsString]) -> Result<Parsed, clap::Error> {
    let parsed = phasemeter_config::parse(arguments, |cli: &Cli| cli.strict)?;
    Ok((parsed.cli, parsed.warnings, parsed.error.map(CommandError::Configuration)))
}

#[cfg(not(feature = "full"))]
fn parse(arguments: &[OsString]) -> Result<Parsed, clap::Error> {
    Ok((clap::Parser::try_parse_from(arguments)?, Vec::new(), None))
}
