//! What can be asked of Phasemeter, one file a subcommand.

mod advice;
mod advisor;
mod audit;
mod child;
mod delivery;
mod demo;
mod dump;
mod failure;
mod gpus;
mod live;
mod metering;
mod outlets;
mod policy;
mod progress;
mod record;
mod run;
mod wakes;

pub use failure::Failure;
pub use policy::PolicyFailure;

use std::process::ExitCode;

use phasemeter_rules::compile::child_main;

use crate::cli::Command;

/// Runs a subcommand. Its exit status is zero, or that of the command that it was given to run.
///
/// # Errors
/// [`Failure`], which knows the exit status.
pub fn run(command: Command) -> Result<ExitCode, Failure> {
    match command {
        Command::Audit(args) => audit::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Run(args) => run::run(&args),
        Command::Record(args) => record::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Policy(command) => policy::run(command),
        Command::Compile { args } => Ok(child_main(args)),
    }
}
