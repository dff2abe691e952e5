//! A policy directory: what an operator puts there, and the files beside each policy.
//!
//! ```text
//! NAME.wasm       the policy
//! NAME.json       its settings
//! NAME.wasm.sig   its signature
//! NAME.aot        the policy compiled elsewhere, signed in NAME.aot.sig
//! policies.lock   SHA-256 digests of the policies, as sha256sum prints them; others are rejected
//! ```
//!
//! Must not depend on how the files are used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use crate::artifact::SignedArtifact;
use crate::candidate::Candidate;
use crate::digest::Digest;
use crate::error::{LoadError, PolicyError};
use crate::generation::Rejection;
use crate::settings::SettingError;

/// Name of a directory's lock file.
pub const LOCK: &str = "policies.lock";

/// Size of the largest file that is read, in bytes: twice a compiled Python interpreter.
const MAX_FILE_BYTES: u64 = 128 << 20;

/// Reads the candidates of a directory, in byte order of their names. A file that cannot be read, or
/// is not in the lock file, is a rejection.
///
/// # Errors
/// Returns an error if the directory or its lock file cannot be read.
pub fn read(dir: &Path) -> Result<Vec<Result<Candidate, Rejection>>, Rejection> {
    let reject = |source| Rejection::new(dir, file_error(dir, source));
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(reject)? {
        let name = entry.map_err(reject)?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".wasm")) {
            names.push(name.to_owned());
        }
    }
    let lock_path = dir.join(LOCK);
    let bytes = read_if_exists(&lock_path);
    let lock = match bytes.map(|bytes| bytes.map(|bytes| parse_lock(&lock_path, &bytes))) {
        Ok(None) => None,
        Ok(Some(Ok(lock))) => Some(lock),
        Ok(Some(Err(error))) | Err(error) => return Err(Rejection::new(&lock_path, error)),
    };
    names.extend(lock.iter().flatten().map(|(name, _)| name.clone()));
    names.sort();
    names.dedup();
    let read_locked = |name: &String| {
        let path = dir.join(name);
        let mut candidate = candidate(&path)?;
        if let Some(lock) = &lock {
            let pinned = lock.get(name).copied();
            let pinned = pinned.ok_or_else(|| Rejection::new(&path, LoadError::NotLocked))?;
            candidate.pinned = Some(pinned);
        }
        Ok(candidate)
    };
    Ok(names.iter().map(read_locked).collect())
}

/// Reads one policy file and the files beside it.
///
/// # Errors
/// Returns an error if the policy or a file beside it cannot be read, or its settings are not a JSON
/// object.
pub fn candidate(path: &Path) -> Result<Candidate, Rejection> {
    let reject = |error: PolicyError| Rejection::new(path, error);
    let [path, json, signature, artifact, artifact_signature] = inputs(path);
    let load = |path: &Path| read_if_exists(path).map_err(|error| reject(error.into()));
    let bytes = load(&path)?
        .ok_or_else(|| reject(file_error(&path, io::ErrorKind::NotFound.into()).into()))?;
    let settings = match load(&json)? {
        Some(text) => settings(&json, &text).map_err(reject)?,
        None => Map::new(),
    };
    let artifact = load(&artifact)?.zip(load(&artifact_signature)?);
    Ok(Candidate {
        bytes: Cow::Owned(bytes),
        signature: load(&signature)?,
        artifact: artifact.map(|(bytes, signature)| SignedArtifact { bytes, signature }),
        settings,
        ..Candidate::new(path.display().to_string(), Vec::new())
    })
}

/// A policy file and the files beside it that are read if they exist: settings, signature, compiled
/// policy and its signature.
#[must_use]
pub fn inputs(path: &Path) -> [PathBuf; 5] {
    let beside = |extension: &str| path.with_extension(extension);
    [path.to_owned(), beside("json"), beside("wasm.sig"), beside("aot"), beside("aot.sig")]
}

/// Parses the text of a settings file. Errors name `path`.
///
/// # Errors
/// Returns an error if the text is not a JSON object.
pub fn settings(path: &Path, json: &[u8]) -> Result<Map<String, Json>, PolicyError> {
    serde_json::from_slice(json).map_err(|error| {
        let message = format!("{}: {error}", path.display());
        PolicyError::Settings(vec![SettingError { path: String::new(), message }])
    })
}

fn file_error(path: &Path, source: io::Error) -> LoadError {
    LoadError::File { file: path.display().to_string(), source }
}

/// The bytes of a file; `None` if it does not exist.
fn read_if_exists(path: &Path) -> Result<Option<Vec<u8>>, LoadError> {
    let read = || {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(io::Error::other(format!("larger than {} MiB", MAX_FILE_BYTES >> 20)));
        }
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(file_error(path, source)),
    }
}

/// Parses a lock file into digests by file name.
fn parse_lock(path: &Path, bytes: &[u8]) -> Result<BTreeMap<String, Digest>, LoadError> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            // sha256sum writes two spaces, or a space and a star in binary mode.
            let parsed = line.split_once(' ').and_then(|(digest, name)| {
                let name = name.strip_prefix([' ', '*'])?;
                Some((name.to_owned(), digest.parse().ok()?))
            });
            parsed.ok_or_else(|| LoadError::Lock {
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

    fn policy_dir(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    /// Per candidate, its number of settings or the kind of its error; or the error of the whole.
    fn outcomes(dir: &tempfile::TempDir) -> Vec<String> {
        match read(dir.path()) {
            Ok(all) => all
                .into_iter()
                .map(|each| match each {
                    Ok(candidate) => format!("{}", candidate.settings.len()),
                    Err(rejection) => rejection.error.kind().to_owned(),
                })
                .collect(),
            Err(rejection) => vec![rejection.error.to_string()],
        }
    }

    #[test]
    fn candidate_includes_files_beside_it() {
        let dir = policy_dir(&[
            ("a.wasm", "x"),
            ("a.json", r#"{"k": 1}"#),
            ("a.wasm.sig", "s"),
            ("a.aot", "c"),
            ("a.aot.sig", "t"),
            ("notes.txt", ""),
        ]);
        let all = read(dir.path()).unwrap();
        let [Ok(a)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (a.bytes.as_ref(), a.signature.as_deref()),
            (b"x".as_slice(), Some(b"s".as_slice()))
        );
        assert_eq!(a.settings.len(), 1);
        assert_eq!(a.artifact.as_ref().unwrap().bytes, b"c");
    }

    #[test]
    fn lock_file_rejects_unlisted_policies() {
        let lock = format!("{}  a.wasm\n{}  gone.wasm\n", Digest::of(b"x"), Digest::of(b""));
        let dir = policy_dir(&[("a.wasm", "x"), ("b.wasm", "y"), (LOCK, &lock)]);
        assert_eq!(outcomes(&dir), ["0", "load.digest", "load.unreadable"]);
    }

    #[test]
    fn errors_name_file_and_line() {
        let broken = policy_dir(&[("a.wasm", "x"), (LOCK, "\nabc  a.wasm\n")]);
        let error = &outcomes(&broken)[0];
        assert!(error.contains("policies.lock:2: invalid line 'abc  a.wasm'"), "{error}");
        let settings = policy_dir(&[("a.wasm", "x"), ("a.json", "{\n1")]);
        assert_eq!(outcomes(&settings), ["settings"]);
    }

    #[test]
    fn file_size_is_limited() {
        let dir = policy_dir(&[("a.wasm", "")]);
        let path = dir.path().join("a.wasm");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(128 << 20).unwrap();
        assert_eq!(candidate(&path).unwrap().bytes.len(), 128 << 20);
        file.set_len((128 << 20) + 1).unwrap();
        let error = candidate(&path).unwrap_err().to_string();
        assert!(error.contains("larger than 128 MiB"), "{error}");
    }

    #[test]
    fn only_missing_files_are_ignored() {
        let dir = policy_dir(&[("a.wasm", "x")]);
        let path = dir.path().join("a.wasm");
        assert!(candidate(&path).is_ok());
        fs::create_dir(dir.path().join("a.json")).unwrap();
        assert!(candidate(&path).is_err(), "a directory is not a settings file");
    }
}
