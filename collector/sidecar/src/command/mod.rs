//! The subcommands, one file each, and what they share.

mod audit;
mod child;
mod delivery;
mod delivery_report;
mod demo;
mod dump;
mod error;
mod exit_status;
mod files;
mod gpus;
mod live;
mod metering;
mod policies;
mod policy;
mod progress;
mod record;
mod run;
mod signals;
mod sinks;
mod window_scheduler;

pub use error::CommandError;
pub use policy::PolicyCommandError;

use std::process::ExitCode;

use phasemeter_rules::compile::child_main;

use crate::cli::Command;

/// Runs a subcommand and returns its exit status: zero, or that of the command run by it.
///
/// # Errors
/// Returns an error if the subcommand fails; [`CommandError::exit_code`] is then the exit status.
pub fn run(command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Audit(args) => audit::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Run(args) => run::run(&args),
        Command::Record(args) => record::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Demo(args) => demo::run(*args).map(|()| ExitCode::SUCCESS),
        Command::Policy(command) => policy::run(command),
        Command::Compile { args } => Ok(child_main(args)),
    }
}
