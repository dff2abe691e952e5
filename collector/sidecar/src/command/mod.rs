//! What can be asked of Phasemeter, one file a subcommand.

mod audit;
mod delivery;
mod demo;
mod failure;
mod metering;
mod outlets;
mod progress;

pub use failure::Failure;

use crate::cli::Command;

/// Runs a subcommand.
///
/// # Errors
/// [`Failure`], which knows the exit status.
pub fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Audit(args) => audit::run(*args),
        Command::Demo(args) => demo::run(*args),
    }
}
