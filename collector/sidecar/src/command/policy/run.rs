//! `phasemeter policy run`: evaluates a policy once.

use std::io;

use super::input::PolicyInput;
use super::loader::PolicyLoader;
use super::output;
use crate::command::error::CommandError;
use phasemeter_cli::{Format, RunPolicyArgs};

/// Prints the output of the policy.
pub(super) fn run(args: &RunPolicyArgs) -> Result<(), CommandError> {
    let policy = PolicyLoader::load_guest(&args.guest)?;
    let (output, _) = output::evaluate(&policy, &PolicyInput::from_args(&args.input)?)?;
    let out = io::stdout().lock();
    match args.format {
        Format::Json => output.write_json(out),
        Format::Text => output.write_text(out),
    }
    .map_err(CommandError::Output)
}
