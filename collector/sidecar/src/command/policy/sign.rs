//! `phasemeter policy sign`: who vouches for a file.

use phasemeter_rules::signature::SecretKey;

use super::PolicyFailure;
use super::desk;
use super::verify::{key_text, signature_path};
use crate::cli::SignArgs;
use crate::command::Failure;
use crate::report::text::clean;

/// Signs it, and says which key tells the signature.
pub(super) fn run(args: &SignArgs) -> Result<(), Failure> {
    let unusable = |source| PolicyFailure::SecretKey { path: args.key.clone(), source };
    let key: SecretKey = key_text(&args.key)?.parse().map_err(unusable)?;
    let signature = signature_path(&args.file);
    desk::write(&signature, &key.sign(&desk::read(&args.file)?))?;
    println!("{}: by {}", clean(&signature.display().to_string()), key.public());
    Ok(())
}
