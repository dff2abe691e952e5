//! The policy host: turns files that anyone may have written into loaded policies.
//!
//! Steps, in order: digest and signature, imports, machine code, trial instantiation, settings,
//! self-test. The first that fails is the error, and nothing has changed. Must not depend on when
//! policies are loaded, or which.

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use wasmtime::component::{Component, Linker};

use crate::artifact::{Cache, CacheKey, CacheStats, SignedArtifact, TrustedArtifact};
pub use crate::candidate::Candidate;
use crate::compile::Compiler;
use crate::contract::{self, Contract};
use crate::digest::Digest;
use crate::engine::{Runtime, RuntimeError};
use crate::error::{LoadError, MAX_GUEST_TEXT, MemoryError, PolicyError, sanitize};
use crate::guest_state::GuestState;
use crate::limits::Limits;
use crate::policy::{Guest, Policy};
use crate::signature::{self, PublicKey};
use crate::wasm_info::WasmInfo;

/// Configuration of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of each evaluation.
    pub limits: Limits,
    /// Trusted signing keys. If there are any, a policy must be signed by one of them.
    pub keys: Vec<PublicKey>,
    /// Whether to replace disallowed imports with stubs that trap when called, so that a component
    /// that never calls them can run. Otherwise such a component is rejected.
    pub stub_imports: bool,
    /// How policies are compiled.
    pub compiler: Compiler,
    /// Whether policies are interpreted, so that no memory is executable. Builds without the feature
    /// `compiler` always interpret.
    pub interpreter: bool,
    /// Directory for compiled policies; `None` disables the cache.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            keys: Vec::new(),
            stub_imports: false,
            compiler: Compiler::InProcess,
            interpreter: false,
            cache: None,
        }
    }
}

/// Loads policies.
pub struct Host {
    runtime: Arc<Runtime>,
    linker: Linker<GuestState>,
    keys: Vec<PublicKey>,
    stub_imports: bool,
    compiler: Compiler,
    cache: Option<Cache>,
}

/// Why a host cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No policy can be run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The cache directory cannot be used.
    #[error("cannot store compiled policies in {}: {source}", dir.display())]
    Cache {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

impl Host {
    /// Starts a host.
    ///
    /// # Errors
    /// Returns an error if a limit is 0, this machine cannot run WebAssembly, or the cache directory
    /// cannot be used.
    pub fn new(options: Options) -> Result<Self, HostError> {
        let runtime = Arc::new(Runtime::start(options.limits, options.interpreter)?);
        let mut linker = Linker::new(&runtime.engine);
        contract::link(&mut linker).map_err(RuntimeError::Engine)?;
        let open = |dir: PathBuf| {
            Cache::open(dir.clone()).map_err(|source| HostError::Cache { dir, source })
        };
        let cache = options.cache.map(open).transpose()?;
        let Options { keys, stub_imports, compiler, .. } = options;
        Ok(Self { runtime, linker, keys, stub_imports, compiler, cache })
    }

    /// Cache counters since the start; all 0 without a cache.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.as_ref().map(Cache::stats).unwrap_or_default()
    }

    /// Checks a file's digest and signature, and returns the digest.
    ///
    /// # Errors
    /// Returns [`LoadError::Digest`] if the file is not the pinned one, and
    /// [`LoadError::Signature`] if no trusted key signed it.
    pub fn verify(&self, candidate: &Candidate) -> Result<Digest, LoadError> {
        let found = Digest::of(&candidate.bytes);
        if let Some(expected) = candidate.pinned
            && found != expected
        {
            return Err(LoadError::Digest { expected, found });
        }
        if !self.keys.is_empty() && !candidate.embedded {
            signature::verify(&self.keys, &candidate.bytes, candidate.signature.as_deref())?;
        }
        Ok(found)
    }

    /// Loads a policy, including a trial of it.
    ///
    /// # Errors
    /// Returns the first problem found. Whatever a guest does in its trial is one of them.
    pub fn load(&self, candidate: Candidate) -> Result<Policy, PolicyError> {
        let digest = self.verify(&candidate)?;
        self.check_surface(&candidate.bytes)?;
        let component = self.component(digest, &candidate.bytes, candidate.artifact.as_ref())?;
        let linker = if self.stub_imports {
            let mut stubbed = self.linker.clone();
            stubbed.define_unknown_imports_as_traps(&component).map_err(|e| not_a_policy(&e))?;
            Cow::Owned(stubbed)
        } else {
            Cow::Borrowed(&self.linker)
        };
        let pre = linker.instantiate_pre(&component).map_err(|error| not_a_policy(&error))?;
        let contract = Contract::probe(&pre)?;
        let guest = Guest::new(Arc::clone(&self.runtime), pre, contract);
        Policy::try_load(candidate, digest, guest)
    }

    /// Compiles a policy for hosts like this one. Once signed, the result can be used as
    /// [`Candidate::artifact`].
    ///
    /// # Errors
    /// As [`load`](Self::load), up to compiling.
    pub fn compile(&self, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let key = CacheKey::new(Digest::of(bytes), &self.runtime.engine);
        self.check_surface(bytes)?;
        let code = self.compiler.compile(bytes, self.runtime.layout)?;
        Ok(TrustedArtifact::new(key, &code).into_bytes())
    }

    /// Checks a file's contract version and imports.
    fn check_surface(&self, bytes: &[u8]) -> Result<(), LoadError> {
        contract::admit(&WasmInfo::parse(bytes)?, self.stub_imports)
    }

    /// Machine code: from an artifact compiled elsewhere or embedded, the cache, or the compiler.
    fn component(
        &self,
        digest: Digest,
        bytes: &[u8],
        artifact: Option<&SignedArtifact>,
    ) -> Result<Component, PolicyError> {
        let engine = &self.runtime.engine;
        let key = CacheKey::new(digest, engine);
        if let Some(artifact) = artifact {
            let trusted = TrustedArtifact::from_signed(artifact, &self.keys);
            match trusted.and_then(|trusted| trusted.component(key, engine).ok()) {
                Some(component) => return Ok(component),
                None => self.cache.iter().for_each(Cache::count_corrupt),
            }
        }
        let embedded = TrustedArtifact::embedded(key);
        if let Some(component) = embedded.and_then(|it| it.component(key, engine).ok()) {
            return Ok(component);
        }
        if let Some(component) = self.cache.as_ref().and_then(|cache| cache.load(key, engine)) {
            return Ok(component);
        }
        let code = self.compiler.compile(bytes, self.runtime.layout)?;
        let artifact = TrustedArtifact::new(key, &code);
        // Compiled for this engine, so the only possible error is too many or too large parts.
        let component = artifact.component(key, engine).map_err(MemoryError::Parts)?;
        if let Some(cache) = &self.cache {
            cache.store(key, &artifact);
        }
        Ok(component)
    }
}

fn not_a_policy(error: &wasmtime::Error) -> LoadError {
    LoadError::NotAPolicy(sanitize(&format!("{error:#}"), MAX_GUEST_TEXT))
}
