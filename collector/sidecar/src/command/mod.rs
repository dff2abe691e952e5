//! What can be asked of Phasemeter, one file a subcommand.

mod arrival;
mod audit;
mod demo;
mod failure;
mod gpus;
mod interrupt;
mod metering;
mod outlets;
mod progress;
mod record;

pub use failure::Failure;

use crate::cli::Command;

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`], which knows the exit status.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Audit(args) => audit::run(*args),
        Command::Record(args) => record::run(&args),
        Command::Demo(args) => demo::run(*args),
    }
}
