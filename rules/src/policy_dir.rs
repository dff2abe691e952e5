//! A policy directory: what an operator puts there, and the files beside each policy.
//!
//! ```text
//! NAME.wasm       the policy
//! NAME.wasm.sig   its signature
//! NAME.json       its settings
//! NAME.json.sig   their signature
//! NAME.aot        the policy compiled elsewhere, signed in NAME.aot.sig
//! policies.lock   SHA-256 digests of policies and settings, as sha256sum prints them; others are
//!                 rejected
//! ```
//!
//! The directory is opened once per scan, and files are opened relative to it. Symbolic links are
//! followed within it, since a mounted `ConfigMap` consists of them; the link of a single policy file is
//! followed to wherever the operator has it lead.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use phasemeter_files::Links;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstat, statat};
use rustix::process::{Uid, geteuid};

use crate::artifact::SignedArtifact;
pub use crate::candidate::parse_settings as settings;
use crate::candidate::{Approval, Candidate, CandidateSource, Locked, SettingsFile, Unreadable};
use crate::digest::Digest;
use crate::error::{LoadError, PolicyError};
use crate::generation::Rejection;

/// Name of a directory's lock file.
pub const LOCK: &str = "policies.lock";

/// Policies that are loaded from a directory: the first by name.
pub const MAX_POLICIES: usize = 64;

/// Files of a directory of which the owner is checked: all of them, in any sensible one.
const MAX_OWNED: usize = 1_000;

/// Size of the largest policy or artifact, in bytes: twice a compiled Python interpreter.
pub const MAX_FILE_BYTES: u64 = 128 << 20;

/// Size of the largest settings or lock file, in bytes.
pub const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Size of the largest signature file, in bytes. A valid one has 64.
const MAX_SIGNATURE_BYTES: u64 = 1 << 10;

/// Lists the candidates of a directory, in byte order of their names. One that does not exist has
/// none, and is rejected as a file is: to delete it is to withdraw all of its policies.
///
/// # Errors
/// Returns an error if the directory exists and cannot be read.
pub fn read(path: &Path) -> Result<Vec<CandidateSource>, Rejection> {
    let reject = |source| Rejection::new(path, file_error(path, source));
    let dir = match PolicyDir::open(path) {
        Ok(dir) => Arc::new(dir),
        Err(source) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(vec![failing(path, file_error(path, source).into())]);
        }
        Err(source) => return Err(reject(source)),
    };
    let lock = match dir.lock() {
        Ok(lock) => lock,
        // Nothing is known to be locked.
        Err(error) => return Ok(vec![failing(&path.join(LOCK), error.into())]),
    };
    let (names, others) = dir.policies(lock.as_ref()).map_err(reject)?;
    let candidate = |name: String| {
        let locked = lock.as_ref().map(|lock| locked(lock, &name));
        let dir = Arc::clone(&dir);
        CandidateSource::new(dir.file(&name), move || dir.candidate(&name, locked))
    };
    let mut all: Vec<_> = names.into_iter().map(candidate).collect();
    if others > 0 {
        let too_many = LoadError::TooMany { others, limit: MAX_POLICIES };
        all.push(failing(path, too_many.into()));
    }
    Ok(all)
}

/// The candidate of a policy file, with the files beside it and without a lock file.
#[must_use]
pub fn source(path: &Path) -> CandidateSource {
    let file = path.to_owned();
    CandidateSource::new(path.display().to_string(), move || candidate(&file))
}

/// Reads one policy file and the files beside it, without a lock file.
///
/// # Errors
/// Returns an error if the policy or a file beside it cannot be read.
pub fn candidate(path: &Path) -> Result<Candidate, Box<Unreadable>> {
    let failed = |source| {
        let error = file_error(path, source).into();
        Box::new(Unreadable { error, approval: Approval::default() })
    };
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let parent = path.parent().unwrap_or(Path::new(""));
    let dir = PolicyDir { links: Links::Follow, ..PolicyDir::open(parent).map_err(failed)? };
    dir.candidate(name, None)
}

/// Checks that a policy file can be opened, without waiting for it.
///
/// # Errors
/// Returns an error if it cannot be opened or is not a regular file.
pub fn check_file(path: &Path) -> io::Result<()> {
    phasemeter_files::open(rustix::fs::CWD, path, Links::Follow).map(drop)
}

/// Checks that a directory can be opened.
///
/// # Errors
/// Returns an error if it cannot be opened.
pub fn check_dir(path: &Path) -> io::Result<()> {
    PolicyDir::open(path).map(drop)
}

/// The owner of a policy directory and of its files, if it is another user than this one and root: they can
/// change what runs.
///
/// # Errors
/// Returns an error if the directory cannot be read.
pub fn foreign_owners(path: &Path) -> io::Result<BTreeSet<u32>> {
    owners_but(path, geteuid())
}

/// The owners of a directory and of its files but this user and root.
fn owners_but(path: &Path, user: Uid) -> io::Result<BTreeSet<u32>> {
    let dir = PolicyDir::open(path)?;
    let mut owners = BTreeSet::from([fstat(&dir.fd)?.st_uid]);
    for entry in Dir::read_from(&dir.fd)?.take(MAX_OWNED) {
        // One that has just been removed has no owner.
        let status = statat(&dir.fd, entry?.file_name(), AtFlags::empty());
        owners.extend(status.map(|status| status.st_uid));
    }
    let own = [user, Uid::ROOT].map(Uid::as_raw);
    Ok(owners.into_iter().filter(|owner| !own.contains(owner)).collect())
}

/// A policy file and the files beside it that are read if they exist: its signature, its settings and
/// their signature, the compiled policy and its signature.
#[must_use]
pub fn inputs(path: &Path) -> [PathBuf; 6] {
    let signature = |path: &Path| {
        let mut path = path.as_os_str().to_owned();
        path.push(".sig");
        PathBuf::from(path)
    };
    let [settings, artifact] = ["json", "aot"].map(|extension| path.with_extension(extension));
    let signatures = [path, &settings, &artifact].map(signature);
    let [of_policy, of_settings, of_artifact] = signatures;
    [path.to_owned(), of_policy, settings, of_settings, artifact, of_artifact]
}

/// An open directory.
struct PolicyDir {
    fd: OwnedFd,
    path: PathBuf,
    /// Of the policies themselves.
    links: Links,
}

impl PolicyDir {
    /// Opens a directory; an empty path is the current one.
    fn open(path: &Path) -> io::Result<Self> {
        let at = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open(at, flags, Mode::empty())?;
        Ok(Self { fd, path: path.to_owned(), links: Links::Within })
    }

    /// The names of the first policies, present or locked, and the number of others.
    fn policies(&self, lock: Option<&Lock>) -> io::Result<(BTreeSet<String>, u64)> {
        let mut names = BTreeSet::new();
        let mut others = 0;
        let mut add = |name: &str| {
            if name.ends_with(".wasm")
                && names.insert(name.to_owned())
                && names.len() > MAX_POLICIES
            {
                names.pop_last();
                others += 1;
            }
        };
        lock.into_iter().flat_map(Lock::keys).for_each(|name| add(name));
        for entry in Dir::read_from(&self.fd)? {
            let entry = entry?;
            let name = entry.file_name().to_str().unwrap_or_default();
            if lock.is_none_or(|lock| !lock.contains_key(name)) {
                add(name);
            }
        }
        Ok((names, others))
    }

    fn lock(&self) -> Result<Option<Lock>, LoadError> {
        let text = self.read_if_exists(Path::new(LOCK), MAX_TEXT_BYTES)?;
        text.map(|text| parse_lock(&self.path.join(LOCK), &text)).transpose()
    }

    fn candidate(&self, name: &str, locked: Option<Locked>) -> Result<Candidate, Box<Unreadable>> {
        let mut approval = Approval { locked, ..Approval::default() };
        let candidate = self.read_candidate(name, &mut approval);
        candidate.map_err(|error| Box::new(Unreadable { error: error.into(), approval }))
    }

    /// Reads the signatures first: they decide whether the previous version stays in use, whatever
    /// happens to the other files.
    fn read_candidate(&self, name: &str, approval: &mut Approval) -> Result<Candidate, LoadError> {
        let [policy, signature, settings, settings_signature, artifact, artifact_signature] =
            inputs(Path::new(name));
        approval.signature = self.read_if_exists(&signature, MAX_SIGNATURE_BYTES)?;
        approval.settings_signature =
            self.read_if_exists(&settings_signature, MAX_SIGNATURE_BYTES)?;
        let bytes = self.read_linked(&policy, MAX_FILE_BYTES, self.links)?;
        let missing = || file_error(&self.path.join(name), io::ErrorKind::NotFound.into());
        let settings_file = self
            .read_if_exists(&settings, MAX_TEXT_BYTES)?
            .map(|bytes| SettingsFile { name: settings.display().to_string(), bytes });
        let artifact = self.read_if_exists(&artifact, MAX_FILE_BYTES)?;
        let signed = self.read_if_exists(&artifact_signature, MAX_SIGNATURE_BYTES)?;
        Ok(Candidate {
            bytes: Cow::Owned(bytes.ok_or_else(missing)?),
            approval: approval.clone(),
            artifact: artifact
                .zip(signed)
                .map(|(bytes, signature)| SignedArtifact { bytes, signature }),
            settings_file,
            ..Candidate::new(self.file(name), Vec::new())
        })
    }

    /// The bytes of a file; `None` if it does not exist. A link to nowhere exists.
    fn read_if_exists(&self, name: &Path, max: u64) -> Result<Option<Vec<u8>>, LoadError> {
        self.read_linked(name, max, Links::Within)
    }

    fn read_linked(
        &self,
        name: &Path,
        max: u64,
        links: Links,
    ) -> Result<Option<Vec<u8>>, LoadError> {
        let file = phasemeter_files::open(self.fd.as_fd(), name, links);
        match file.and_then(|file| phasemeter_files::read(file, max)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    && statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_err() =>
            {
                Ok(None)
            }
            Err(source) => Err(file_error(&self.path.join(name), source)),
        }
    }

    /// A file in messages.
    fn file(&self, name: &str) -> String {
        self.path.join(name).display().to_string()
    }
}

fn failing(path: &Path, error: PolicyError) -> CandidateSource {
    let unreadable = Box::new(Unreadable { error, approval: Approval::default() });
    CandidateSource::new(path.display().to_string(), || Err(unreadable))
}

fn file_error(path: &Path, source: io::Error) -> LoadError {
    LoadError::File { file: path.display().to_string(), source }
}

/// Digests by file name.
pub type Lock = BTreeMap<String, Digest>;

/// The digests of a policy and its settings.
fn locked(lock: &Lock, policy: &str) -> Locked {
    let settings = Path::new(policy).with_extension("json");
    Locked {
        policy: lock.get(policy).copied(),
        settings: settings.to_str().and_then(|name| lock.get(name)).copied(),
    }
}

/// Parses a lock file: one line per file, with a name that is not a path. Errors name `path`.
///
/// # Errors
/// Returns an error for the first line that is invalid or repeats a name.
pub fn parse_lock(path: &Path, bytes: &[u8]) -> Result<Lock, LoadError> {
    let text = String::from_utf8_lossy(bytes);
    let mut lock = Lock::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        // sha256sum writes two spaces, or a space and a star in binary mode.
        let parsed = line.split_once(' ').and_then(|(digest, name)| {
            let name = name.strip_prefix([' ', '*'])?;
            let is_bare = !name.is_empty() && !name.contains('/') && name != "..";
            Some((is_bare.then(|| name.to_owned())?, digest.parse().ok()?))
        });
        let known = parsed.is_some_and(|(name, digest)| lock.insert(name, digest).is_none());
        if !known {
            // Without its text: a link may lead to a file that is not meant to be printed.
            return Err(LoadError::Lock { file: path.display().to_string(), line: index + 1 });
        }
    }
    Ok(lock)
}

#[cfg(test)]
mod tests;
