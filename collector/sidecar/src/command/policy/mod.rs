//! `phasemeter policy`: what authors of policies need, one file a subcommand.
//!
//! What is taken or refused here is what a running sidecar takes or refuses: it is the same host.

mod answer;
mod bench;
mod build;
mod check;
mod compile;
mod desk;
mod failure;
mod inspect;
mod new;
mod project;
mod run;
mod shown;
mod sign;
mod template;
mod test;
mod verify;

pub use failure::PolicyFailure;

use std::process::ExitCode;

use super::Failure;
use crate::cli::PolicyCommand;

/// Does what an author asks. The exit status is zero, or 1 where a test failed.
pub(super) fn run(command: PolicyCommand) -> Result<ExitCode, Failure> {
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
