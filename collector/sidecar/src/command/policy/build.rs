//! `phasemeter policy build`: builds a project with its own tools, then checks the policy.

use super::check;
use super::loader::PolicyLoader;
use super::project::Project;
use crate::command::error::CommandError;
use phasemeter_cli::BuildArgs;

/// Builds and checks.
pub(super) fn run(args: &BuildArgs) -> Result<(), CommandError> {
    let project = Project::open(&args.dir)?;
    project.build()?;
    let policy = PolicyLoader::new(&args.host)?.load(&project.component()?, None)?;
    check::print_accepted(&policy);
    Ok(())
}
