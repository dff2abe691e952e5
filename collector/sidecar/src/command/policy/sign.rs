//! `phasemeter policy sign`: signs a policy, its settings or its compiled form.

use phasemeter_rules::signature::SecretKey;
use phasemeter_terminal::escape::clean;

use super::signed_file::SignedFile;
use super::verify::{read_key, signature_path};
use super::{files, project};
use crate::command::error::CommandError;
use phasemeter_cli::SignArgs;

/// Signs the file and prints the public key.
pub(super) fn run(args: &SignArgs) -> Result<(), CommandError> {
    let key: SecretKey = read_key(&args.key)?;
    let file = SignedFile::read(project::component_of(&args.policy)?, args.machine_code)?;
    let signature = signature_path(&file.path);
    files::write(&signature, &key.sign(file.used_as(), &file.bytes))?;
    println!("{}: signed by {}", clean(&signature.display().to_string()), key.public());
    Ok(())
}
