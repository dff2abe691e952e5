//! How a command of an author can fail.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use phasemeter_rules::error::{LoadError, PolicyError};
use phasemeter_rules::fixture::FixtureError;
use phasemeter_rules::host::HostError;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::signature::{ParsePublicKeyError, ParseSecretKeyError, SignatureError};

use crate::command::failure::{EX_DATAERR, EX_NOINPUT, EX_OSERR};

/// An output that cannot be made.
const EX_CANTCREAT: u8 = 73;

/// Why an author's command failed.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFailure {
    /// A file is not there, or cannot be read.
    #[error("{}: cannot be read; check that it is there and readable", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The folder of a new policy is there already.
    #[error("{}: is there already; give another name, or remove it", .0.display())]
    Exists(PathBuf),
    /// No policy can be run on this machine.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It would not be taken into use.
    #[error("{file}: {}: {fault}", fault.kind())]
    Refused {
        /// The policy.
        file: String,
        /// Why.
        fault: PolicyError,
    },
    /// It gave no answer.
    #[error("{file}: {}: shown {shown}: {fault}", fault.kind())]
    Silent {
        /// The policy.
        file: String,
        /// Where what it was shown is from.
        shown: String,
        /// Why.
        fault: PolicyError,
    },
    /// What it would be shown is for policies of the other kind.
    #[error("{file}: it is a {}, and is not shown {shown}: give it {}", kind.name(), takes(*kind))]
    OtherKind {
        /// The policy.
        file: String,
        /// What it is.
        kind: Kind,
        /// Where what it would be shown is from.
        shown: String,
    },
    /// What is recorded in a file is none of what it should be.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// A folder does not say how it is built.
    #[error("{}: {source}; it must say {}", path.display(), super::project::LIKE)]
    Project {
        /// The file that should.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// The tools of its language failed, and said why.
    #[error("{command}: ended with {status}")]
    Build {
        /// What was run.
        command: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// In a log is nothing to show.
    #[error("{0}: has no readings to show a policy")]
    Unseen(String),
    /// There is nothing to test against.
    #[error(
        "{}: has no NAME.window.json, which 'phasemeter audit --dump-windows' writes, and no \
         NAME.request.json for a pricer",
        .0.display()
    )]
    NoTests(PathBuf),
    /// What should sign is no key.
    #[error("{}: {source}", path.display())]
    SecretKey {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParseSecretKeyError,
    },
    /// What should tell a signature is no key.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        source: ParsePublicKeyError,
    },
    /// None of the keys signed it.
    #[error("{}: {source}", path.display())]
    Unsigned {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: SignatureError,
    },
}

/// What a policy of a kind is shown, and how that is given.
const fn takes(kind: Kind) -> &'static str {
    match kind {
        Kind::Recommender => "a window: NAME.window.json, --window or --log",
        Kind::Pricer => "a quote request: NAME.request.json or --request",
    }
}

impl PolicyFailure {
    /// The exit status, after sysexits.h.
    pub(in crate::command) const fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable { .. }
            | Self::NoTests(_)
            | Self::Refused { fault: PolicyError::Load(LoadError::File { .. }), .. } => EX_NOINPUT,
            Self::Exists(_) => EX_CANTCREAT,
            Self::Host(_) => EX_OSERR,
            Self::Refused { .. }
            | Self::Silent { .. }
            | Self::OtherKind { .. }
            | Self::Fixture(_)
            | Self::Unseen(_)
            | Self::Project { .. }
            | Self::Build { .. }
            | Self::SecretKey { .. }
            | Self::Key { .. }
            | Self::Unsigned { .. } => EX_DATAERR,
        }
    }
}
