//! `phasemeter policy run`: what a policy says when it is asked once.

use std::io;

use super::desk::{self, Desk};
use super::shown::Shown;
use crate::cli::{Format, RunPolicyArgs};
use crate::command::Failure;

/// Prints its answer.
pub(super) fn run(args: &RunPolicyArgs) -> Result<(), Failure> {
    let policy = Desk::guest(&args.guest)?;
    let (answer, _) = desk::ask(&policy, &Shown::of(&args.shown)?)?;
    let out = io::stdout().lock();
    match args.format {
        Format::Json => answer.write(out),
        Format::Text => answer.tell(out),
    }
    .map_err(Failure::Output)
}
