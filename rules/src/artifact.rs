//! Compiled policies, and their authenticated cache on disk.
//!
//! Machine code runs outside the sandbox, so only code that this program compiled or a trusted key
//! signed is loaded: a cached artifact carries a MAC under a random key in a directory that no other
//! user can change, and an artifact compiled elsewhere comes with a signature. Its header identifies
//! the component and the engine it was compiled for. An artifact that fails a check is counted and
//! compiled again.

use std::borrow::Cow;
use std::hash::Hasher;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hmac::{Hmac, Mac};
use sha2::{Digest as _, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::codegen;
use crate::digest::Digest;
use crate::embedded::DEFAULT_POLICIES;
use crate::engine::INTERPRETER;
use crate::private_dir::PrivateDir;
pub use crate::private_dir::PrivateDirError;
use crate::signature::{self, PublicKey, Use};

/// Start of an artifact: file type and format version.
const MAGIC: &[u8; 16] = b"phasemeter-aot-1";

/// Whether a file begins like an artifact.
#[must_use]
pub fn is_artifact(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Artifacts kept in the cache; the oldest are removed. One new policy per day of a month fits.
const MAX_ARTIFACTS: usize = 32;

/// Size of the largest artifact in the cache, in bytes: ten times that of a Python interpreter.
const MAX_ARTIFACT_BYTES: u64 = 512 << 20;

/// Size of the MAC at the start of a cached file.
const MAC_BYTES: usize = 32;

/// Name of the file with the cache's MAC key.
const KEY: &str = "key";

/// Identifies an artifact: a digest over the component and the engine it is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CacheKey([u8; 32]);

impl CacheKey {
    /// wasmtime's compatibility hash covers its version, flags, memory layout and processor. The
    /// target is added because the hash is not documented to include it.
    pub(crate) fn new(component: Digest, engine: &Engine) -> Self {
        let mut hash = KeyHasher(Sha256::new_with_prefix(MAGIC));
        hash.write(component.as_bytes());
        if engine.is_pulley() {
            // Bytecode is the same on every machine. The engine compares version and flags when it
            // loads it; builds without a compiler have no such hash.
            hash.write(INTERPRETER.as_bytes());
        } else {
            hash.write(std::env::consts::ARCH.as_bytes());
            hash.write(std::env::consts::OS.as_bytes());
            codegen::hash_compatibility(engine, &mut hash);
        }
        Self(hash.0.finalize().into())
    }

    fn file_name(self) -> String {
        let name: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        name + ".aot"
    }
}

/// Adapts SHA-256 to `Hasher`. `finish` is never called.
struct KeyHasher(Sha256);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Machine code that is safe to run: the output of this program's compiler, directly, or unchanged
/// since by MAC or signature. The constructors are the only way to get one.
pub(crate) struct TrustedArtifact {
    /// Magic, key, machine code. Borrowed from this program, or owned.
    bytes: Cow<'static, [u8]>,
}

impl TrustedArtifact {
    /// Wraps the compiler's output.
    pub(crate) fn new(key: CacheKey, code: &[u8]) -> Self {
        Self { bytes: Cow::Owned([MAGIC.as_slice(), &key.0, code].concat()) }
    }

    /// The artifact with this key that is part of this program, if any.
    pub(crate) fn embedded(key: CacheKey) -> Option<Self> {
        let mut artifacts = DEFAULT_POLICIES.iter().map(|policy| policy.artifact);
        let has_key =
            |bytes: &&[u8]| bytes.strip_prefix(MAGIC).is_some_and(|rest| rest.starts_with(&key.0));
        artifacts.find(has_key).map(|bytes| Self { bytes: Cow::Borrowed(bytes) })
    }

    /// An artifact signed by a trusted key; `None` if it is not, or there are no keys.
    pub(crate) fn from_signed(artifact: &SignedArtifact, keys: &[PublicKey]) -> Option<Self> {
        let signature = Some(artifact.signature.as_slice());
        signature::verify(keys, Use::MachineCode, &artifact.bytes, signature).ok()?;
        Some(Self { bytes: Cow::Owned(artifact.bytes.clone()) })
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes.into_owned()
    }

    /// The component, ready to instantiate.
    ///
    /// # Errors
    /// Returns an error if the artifact has another key, or more parts than the engine allows.
    #[expect(unsafe_code, reason = "the only place where machine code is loaded from bytes")]
    pub(crate) fn component(&self, key: CacheKey, engine: &Engine) -> wasmtime::Result<Component> {
        // SAFETY, of both: the input must be the unchanged output of a compiler that is compatible
        // with `engine`. A `TrustedArtifact` is: it comes from the compiler itself, is part of this
        // program like its own code, or its MAC or signature was verified over these same bytes, in
        // memory, which no other process can modify. The key matches this engine.
        match &self.bytes {
            // SAFETY: in addition, the bytes must live as long as the component and never change:
            // they are constants of this program. Bytecode is never made executable.
            Cow::Borrowed(bytes) => unsafe {
                Component::deserialize_raw(engine, NonNull::from_ref(code(bytes, key)?))
            },
            // SAFETY: see above.
            Cow::Owned(bytes) => unsafe { Component::deserialize(engine, code(bytes, key)?) },
        }
    }
}

/// The code of an artifact with this key.
fn code(artifact: &[u8], key: CacheKey) -> wasmtime::Result<&[u8]> {
    let code = artifact.strip_prefix(MAGIC).and_then(|rest| rest.strip_prefix(&key.0));
    code.ok_or_else(|| wasmtime::format_err!("compiled from another policy or for another engine"))
}

/// An artifact compiled elsewhere, with its signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedArtifact {
    /// The output of `phasemeter policy compile`.
    pub bytes: Vec<u8>,
    /// The signature of it as machine code, 64 bytes.
    pub signature: Vec<u8>,
}

/// Artifacts on disk, compiled by this program.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PrivateDir,
    mac_key: [u8; 32],
    stats: Mutex<CacheStats>,
}

/// Cache counters since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Artifacts loaded from the cache.
    pub hits: u64,
    /// Lookups without a usable artifact in the cache.
    pub misses: u64,
    /// Artifacts, cached or compiled elsewhere, that failed a check.
    pub corrupt: u64,
    /// Artifacts that could not be written to the cache.
    pub write_errors: u64,
}

impl Cache {
    /// Opens the cache in a directory, which is created if needed.
    pub(crate) fn open(dir: &Path) -> Result<Self, PrivateDirError> {
        let path = dir;
        let dir = PrivateDir::open(path)?;
        let mac_key =
            mac_key(&dir).map_err(|source| PrivateDirError::Io { path: path.join(KEY), source })?;
        Ok(Self { dir, mac_key, stats: Mutex::default() })
    }

    pub(crate) fn stats(&self) -> CacheStats {
        *self.counters()
    }

    fn counters(&self) -> MutexGuard<'_, CacheStats> {
        self.stats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cached component; `None` if there is none, or its artifact fails a check.
    pub(crate) fn load(&self, key: CacheKey, engine: &Engine) -> Option<Component> {
        let file = match self.dir.read(&key.file_name(), MAX_ARTIFACT_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.counters().misses += 1;
                return None;
            }
            file => file.ok(),
        };
        let component = file
            .and_then(|file| self.authenticate(file))
            .and_then(|trusted| trusted.component(key, engine).ok());
        if component.is_some() {
            self.counters().hits += 1;
        } else {
            self.counters().misses += 1;
            self.count_corrupt();
        }
        component
    }

    /// Counts an artifact that failed a check.
    pub(crate) fn count_corrupt(&self) {
        self.counters().corrupt += 1;
    }

    /// Stores an artifact for the next start. If that fails, the next start compiles again.
    pub(crate) fn store(&self, key: CacheKey, artifact: &TrustedArtifact) {
        let mut file = self.mac(&artifact.bytes).finalize().into_bytes().to_vec();
        file.extend_from_slice(&artifact.bytes);
        if self.dir.replace(&key.file_name(), &file).is_err() {
            self.counters().write_errors += 1;
        }
        self.prune();
    }

    fn mac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        // HMAC accepts keys of any length; the error is for other MACs.
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.mac_key);
        mac.unwrap_or_else(|_| <Hmac<Sha256> as Mac>::new(&Default::default())).chain_update(bytes)
    }

    fn authenticate(&self, mut file: Vec<u8>) -> Option<TrustedArtifact> {
        let (mac, bytes) = file.split_at_checked(MAC_BYTES)?;
        self.mac(bytes).verify_slice(mac).ok()?;
        // A copy into new memory takes longer.
        file.drain(..MAC_BYTES);
        Some(TrustedArtifact { bytes: Cow::Owned(file) })
    }

    fn prune(&self) {
        let mut artifacts = self.dir.by_age();
        artifacts.retain(|name| name.ends_with(".aot"));
        for name in artifacts.iter().take(artifacts.len().saturating_sub(MAX_ARTIFACTS)) {
            self.dir.remove(name);
        }
    }
}

/// The cache's MAC key: 32 random bytes that only this user can access. Any other key is replaced,
/// which invalidates all artifacts.
fn mac_key(dir: &PrivateDir) -> io::Result<[u8; 32]> {
    if let Ok(key) = dir.read(KEY, 32)
        && let Ok(key) = key.try_into()
    {
        return Ok(key);
    }
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    dir.replace(KEY, &key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn cache_keeps_a_bounded_number_of_artifacts() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(dir.path()).unwrap();
        let engine = Engine::default();
        for policy in 0..MAX_ARTIFACTS + 3 {
            let key = CacheKey::new(Digest::of(&policy.to_le_bytes()), &engine);
            cache.store(key, &TrustedArtifact::new(key, b"code"));
        }
        let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
        let artifacts = files.filter(|path| path.extension().is_some_and(|end| end == "aot"));
        assert_eq!(artifacts.count(), MAX_ARTIFACTS);
        assert!(dir.path().join("key").exists());
    }
}
