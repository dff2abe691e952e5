//! `phasemeter policy verify`: verifies the signature of a policy.

use std::path::{Path, PathBuf};

use phasemeter_rules::signature::{self, PublicKey};

use super::error::PolicyCommandError;
use super::{files, project};
use crate::cli::VerifyArgs;
use crate::report::text::clean;

/// Verifies the signature with each key until one matches.
pub(super) fn run(args: &VerifyArgs) -> Result<(), PolicyCommandError> {
    let keys = args.keys.iter().map(|path| {
        let key = key_text(path)?.parse();
        key.map_err(|source| PolicyCommandError::Key { path: path.clone(), source })
    });
    let keys = keys.collect::<Result<Vec<PublicKey>, _>>()?;
    let file = project::component_of(&args.policy)?;
    let bytes = files::read(&file)?;
    let path = signature_path(&file);
    let signature = if path.exists() { Some(files::read(&path)?) } else { None };
    signature::verify(&keys, &bytes, signature.as_deref())
        .map_err(|source| PolicyCommandError::Unsigned { path: file.clone(), source })?;
    println!("{}: OK: signed", clean(&file.display().to_string()));
    Ok(())
}

/// The path of the signature of a file.
pub(super) fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// The text of a key file; invalid UTF-8 is replaced and fails to parse.
pub(super) fn key_text(path: &Path) -> Result<String, PolicyCommandError> {
    Ok(String::from_utf8_lossy(&files::read(path)?).into_owned())
}
