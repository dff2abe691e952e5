//! `phasemeter policy check`: would it be taken into use?

use phasemeter_rules::policy::Policy;

use super::desk::Desk;
use crate::cli::CheckArgs;
use crate::command::Failure;
use crate::report::text::clean;

/// Does all that a sidecar does before it uses a policy.
pub(super) fn run(args: &CheckArgs) -> Result<(), Failure> {
    say(&Desk::guest(&args.guest)?);
    Ok(())
}

/// What passed.
pub(super) fn say(policy: &Policy) {
    let manifest = policy.manifest();
    let (name, version) = (&manifest.name, clean(&manifest.version));
    println!("{}: fine: {name} {version}, a {}", clean(policy.file()), policy.kind().name());
}
