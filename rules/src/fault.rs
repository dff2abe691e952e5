//! Everything that can go wrong with a policy: a closed set, told apart by type.
//!
//! A fault costs its policy one verdict, or its loading; never a reading, never the process. Text
//! that a guest wrote is cut and cleaned before it gets here. This room must not know how a
//! fault is shown.

use std::io;
use std::time::Duration;

use wasmtime::Trap;

use crate::digest::Digest;
use crate::limits::TooMuch;
use crate::settings::SettingError;
use crate::signature::SignatureFault;

/// Why a policy gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// It was not taken into use.
    #[error(transparent)]
    Load(#[from] LoadFault),
    /// Its settings are wrong.
    #[error("its settings are wrong: {}", join(.0))]
    Settings(Vec<SettingError>),
    /// It says itself that it cannot answer.
    #[error("it says: {0}")]
    Guest(String),
    /// It used up its fuel.
    #[error("it used up its fuel of {limit}")]
    OutOfFuel {
        /// The fuel it had.
        limit: u64,
    },
    /// It was not done in time.
    #[error("it was not done within {} ms", limit.as_millis())]
    Deadline {
        /// The time it had.
        limit: Duration,
    },
    /// It asked for more memory, larger tables or more parts than it may have.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
    /// What it handed over was too large, out of bounds or no UTF-8.
    #[error("what it handed over cannot be taken: {0:#}")]
    Output(#[source] wasmtime::Error),
    /// It stopped itself, or broke a rule of WebAssembly.
    #[error("it trapped: {0}")]
    Trap(#[source] Trap),
    /// It answered, and the answer cannot be believed.
    #[error("its answer cannot be believed: {}", join(.0))]
    Invalid(Vec<Violation>),
}

/// Why a policy was not taken into use.
#[derive(Debug, thiserror::Error)]
pub enum LoadFault {
    /// The file cannot be read.
    #[error("{file} cannot be read: {source}")]
    File {
        /// Which.
        file: String,
        /// Why.
        source: io::Error,
    },
    /// The bytes are no WebAssembly, or broken.
    #[error("it is no whole WebAssembly file: {0}")]
    Unreadable(String),
    /// It is WebAssembly, but not a policy.
    #[error("it is no policy: {0}")]
    NotAPolicy(String),
    /// It is not the file that was locked.
    #[error("its digest is {found}, and {expected} is the one that was locked")]
    Digest {
        /// What was locked.
        expected: Digest,
        /// What is there.
        found: Digest,
    },
    /// The lock file does not name it.
    #[error("the lock file does not name it: add its line, as sha256sum prints it")]
    NotLocked,
    /// The lock file cannot be understood.
    #[error("{file}:{line}: '{text}' is no line of sha256sum: a digest, two spaces, a file name")]
    Lock {
        /// The lock file.
        file: String,
        /// Which line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Nobody who is trusted signed it.
    #[error(transparent)]
    Signature(#[from] SignatureFault),
    /// It wants from the host what no policy gets.
    #[error("it imports {}, and a policy may import nothing but log", .0.join(", "))]
    ForbiddenImport(Vec<String>),
    /// It was built against a contract that this host does not speak.
    #[error("it speaks version {found} of phasemeter:policy, and this host {known}: {}", advice(*.newer))]
    UnsupportedVersion {
        /// The version of the policy.
        found: String,
        /// The versions of the host.
        known: &'static str,
        /// Whether the policy is the newer of the two.
        newer: bool,
    },
    /// Compiling it takes more than there is.
    #[error(transparent)]
    CompileLimit(#[from] CompileFault),
}

const fn advice(newer: bool) -> &'static str {
    if newer { "update Phasemeter" } else { "build the policy against a newer one" }
}

/// Why a policy could not be compiled here. It is not the policy's fault.
#[derive(Debug, thiserror::Error)]
pub enum CompileFault {
    /// The compiler was ended: by its limits, or by the kernel.
    #[error(
        "compiling it takes more than the {} MiB or {} s there are for it here: compile it \
         elsewhere with 'phasemeter policy compile' and put the result beside it",
        memory >> 20, time.as_secs()
    )]
    Limit {
        /// What it might use, in bytes.
        memory: u64,
        /// Of processor time.
        time: Duration,
    },
    /// The compiler did not start or was not heard.
    #[error("the compiler could not be run: {0}")]
    Run(#[from] io::Error),
}

/// What a guest asked for and did not get.
#[derive(Debug, thiserror::Error)]
pub enum MemoryFault {
    /// More than its limits.
    #[error(transparent)]
    Limit(#[from] TooMuch),
    /// More parts than its limits, or more than the machine had.
    #[error("it cannot be given the parts it is made of: {0:#}")]
    Parts(#[source] wasmtime::Error),
}

/// One thing in an answer that cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at} {problem}")]
pub struct Violation {
    /// Where, like `recommendations[3].saving.low`.
    pub at: String,
    /// What is wrong with it.
    pub problem: String,
}

impl Fault {
    /// Its name in metrics and reports: one of a closed set.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Load(load) => load.kind(),
            Self::Settings(_) => "settings",
            Self::Guest(_) => "guest",
            Self::OutOfFuel { .. } => "out_of_fuel",
            Self::Deadline { .. } => "deadline",
            Self::Memory(_) => "memory",
            Self::Output(_) => "output",
            Self::Trap(_) => "trap",
            Self::Invalid(_) => "invalid",
        }
    }
}

impl LoadFault {
    /// Its name in metrics and reports.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::File { .. } | Self::Unreadable(_) => "load.unreadable",
            Self::NotAPolicy(_) => "load.not_a_policy",
            Self::Digest { .. } | Self::NotLocked | Self::Lock { .. } => "load.digest",
            Self::Signature(_) => "load.signature",
            Self::ForbiddenImport(_) => "load.forbidden_import",
            Self::UnsupportedVersion { .. } => "load.unsupported_version",
            Self::CompileLimit(_) => "load.compile_limit",
        }
    }
}

pub(crate) fn join(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The most bytes of a guest's own words that a fault carries.
pub(crate) const WORDS: usize = 500;

/// A guest's words, fit to be shown: cut to `limit` bytes, and no control characters, which could
/// forge lines of a log or colours of a terminal.
pub(crate) fn plain(text: &str, limit: usize) -> String {
    let cut = text.floor_char_boundary(limit);
    text[..cut].chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
