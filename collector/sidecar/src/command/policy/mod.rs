//! `phasemeter policy`: the subcommands for authors of policies, one file each.
//!
//! They use the same host as a running sidecar, and accept and reject the same policies.

mod bench;
mod build;
mod check;
mod compile;
mod error;
mod files;
mod input;
mod inspect;
mod loader;
mod new;
mod output;
mod project;
mod run;
mod sign;
mod signed_file;
mod template;
mod test;
mod verify;

pub use error::PolicyCommandError;

use std::process::ExitCode;

use super::error::CommandError;
use phasemeter_cli::PolicyCommand;

/// Runs a subcommand. The exit status is zero, or 1 if a policy test failed.
pub(super) fn run(command: PolicyCommand) -> Result<ExitCode, CommandError> {
    match command {
        PolicyCommand::New(args) => new::run(&args)?,
        PolicyCommand::Build(args) => build::run(&args)?,
        PolicyCommand::Check(args) => check::run(&args)?,
        PolicyCommand::Test(args) => return test::run(&args),
        PolicyCommand::Run(args) => run::run(&args)?,
        PolicyCommand::Bench(args) => bench::run(&args)?,
        PolicyCommand::Inspect(args) => inspect::run(&args)?,
        PolicyCommand::Sign(args) => sign::run(&args)?,
        PolicyCommand::Verify(args) => verify::run(&args)?,
        PolicyCommand::Compile(args) => compile::run(&args)?,
    }
    Ok(ExitCode::SUCCESS)
}
