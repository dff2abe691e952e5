//! The host: takes files that anyone may have written, and makes policies of them.
//!
//! In order: digest and signature, imports, machine code, a trial instantiation, settings, the
//! policy's own test. The first that fails is the reason, and nothing has changed. This room must
//! not know when policies are loaded, nor which ones.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use wasmtime::component::{Component, Linker};

use crate::artifact::{Cache, CacheStats, Key, SignedArtifact, Trusted};
use crate::binary::Binary;
use crate::compile::Compiler;
use crate::contract::{self, Contract};
use crate::digest::Digest;
use crate::engine::{Runtime, RuntimeError};
use crate::fault::{Fault, LoadFault, MemoryFault, WORDS, plain};
use crate::limits::Limits;
use crate::policy::{Guest, Policy};
use crate::room::Room;
use crate::signature::{self, PublicKey};

/// How a host is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// What each run may use up.
    pub limits: Limits,
    /// Who is trusted. With any key, a policy that none of them signed is refused.
    pub keys: Vec<PublicKey>,
    /// Whether functions that no policy gets are replaced by ones that trap, so that a component
    /// which never calls them can run. Off, such a component is refused by their names.
    pub stub_imports: bool,
    /// Where policies are compiled.
    pub compiler: Compiler,
    /// Where compiled policies are kept; `None` keeps none.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            keys: Vec::new(),
            stub_imports: false,
            compiler: Compiler::Here,
            cache: None,
        }
    }
}

/// A file that may become a policy.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Where it came from, for people. A later candidate from there replaces this one.
    pub file: String,
    /// A component, or a core module with component metadata.
    pub bytes: Cow<'static, [u8]>,
    /// Whether it is part of this program, and so needs no signature.
    pub embedded: bool,
    /// The digest that it must have.
    pub pinned: Option<Digest>,
    /// The signature over it.
    pub signature: Option<Vec<u8>>,
    /// It, compiled elsewhere.
    pub artifact: Option<SignedArtifact>,
    /// Its settings, as the operator wrote them beside it.
    pub settings: Map<String, Json>,
    /// Settings by the name of a policy. Those for its name go before the ones beside it.
    pub settings_by_name: Arc<BTreeMap<String, Map<String, Json>>>,
}

impl Candidate {
    /// A file with nothing beside it.
    #[must_use]
    pub fn new(file: impl Into<String>, bytes: impl Into<Cow<'static, [u8]>>) -> Self {
        Self {
            file: file.into(),
            bytes: bytes.into(),
            embedded: false,
            pinned: None,
            signature: None,
            artifact: None,
            settings: Map::new(),
            settings_by_name: Arc::default(),
        }
    }

    /// The settings for a policy of this name that is made of it.
    pub(crate) fn settings_of(&self, name: &str) -> &Map<String, Json> {
        self.settings_by_name.get(name).unwrap_or(&self.settings)
    }
}

/// Makes policies of files.
pub struct Host {
    runtime: Arc<Runtime>,
    linker: Linker<Room>,
    keys: Vec<PublicKey>,
    stub_imports: bool,
    compiler: Compiler,
    cache: Option<Cache>,
}

/// Why there can be no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Nothing can be run.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The cache cannot be used.
    #[error("{} cannot keep compiled policies: {source}", folder.display())]
    Cache {
        /// Where it should be.
        folder: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl Host {
    /// A host, ready to load.
    ///
    /// # Errors
    /// Where the machine cannot run WebAssembly, or the cache cannot be kept.
    pub fn new(options: Options) -> Result<Self, HostError> {
        let runtime = Arc::new(Runtime::start(options.limits)?);
        let mut linker = Linker::new(&runtime.engine);
        contract::link(&mut linker).map_err(RuntimeError::Engine)?;
        let open = |folder: PathBuf| {
            Cache::open(folder.clone()).map_err(|source| HostError::Cache { folder, source })
        };
        let cache = options.cache.map(open).transpose()?;
        let Options { keys, stub_imports, compiler, .. } = options;
        Ok(Self { runtime, linker, keys, stub_imports, compiler, cache })
    }

    /// What became of the cache so far; nothing where there is none.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache.as_ref().map(Cache::stats).unwrap_or_default()
    }

    /// Whether a file is the one that was meant, by someone who is trusted.
    ///
    /// # Errors
    /// `Digest` or `Signature`.
    pub fn vouch(&self, candidate: &Candidate) -> Result<Digest, LoadFault> {
        let found = Digest::of(&candidate.bytes);
        if let Some(expected) = candidate.pinned
            && found != expected
        {
            return Err(LoadFault::Digest { expected, found });
        }
        if !self.keys.is_empty() && !candidate.embedded {
            signature::verify(&self.keys, &candidate.bytes, candidate.signature.as_deref())?;
        }
        Ok(found)
    }

    /// Makes a policy of a file, and tries it out.
    ///
    /// # Errors
    /// The first thing that is wrong with it. Whatever a guest does in its trial is one of them.
    pub fn load(&self, candidate: Candidate) -> Result<Policy, Fault> {
        let digest = self.vouch(&candidate)?;
        self.admit(&candidate.bytes)?;
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
        Policy::try_out(candidate, digest, guest)
    }

    /// Compiles a policy for hosts like this one: what `Candidate::artifact` takes, once signed.
    ///
    /// # Errors
    /// As [`load`](Self::load), up to compiling.
    pub fn compile(&self, bytes: &[u8]) -> Result<Vec<u8>, LoadFault> {
        let key = Key::of(Digest::of(bytes), &self.runtime.engine);
        self.admit(bytes)?;
        let code = self.compiler.compile(bytes, self.runtime.layout)?;
        Ok(Trusted::fresh(key, &code).into_bytes())
    }

    /// Whether a file asks for nothing that no policy gets.
    fn admit(&self, bytes: &[u8]) -> Result<(), LoadFault> {
        contract::admit(&Binary::read(bytes)?, self.stub_imports)
    }

    /// Machine code: made elsewhere, from the cache, or compiled now.
    fn component(
        &self,
        digest: Digest,
        bytes: &[u8],
        elsewhere: Option<&SignedArtifact>,
    ) -> Result<Component, Fault> {
        let engine = &self.runtime.engine;
        let key = Key::of(digest, engine);
        if let Some(artifact) = elsewhere {
            let trusted = Trusted::signed(artifact, &self.keys);
            match trusted.and_then(|trusted| trusted.component(key, engine).ok()) {
                Some(component) => return Ok(component),
                None => self.cache.iter().for_each(Cache::poisoned),
            }
        }
        if let Some(component) = self.cache.as_ref().and_then(|cache| cache.load(key, engine)) {
            return Ok(component);
        }
        let fresh = Trusted::fresh(key, &self.compiler.compile(bytes, self.runtime.layout)?);
        // It was made for this engine; only its parts can be too many or too large.
        let component = fresh.component(key, engine).map_err(MemoryFault::Parts)?;
        if let Some(cache) = &self.cache {
            cache.store(key, &fresh);
        }
        Ok(component)
    }
}

fn not_a_policy(error: &wasmtime::Error) -> LoadFault {
    LoadFault::NotAPolicy(plain(&format!("{error:#}"), WORDS))
}
