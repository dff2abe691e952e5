//! The policy host: turns files that anyone may have written into loaded policies.
//!
//! Steps, in order: digest and signature, machine code, for which the compiler checks the imports,
//! trial instantiation, settings, self-test. The first that fails is the error, and nothing has
//! changed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use wasmtime::component::{Component, Linker};

use crate::artifact::{Cache, CacheKey, CacheStats, PrivateDirError, TrustedArtifact};
use crate::candidate::parse_settings;
pub use crate::candidate::{
    Approval, Candidate, CandidateSource, Locked, SettingsFile, Unreadable,
};
use crate::codegen;
use crate::compile::Compiler;
use crate::contract::{self, Contract, Stubs};
use crate::digest::Digest;
use crate::engine::{Runtime, RuntimeError};
use crate::error::{LoadError, PolicyError};
use crate::guest_state::GuestState;
use crate::limits::Limits;
use crate::policy::{Guest, Origin, Policy};
use crate::signature::{self, PublicKey, Use};

/// Configuration of a host.
#[derive(Clone, Debug)]
pub struct Options {
    /// Limits of each evaluation.
    pub limits: Limits,
    /// Trusted signing keys. If there are any, a policy and the settings file beside it must be signed
    /// by one of them.
    pub keys: Vec<PublicKey>,
    /// Settings by policy name, which take precedence over those of a candidate.
    pub settings: Arc<BTreeMap<String, Map<String, Json>>>,
    /// Whether to replace disallowed imports with stubs that trap when called, so that a component
    /// that never calls them can run. Otherwise such a component is rejected.
    pub stub_imports: bool,
    /// How policies are compiled.
    pub compiler: Compiler,
    /// Whether all policies are interpreted, so that no memory is executable. Builds without the feature
    /// `compiler` always interpret. Those that are part of this program always are: for one evaluation in
    /// minutes, to compile them takes longer.
    pub interpreter: bool,
    /// Directory for compiled policies; `None` disables the cache. It is not used if other users can
    /// change it.
    pub cache: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            keys: Vec::new(),
            settings: Arc::default(),
            stub_imports: false,
            compiler: Compiler::InProcess,
            interpreter: false,
            cache: None,
        }
    }
}

/// A candidate that is approved.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The digest of the policy.
    pub digest: Digest,
    /// Its own settings, before those of the host.
    pub(crate) settings: Map<String, Json>,
    /// The digest of its settings file, if it has one.
    pub(crate) settings_digest: Option<Digest>,
}

/// An engine, and what guests import.
struct Sandbox {
    runtime: Arc<Runtime>,
    linker: Linker<GuestState>,
}

impl Sandbox {
    fn start(limits: Limits, interpreter: bool) -> Result<Self, RuntimeError> {
        let runtime = Arc::new(Runtime::start(limits, interpreter)?);
        let mut linker = Linker::new(&runtime.engine);
        contract::link(&mut linker).map_err(RuntimeError::Engine)?;
        Ok(Self { runtime, linker })
    }

    /// The key of a policy, compiled for it.
    fn key(&self, policy: Digest) -> CacheKey {
        CacheKey::new(policy, &self.runtime.engine)
    }
}

/// Loads policies.
pub struct Host {
    /// Runs native code; `None` if all policies are interpreted.
    native: Option<Sandbox>,
    interpreter: Sandbox,
    keys: Vec<PublicKey>,
    settings: Arc<BTreeMap<String, Map<String, Json>>>,
    stub_imports: bool,
    compiler: Compiler,
    cache: Option<Result<Cache, PrivateDirError>>,
}

impl Host {
    /// Starts a host.
    ///
    /// # Errors
    /// Returns an error if a limit is 0 or this machine cannot run WebAssembly.
    pub fn new(options: Options) -> Result<Self, RuntimeError> {
        let is_native = codegen::AVAILABLE && !options.interpreter;
        let native = is_native.then(|| Sandbox::start(options.limits, false)).transpose()?;
        let interpreter = Sandbox::start(options.limits, true)?;
        let cache = options.cache.map(|dir| Cache::open(&dir));
        let Options { keys, settings, stub_imports, compiler, .. } = options;
        Ok(Self { native, interpreter, keys, settings, stub_imports, compiler, cache })
    }

    /// Where policies run that are compiled here.
    fn compiled(&self) -> &Sandbox {
        self.native.as_ref().unwrap_or(&self.interpreter)
    }

    /// Cache counters since the start; all 0 without a cache.
    #[must_use]
    pub fn cache_stats(&self) -> CacheStats {
        self.cache().map(Cache::stats).unwrap_or_default()
    }

    /// Why the configured cache is not used, if so.
    #[must_use]
    pub fn cache_error(&self) -> Option<&PrivateDirError> {
        self.cache.as_ref()?.as_ref().err()
    }

    fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()?.as_ref().ok()
    }

    /// Whether policies must be signed.
    #[must_use]
    pub fn requires_signatures(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Checks that a candidate and its settings file are approved: by the lock file, if there is one,
    /// and by signatures, if there are keys.
    ///
    /// # Errors
    /// Returns an error if one of them is not approved, or the settings are not a JSON object.
    pub fn verify(&self, candidate: &Candidate) -> Result<Verified, PolicyError> {
        let Candidate { approval, bytes, settings_file, .. } = candidate;
        let locked = approval.locked;
        let digest = candidate.embedded.unwrap_or_else(|| Digest::of(bytes));
        let signed = (Use::Policy, approval.signature.as_deref());
        self.check(
            bytes,
            digest,
            locked.map(|locked| locked.policy),
            candidate.embedded.is_none().then_some(signed),
        )?;
        let Some(settings) = settings_file else {
            if locked.is_some_and(|locked| locked.settings.is_some()) {
                return Err(LoadError::SettingsMissing.into());
            }
            let settings = candidate.settings.clone();
            return Ok(Verified { digest, settings, settings_digest: None });
        };
        let path = Path::new(&candidate.file).with_file_name(&settings.name);
        let settings_digest = Digest::of(&settings.bytes);
        self.check(
            &settings.bytes,
            settings_digest,
            locked.map(|locked| locked.settings),
            Some((Use::Settings(&settings.name), approval.settings_signature.as_deref())),
        )
        .map_err(|error| LoadError::Settings {
            file: path.display().to_string(),
            error: Box::new(error),
        })?;
        let settings = parse_settings(&path, &settings.bytes)?;
        Ok(Verified { digest, settings, settings_digest: Some(settings_digest) })
    }

    /// Checks one file. `locked` is `None` if there is no lock file, and `signature` if none is needed.
    fn check(
        &self,
        bytes: &[u8],
        found: Digest,
        locked: Option<Option<Digest>>,
        signature: Option<(Use<'_>, Option<&[u8]>)>,
    ) -> Result<(), LoadError> {
        match locked {
            Some(None) => return Err(LoadError::NotLocked),
            Some(Some(expected)) if found != expected => {
                return Err(LoadError::Digest { expected, found });
            }
            Some(Some(_)) | None => {}
        }
        if let Some((used_as, signature)) = signature.filter(|_| self.requires_signatures()) {
            signature::verify(&self.keys, used_as, bytes, signature)?;
        }
        Ok(())
    }

    /// Whether the current approval covers the loaded version too, and has the signature that approved it.
    pub(crate) fn still_approves(&self, now: &Approval, loaded: &Origin) -> bool {
        let locked = now.locked.is_none_or(|locked| {
            (locked.policy, locked.settings) == (Some(loaded.digest), loaded.settings_digest)
        });
        let then = &loaded.approval;
        let signed = !self.requires_signatures()
            || loaded.embedded
            || (now.signature.is_some() && now.signature == then.signature)
                && (loaded.settings_digest.is_none()
                    || now.settings_signature == then.settings_signature);
        locked && signed
    }

    /// The settings that a policy of this name gets: those of the host, else its own.
    pub(crate) fn settings_of<'a>(
        &'a self,
        name: &str,
        own: &'a Map<String, Json>,
    ) -> &'a Map<String, Json> {
        self.settings.get(name).unwrap_or(own)
    }

    /// Loads a policy, including a trial of it.
    ///
    /// # Errors
    /// Returns the first problem found. Whatever a guest does in its trial is one of them.
    pub fn load(&self, candidate: Candidate) -> Result<Policy, PolicyError> {
        let verified = self.verify(&candidate)?;
        self.load_verified(candidate, verified)
    }

    /// Loads a policy after [`verify`](Self::verify).
    pub(crate) fn load_verified(
        &self,
        candidate: Candidate,
        verified: Verified,
    ) -> Result<Policy, PolicyError> {
        let (sandbox, component) = self.component(verified.digest, &candidate)?;
        let linker = if self.stub_imports {
            let mut stubbed = sandbox.linker.clone();
            let defined = stubbed.define_unknown_imports_as_traps(&component);
            defined.map_err(LoadError::not_a_policy)?;
            Cow::Owned(stubbed)
        } else {
            Cow::Borrowed(&sandbox.linker)
        };
        let pre = linker.instantiate_pre(&component).map_err(LoadError::not_a_policy)?;
        let contract = Contract::probe(&pre)?;
        let guest = Guest::new(Arc::clone(&sandbox.runtime), pre, contract);
        let origin = Origin {
            file: candidate.file,
            digest: verified.digest,
            settings_digest: verified.settings_digest,
            embedded: candidate.embedded.is_some(),
            approval: candidate.approval,
        };
        let own = verified.settings;
        Policy::try_load(origin, guest, |name| self.settings.get(name).cloned().unwrap_or(own))
    }

    /// Compiles a policy for hosts like this one. Once signed, the result can be used as
    /// [`Candidate::artifact`].
    ///
    /// # Errors
    /// As [`load`](Self::load), up to compiling.
    pub fn compile(&self, bytes: &[u8]) -> Result<Vec<u8>, LoadError> {
        let Sandbox { runtime, .. } = self.compiled();
        let code = self.compiler.compile(bytes, runtime.layout, self.stubs())?;
        let key = self.compiled().key(Digest::of(bytes));
        Ok(TrustedArtifact::new(key, &code).into_bytes())
    }

    const fn stubs(&self) -> Stubs {
        if self.stub_imports { Stubs::Enabled } else { Stubs::Disabled }
    }

    /// A compiled policy, and where it runs: from an artifact compiled elsewhere, native or for the
    /// interpreter; this program; the cache; or the compiler.
    fn component(
        &self,
        digest: Digest,
        candidate: &Candidate,
    ) -> Result<(&Sandbox, Component), PolicyError> {
        if let Some(artifact) = &candidate.artifact {
            let trusted = TrustedArtifact::from_signed(artifact, &self.keys);
            let load =
                |sandbox| Some((sandbox, Self::load_artifact(trusted.as_ref()?, sandbox, digest)?));
            let sandboxes = self.native.iter().chain([&self.interpreter]);
            match sandboxes.into_iter().find_map(load) {
                Some(loaded) => return Ok(loaded),
                None => self.cache().into_iter().for_each(Cache::count_corrupt),
            }
        }
        let sandbox = self.compiled();
        if candidate.embedded.is_some() || self.native.is_none() {
            let embedded = TrustedArtifact::embedded(self.interpreter.key(digest));
            let load = |it| Self::load_artifact(&it, &self.interpreter, digest);
            if let Some(component) = embedded.and_then(load) {
                return Ok((&self.interpreter, component));
            }
        }
        let (engine, key) = (&sandbox.runtime.engine, sandbox.key(digest));
        if let Some(component) = self.cache().and_then(|cache| cache.load(key, engine)) {
            return Ok((sandbox, component));
        }
        let layout = sandbox.runtime.layout;
        let code = self.compiler.compile(&candidate.bytes, layout, self.stubs())?;
        let artifact = TrustedArtifact::new(key, &code);
        // Compiled for this engine, so the only possible error is too many or too large parts.
        let component = artifact.component(key, engine).map_err(PolicyError::Parts)?;
        if let Some(cache) = self.cache() {
            cache.store(key, &artifact);
        }
        Ok((sandbox, component))
    }

    fn load_artifact(
        artifact: &TrustedArtifact,
        sandbox: &Sandbox,
        policy: Digest,
    ) -> Option<Component> {
        artifact.component(sandbox.key(policy), &sandbox.runtime.engine).ok()
    }
}
