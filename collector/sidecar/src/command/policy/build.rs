//! `phasemeter policy build`: the tools of its language build a policy, and the host tries it.

use super::check;
use super::desk::Desk;
use super::project::Project;
use crate::cli::BuildArgs;
use crate::command::Failure;

/// Builds and checks.
pub(super) fn run(args: &BuildArgs) -> Result<(), Failure> {
    let project = Project::open(&args.folder)?;
    project.build()?;
    let policy = Desk::open(&args.host)?.load(&project.wasm(), None)?;
    check::say(&policy);
    Ok(())
}
