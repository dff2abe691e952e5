//! `phasemeter policy check`: checks whether a policy would be accepted.

use phasemeter_rules::policy::Policy;
use phasemeter_terminal::escape::clean;

use super::loader::PolicyLoader;
use crate::command::error::CommandError;
use phasemeter_cli::CheckArgs;

/// Loads the policy as a sidecar does.
pub(super) fn run(args: &CheckArgs) -> Result<(), CommandError> {
    print_accepted(&PolicyLoader::load_guest(&args.guest)?);
    Ok(())
}

/// Prints that a policy was accepted.
pub(super) fn print_accepted(policy: &Policy) {
    let manifest = policy.manifest();
    let (name, version) = (&manifest.name, clean(&manifest.version));
    println!("{}: OK: {name} {version}, a {}", clean(policy.file()), policy.kind().name());
}
