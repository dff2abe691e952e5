//! A folder of policies: what an operator drops in, and what stands beside it.
//!
//! ```text
//! NAME.wasm       the policy
//! NAME.json       its settings
//! NAME.wasm.sig   the signature over it
//! NAME.aot        it, compiled elsewhere; NAME.aot.sig is the signature over that
//! policies.lock   the digests of the policies, as sha256sum prints them; then no other is taken
//! ```
//!
//! This room must not know what becomes of the files.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::artifact::SignedArtifact;
use crate::digest::Digest;
use crate::fault::{Fault, LoadFault};
use crate::generation::Rejection;
use crate::host::Candidate;
use crate::settings::SettingError;

/// The lock file of a folder.
pub const LOCK: &str = "policies.lock";

/// The largest file that is read, in bytes: a Python interpreter, compiled, and as much again.
const LARGEST: u64 = 128 << 20;

/// Everything in a folder that may become a policy, in byte order of the names; and what can be
/// told to be wrong with it already.
///
/// # Errors
/// Where the folder itself cannot be read.
pub fn read(folder: &Path) -> Result<Vec<Result<Candidate, Rejection>>, Rejection> {
    let reject = |source| Rejection::new(folder, file_fault(folder, source));
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(reject)? {
        let name = entry.map_err(reject)?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".wasm")) {
            names.push(name.to_owned());
        }
    }
    let lock_path = folder.join(LOCK);
    let lock = match optional(&lock_path).map(|bytes| bytes.map(|bytes| lock(&lock_path, &bytes))) {
        Ok(None) => None,
        Ok(Some(Ok(lock))) => Some(lock),
        Ok(Some(Err(fault))) | Err(fault) => return Err(Rejection::new(&lock_path, fault)),
    };
    names.extend(lock.iter().flatten().map(|(name, _)| name.clone()));
    names.sort();
    names.dedup();
    let locked = |name: &String| {
        let path = folder.join(name);
        let mut candidate = candidate(&path)?;
        if let Some(lock) = &lock {
            let pinned = lock.get(name).copied();
            let pinned = pinned.ok_or_else(|| Rejection::new(&path, LoadFault::NotLocked))?;
            candidate.pinned = Some(pinned);
        }
        Ok(candidate)
    };
    Ok(names.iter().map(locked).collect())
}

/// One policy file, with what stands beside it.
///
/// # Errors
/// Where it or its settings cannot be read.
pub fn candidate(path: &Path) -> Result<Candidate, Rejection> {
    let reject = |fault: Fault| Rejection::new(path, fault);
    let beside = |end: &str| path.with_extension(end);
    let load = |path: &Path| optional(path).map_err(|fault| reject(fault.into()));
    let bytes = load(path)?
        .ok_or_else(|| reject(file_fault(path, io::ErrorKind::NotFound.into()).into()))?;
    let settings = match load(&beside("json"))? {
        Some(json) => settings(&beside("json"), &json).map_err(reject)?,
        None => Map::new(),
    };
    let artifact = load(&beside("aot"))?.zip(load(&beside("aot.sig"))?);
    Ok(Candidate {
        bytes: Cow::Owned(bytes),
        signature: load(&beside("wasm.sig"))?,
        artifact: artifact.map(|(bytes, signature)| SignedArtifact { bytes, signature }),
        settings,
        ..Candidate::new(path.display().to_string(), Vec::new())
    })
}

/// Settings from the text of a file, which is named where it is wrong.
///
/// # Errors
/// Unless it is a JSON object.
pub fn settings(path: &Path, json: &[u8]) -> Result<Map<String, Json>, Fault> {
    serde_json::from_slice(json).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        Fault::Settings(vec![SettingError { path: String::new(), message }])
    })
}

fn file_fault(path: &Path, source: io::Error) -> LoadFault {
    LoadFault::File { file: path.display().to_string(), source }
}

/// The bytes of a file; `None` where there is none.
fn optional(path: &Path) -> Result<Option<Vec<u8>>, LoadFault> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > LARGEST {
            return Err(io::Error::other(format!("it is larger than {} MiB", LARGEST >> 20)));
        }
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_fault(path, source)),
    }
}

/// The digests in a lock file, by file name.
fn lock(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Digest>, LoadFault> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            // sha256sum writes two spaces, or a space and a star for a file read as binary.
            let parsed = line.split_once(' ').and_then(|(digest, name)| {
                let name = name.strip_prefix([' ', '*'])?;
                Some((name.to_owned(), digest.parse().ok()?))
            });
            parsed.ok_or_else(|| LoadFault::Lock {
                file: path.display().to_string(),
                line: index + 1,
                text: line.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    fn told(folder: &tempfile::TempDir) -> Vec<String> {
        match read(folder.path()) {
            Ok(all) => all
                .into_iter()
                .map(|each| match each {
                    Ok(candidate) => format!("{}", candidate.settings.len()),
                    Err(rejection) => rejection.fault.kind().to_owned(),
                })
                .collect(),
            Err(rejection) => vec![rejection.fault.to_string()],
        }
    }

    #[test]
    fn what_stands_beside_a_policy_belongs_to_it() {
        let folder = folder(&[
            ("a.wasm", "x"),
            ("a.json", r#"{"k": 1}"#),
            ("a.wasm.sig", "s"),
            ("a.aot", "c"),
            ("a.aot.sig", "t"),
            ("notes.txt", ""),
        ]);
        let all = read(folder.path()).unwrap();
        let [Ok(a)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (a.bytes.as_ref(), a.signature.as_deref()),
            (b"x".as_slice(), Some(b"s".as_slice()))
        );
        assert_eq!(a.settings.len(), 1);
        assert_eq!(a.artifact.as_ref().unwrap().bytes, b"c");
    }

    #[test]
    fn with_a_lock_file_only_what_it_names_is_taken() {
        let line = format!("{}  a.wasm\n{}  gone.wasm\n", Digest::of(b"x"), Digest::of(b""));
        let folder = folder(&[("a.wasm", "x"), ("b.wasm", "y"), (LOCK, &line)]);
        assert_eq!(told(&folder), ["0", "load.digest", "load.unreadable"]);
    }

    #[test]
    fn what_is_wrong_is_told_with_file_and_line() {
        let broken = folder(&[("a.wasm", "x"), (LOCK, "\nabc  a.wasm\n")]);
        assert!(told(&broken)[0].contains("policies.lock:2: 'abc  a.wasm'"), "{:?}", told(&broken));
        let settings = folder(&[("a.wasm", "x"), ("a.json", "{\n1")]);
        assert_eq!(told(&settings), ["settings"]);
    }
}
