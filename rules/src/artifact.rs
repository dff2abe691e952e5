//! Compiled policies, and the cache of them on disk that cannot be poisoned.
//!
//! Machine code runs outside the sandbox, so none is loaded that this program did not make or
//! someone trusted sign: a file of the cache carries a MAC under a random key that only this user
//! can read, one made elsewhere comes with a signature. Its name and its head say what it was
//! compiled from, and for what engine. Whatever does not fit is a miss: counted, and compiled anew.
//! This room must not know what a policy is.

use std::fs::{self, DirBuilder, OpenOptions};
use std::hash::{Hash as _, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::digest::Digest;
use crate::signature::{self, PublicKey};

/// What an artifact begins with: what it is, and the version of its layout.
const MAGIC: &[u8; 16] = b"phasemeter-aot-1";

/// The most artifacts that the cache keeps: the oldest go. A policy of every day of a month.
const KEPT: usize = 32;

/// Compiled from what, and for which engine: a digest over both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u8; 32]);

impl Key {
    /// The compatibility hash covers wasmtime's version, its flags, the layout of memory and the
    /// processor; the target is said once more because nothing promises that it is in there.
    pub(crate) fn of(component: Digest, engine: &Engine) -> Self {
        let mut hash = KeyHasher(Sha256::new_with_prefix(MAGIC));
        hash.write(component.as_bytes());
        hash.write(std::env::consts::ARCH.as_bytes());
        hash.write(std::env::consts::OS.as_bytes());
        engine.precompile_compatibility_hash().hash(&mut hash);
        Self(hash.0.finalize().into())
    }

    fn file_name(self) -> String {
        let name: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        name + ".aot"
    }
}

/// Takes all that is hashed into a digest; the 64 bits of `finish` are not asked for.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Machine code that may be run: made by this process or its child, or proven to be unchanged
/// since one like it made it. There is no other way to get one.
pub(crate) struct Trusted {
    /// Magic, key, machine code.
    bytes: Vec<u8>,
}

impl Trusted {
    /// What the compiler just made.
    pub(crate) fn fresh(key: Key, code: &[u8]) -> Self {
        Self { bytes: [MAGIC.as_slice(), &key.0, code].concat() }
    }

    /// What someone trusted signed.
    pub(crate) fn signed(artifact: &SignedArtifact, keys: &[PublicKey]) -> Option<Self> {
        // Without keys nobody is trusted.
        signature::verify(keys, &artifact.bytes, Some(&artifact.signature)).ok()?;
        Some(Self { bytes: artifact.bytes.clone() })
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A component that can be instantiated.
    ///
    /// # Errors
    /// Where it was compiled from something else, or for another engine; where its parts are more
    /// than the engine gives.
    #[expect(unsafe_code, reason = "the one place where compiled code is taken from bytes")]
    pub(crate) fn component(&self, key: Key, engine: &Engine) -> wasmtime::Result<Component> {
        let code = self.bytes.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&key.0));
        let code = code.ok_or_else(|| wasmtime::format_err!("it was compiled for another use"))?;
        // SAFETY: `deserialize` runs what it is given, and so must be given what a compiler like
        // the one of `engine` made, unchanged. A `Trusted` is that: it comes from the compiler
        // itself, or its MAC or signature was verified over these very bytes, in memory, where
        // nobody can change them since. The key says that they are for this engine.
        unsafe { Component::deserialize(engine, code) }
    }
}

/// An artifact that was compiled elsewhere, with the signature over it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedArtifact {
    /// What `phasemeter policy compile` wrote.
    pub bytes: Vec<u8>,
    /// 64 bytes.
    pub signature: Vec<u8>,
}

/// Artifacts that this program made, on disk.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    seal: [u8; 32],
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
    poisoned: AtomicU64,
    unwritten: AtomicU64,
}

/// What became of the cache so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Artifacts that were loaded.
    pub hits: u64,
    /// Policies that had to be compiled.
    pub misses: u64,
    /// Of these, how many had an artifact that was not what it should be.
    pub poisoned: u64,
    /// Artifacts that could not be written.
    pub unwritten: u64,
}

impl Cache {
    pub(crate) fn open(folder: PathBuf) -> io::Result<Self> {
        DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let seal = seal_key(&folder)?;
        Ok(Self { folder, seal, counts: Counts::default() })
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        CacheStats {
            hits: read(&self.counts.hits),
            misses: read(&self.counts.misses),
            poisoned: read(&self.counts.poisoned),
            unwritten: read(&self.counts.unwritten),
        }
    }

    /// The component compiled before, if it is there and unchanged.
    pub(crate) fn load(&self, key: Key, engine: &Engine) -> Option<Component> {
        let path = self.folder.join(key.file_name());
        let Ok(file) = fs::read(&path) else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let component = self.unseal(&file).and_then(|trusted| trusted.component(key, engine).ok());
        if component.is_some() {
            self.counts.hits.fetch_add(1, Ordering::Relaxed);
        } else {
            self.counts.misses.fetch_add(1, Ordering::Relaxed);
            self.poisoned();
        }
        component
    }

    /// Counts an artifact that was not what it should be.
    pub(crate) fn poisoned(&self) {
        self.counts.poisoned.fetch_add(1, Ordering::Relaxed);
    }

    /// Keeps an artifact for the next start. Where that fails, the next start compiles again.
    pub(crate) fn store(&self, key: Key, artifact: &Trusted) {
        let mut file = self.mac(&artifact.bytes).finalize().into_bytes().to_vec();
        file.extend_from_slice(&artifact.bytes);
        if replace(&self.folder.join(key.file_name()), &file).is_err() {
            self.counts.unwritten.fetch_add(1, Ordering::Relaxed);
        }
        self.prune();
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        // HMAC hashes a key of any length to a block; the error is for other MACs.
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.seal);
        mac.unwrap_or_else(|_| <Hmac<Sha256> as Mac>::new(&Default::default())).chain_update(bytes)
    }

    fn unseal(&self, file: &[u8]) -> Option<Trusted> {
        let (mac, bytes) = file.split_at_checked(32)?;
        self.mac(bytes).verify_slice(mac).ok()?;
        Some(Trusted { bytes: bytes.to_vec() })
    }

    fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut artifacts: Vec<_> = entries
            .filter_map(Result::ok)
            .filter(|entry| entry.path().extension().is_some_and(|end| end == "aot"))
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        artifacts.sort();
        for (_, path) in artifacts.iter().take(artifacts.len().saturating_sub(KEPT)) {
            // Another process may have been faster.
            let _ = fs::remove_file(path);
        }
    }
}

/// The key of the cache: 32 random bytes that only this user can read. One that others could
/// read or wrote is replaced, and everything sealed with it is void.
fn seal_key(folder: &Path) -> io::Result<[u8; 32]> {
    let path = folder.join("key");
    if let Ok(about) = fs::symlink_metadata(&path)
        && about.is_file()
        && about.mode() & 0o077 == 0
        && about.uid() == rustix::process::geteuid().as_raw()
        && let Ok(key) = fs::read(&path)?.try_into()
    {
        return Ok(key);
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    replace(&path, &key)?;
    Ok(key)
}

/// Writes a file that only this user can read, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension(format!("{}.part", std::process::id()));
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        file.write_all(bytes)?;
        fs::rename(&part, path)
    };
    let written = write();
    if written.is_err() {
        // Also what a process of the same id left behind.
        let _ = fs::remove_file(&part);
    }
    written
}
