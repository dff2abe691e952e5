//! `phasemeter policy verify`: did one of these sign it?

use std::path::{Path, PathBuf};

use phasemeter_rules::signature::{self, PublicKey};

use super::PolicyFailure;
use super::desk;
use crate::cli::VerifyArgs;
use crate::report::text::clean;

/// Verifies it.
pub(super) fn run(args: &VerifyArgs) -> Result<(), PolicyFailure> {
    let keys = args.keys.iter().map(|path| {
        let key = key_text(path)?.parse();
        key.map_err(|source| PolicyFailure::Key { path: path.clone(), source })
    });
    let keys = keys.collect::<Result<Vec<PublicKey>, _>>()?;
    let bytes = desk::read(&args.file)?;
    let beside = signature_path(&args.file);
    let signature = if beside.exists() { Some(desk::read(&beside)?) } else { None };
    signature::verify(&keys, &bytes, signature.as_deref())
        .map_err(|source| PolicyFailure::Unsigned { path: args.file.clone(), source })?;
    println!("{}: fine: it is signed", clean(&args.file.display().to_string()));
    Ok(())
}

/// Where the signature over a file stands.
pub(super) fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".sig");
    path.into()
}

/// What stands in the file of a key. Anything but text is no key.
pub(super) fn key_text(path: &Path) -> Result<String, PolicyFailure> {
    Ok(String::from_utf8_lossy(&desk::read(path)?).into_owned())
}
