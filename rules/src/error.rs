//! Everything that can go wrong with a policy: a closed set of typed errors.
//!
//! An error costs a policy one evaluation, or its loading; never a reading, never the process. Text
//! from a guest is truncated and sanitized before it gets here.

use std::fmt;
use std::io;
use std::time::Duration;

use phasemeter_terminal::escape::sanitize;
use wasmtime::Trap;

use crate::digest::Digest;
use crate::limits::LimitExceeded;
use crate::settings::SettingError;

/// Why a policy could not be loaded, or an evaluation of it has no output.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// It was not loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its settings do not fit its schema, or `configure` rejected them.
    #[error("invalid settings: {}", join(.0))]
    Settings(Vec<SettingError>),
    /// It returned an error.
    #[error("policy returned an error: {0}")]
    Guest(String),
    /// It consumed all its fuel.
    #[error("out of fuel: limit {limit}")]
    OutOfFuel {
        /// The fuel it started with.
        limit: u64,
    },
    /// It was stopped at its deadline.
    #[error("deadline exceeded: limit {} ms", limit.as_millis())]
    Deadline {
        /// The wall clock time it had.
        limit: Duration,
    },
    /// It requested more memory or larger tables than allowed.
    #[error(transparent)]
    Memory(#[from] LimitExceeded),
    /// It has more instances, memories or tables than the limits allow, or than the machine has memory for.
    #[error("cannot instantiate: {0:#}")]
    Parts(#[source] wasmtime::Error),
    /// What it passed to the host was too large, out of bounds, or not valid for its type.
    #[error("unreadable output: {0:#}")]
    Output(#[source] wasmtime::Error),
    /// It trapped.
    #[error("trapped: {0}")]
    Trap(#[source] Trap),
    /// It returned a value that violates the contract.
    #[error("invalid response: {}", join(.0))]
    Invalid(Vec<Violation>),
}

/// Why a policy was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be read.
    #[error("cannot read {file}: {source}")]
    File {
        /// Its path.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// The file is not WebAssembly, is truncated or is corrupt.
    #[error("invalid WebAssembly: {0}")]
    Unreadable(String),
    /// It is WebAssembly, but not a policy.
    #[error("not a policy: {0}")]
    NotAPolicy(String),
    /// Its digest is not the locked one.
    #[error("digest mismatch: {expected} is locked, found {found}")]
    Digest {
        /// The locked digest.
        expected: Digest,
        /// The file's digest.
        found: Digest,
    },
    /// The lock file does not list it.
    #[error("not in the lock file; add its line, as sha256sum prints it")]
    NotLocked,
    /// The lock file is malformed.
    #[error(
        "{file}:{line}: invalid line: expected a digest, two spaces and the name of a file, each once"
    )]
    Lock {
        /// Path of the lock file.
        file: String,
        /// Line number, from 1.
        line: usize,
    },
    /// No trusted key signed it.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// Its settings are not approved as it is.
    #[error("{file}: {error}")]
    Settings {
        /// The settings file.
        file: String,
        /// The cause.
        error: Box<LoadError>,
    },
    /// The lock file lists its settings, but there are none.
    #[error("its settings are in the lock file, but missing")]
    SettingsMissing,
    /// A newer version has been in use.
    #[error(
        "version {version} is older than {newest}, which has been in use; with signing keys, \
         versions of a policy must not decrease"
    )]
    Older {
        /// Its version.
        version: String,
        /// The newest version.
        newest: String,
    },
    /// The command has started before it was loaded.
    #[error("still loading; it is used once that is complete")]
    Pending,
    /// The directory has more policies than are loaded.
    #[error("{others} policies are ignored: the directory has more than {limit}")]
    TooMany {
        /// The number of policies that are not loaded.
        others: u64,
        /// The number of policies that are.
        limit: usize,
    },
    /// It imports something other than `log`.
    #[error("disallowed imports: {0}; a policy may import only log")]
    ForbiddenImport(ForbiddenImports),
    /// It was built against a version of the contract that this host does not support.
    #[error(
        "unsupported version {found} of phasemeter:policy: this host supports {known}; {}",
        if *newer { "update Phasemeter" } else { "build the policy against a newer version" }
    )]
    UnsupportedVersion {
        /// The policy's version.
        found: String,
        /// The host's versions.
        known: &'static str,
        /// Whether the policy's is the newer.
        newer: bool,
    },
    /// It cannot be compiled here.
    #[error(transparent)]
    CompileLimit(#[from] CompileError),
}

/// Imports that a policy may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForbiddenImports {
    /// The first names.
    pub(crate) first: Vec<String>,
    /// The number of others.
    pub(crate) more: usize,
}

impl ForbiddenImports {
    /// Names that an error lists.
    const MAX: usize = 8;

    /// Keeps the first names, and counts the others.
    pub(crate) fn new(mut names: impl Iterator<Item = String>, more: usize) -> Self {
        let first = names.by_ref().take(Self::MAX).collect();
        Self { first, more: more + names.count() }
    }
}

impl fmt::Display for ForbiddenImports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.first.join(", "))?;
        if self.more > 0 { write!(f, " and {} more", self.more) } else { Ok(()) }
    }
}

/// Why a signature is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// There is no signature.
    #[error(
        "not signed, although keys are configured; put the signature beside it, with the suffix .sig"
    )]
    Missing,
    /// It does not have 64 bytes.
    #[error("invalid signature of {0} bytes: expected 64")]
    Malformed(usize),
    /// No trusted key made it, or the file has changed since.
    #[error("not signed by any configured key")]
    Untrusted,
}

/// Why a policy could not be compiled here, although it may be valid.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The compiler was stopped by its limits or by the kernel.
    #[error(
        "compiler stopped by its limits of {} MiB and {} s, or since memory ran out; compile it \
         elsewhere with 'phasemeter policy compile' and put the result beside it",
        memory >> 20, time.as_secs()
    )]
    Limit {
        /// Memory limit in bytes.
        memory: u64,
        /// Limit on processor time.
        time: Duration,
    },
    /// This build has no compiler.
    #[error(
        "this build cannot compile policies; compile it elsewhere with 'phasemeter policy compile \
         --interpreter', sign the result and put both beside it"
    )]
    NoCompiler,
    /// The compiler could not be started, or its output could not be read.
    #[error("cannot run the compiler: {0}")]
    Run(#[from] io::Error),
}

/// One value in a response that violates the contract.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} {problem}")]
pub struct Violation {
    /// Its path, like `recommendations[3].saving.low`.
    pub at: String,
    /// What is wrong with it.
    pub problem: String,
}

impl PolicyError {
    /// Its `error.type` in metrics, events and reports: one of a closed set.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Load(load) => load.kind(),
            Self::Settings(_) => "settings",
            Self::Guest(_) => "guest",
            Self::OutOfFuel { .. } => "out_of_fuel",
            Self::Deadline { .. } => "deadline",
            Self::Memory(_) | Self::Parts(_) => "memory",
            Self::Output(_) => "output",
            Self::Trap(_) => "trap",
            Self::Invalid(_) => "invalid",
        }
    }
}

impl LoadError {
    /// What WebAssembly reports of a component that is not a policy.
    #[expect(clippy::needless_pass_by_value, reason = "an argument of `map_err`")]
    pub(crate) fn not_a_policy(error: wasmtime::Error) -> Self {
        Self::NotAPolicy(sanitize(&format!("{error:#}"), MAX_GUEST_TEXT))
    }

    /// Its `error.type` in metrics, events and reports.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::Unreadable(_) | Self::TooMany { .. } => "load.unreadable",
            Self::NotAPolicy(_) => "load.not_a_policy",
            Self::Digest { .. } | Self::NotLocked | Self::Lock { .. } | Self::SettingsMissing => {
                "load.digest"
            }
            Self::Signature(_) => "load.signature",
            Self::Settings { error, .. } => error.kind(),
            Self::Older { .. } => "load.older_version",
            Self::Pending => "load.pending",
            Self::ForbiddenImport(_) => "load.forbidden_import",
            Self::UnsupportedVersion { .. } => "load.unsupported_version",
            Self::CompileLimit(_) => "load.compile_limit",
        }
    }
}

pub(crate) fn join(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// Bytes of a guest's text that an error carries at most.
pub(crate) const MAX_GUEST_TEXT: usize = 500;
