//! `phasemeter policy verify`: verifies the signature of a policy, its settings or its compiled form.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use phasemeter_rules::signature::{self, PublicKey};
use phasemeter_terminal::escape::clean;

use super::error::PolicyCommandError;
use super::signed_file::SignedFile;
use super::{files, project};
use phasemeter_cli::VerifyArgs;

/// Verifies the signature with each key until one matches.
pub(super) fn run(args: &VerifyArgs) -> Result<(), PolicyCommandError> {
    let keys = args.keys.iter().map(|path| read_key(path));
    let keys = keys.collect::<Result<Vec<PublicKey>, _>>()?;
    let file = SignedFile::read(project::component_of(&args.policy)?, args.machine_code)?;
    let path = signature_path(&file.path);
    let signature = if path.exists() { Some(files::read(&path)?) } else { None };
    signature::verify(&keys, file.used_as(), &file.bytes, signature.as_deref())
        .map_err(|source| PolicyCommandError::Unsigned { path: file.path.clone(), source })?;
    println!("{}: OK: signed", clean(&file.path.display().to_string()));
    Ok(())
}

/// The path of the signature of a file.
pub(super) fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// Reads a key; invalid UTF-8 is replaced and fails to parse.
pub(super) fn read_key<K: FromStr<Err: Display>>(path: &Path) -> Result<K, PolicyCommandError> {
    let key = String::from_utf8_lossy(&files::read(path)?).parse();
    key.map_err(|error: K::Err| PolicyCommandError::Key {
        path: path.to_owned(),
        problem: error.to_string(),
    })
}
