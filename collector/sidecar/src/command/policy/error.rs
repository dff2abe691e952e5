//! Errors of `phasemeter policy`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use phasemeter_rules::RuntimeError;
use phasemeter_rules::error::{LoadError, PolicyError};
use phasemeter_rules::fixture::FixtureError;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::signature::SignatureError;

use crate::command::exit_status::{EX_CANTCREAT, EX_DATAERR, EX_NOINPUT, EX_OSERR, EX_USAGE};

/// An example of `policy.json`.
const EXAMPLE: &str = r#"{"build": "make", "wasm": "build/NAME.wasm"}"#;

/// An error of a `policy` subcommand.
#[derive(Debug, thiserror::Error)]
pub enum PolicyCommandError {
    /// A file cannot be read.
    #[error("{}: cannot be read; check that it exists and is readable", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The directory of a new policy exists.
    #[error("{}: already exists; choose another name or remove it", .0.display())]
    Exists(PathBuf),
    /// The template does not exist.
    #[error("no such template in this language; use --lang rust")]
    NoTemplate,
    /// A project has not been built.
    #[error("{}: not built; run 'phasemeter policy build {}'", path.display(), dir.display())]
    NotBuilt {
        /// Its directory.
        dir: PathBuf,
        /// Its component.
        path: PathBuf,
    },
    /// Policies cannot run on this machine.
    #[error(transparent)]
    Host(#[from] RuntimeError),
    /// The policy was rejected.
    #[error("{file}: {}: {error}", error.kind())]
    Rejected {
        /// The policy.
        file: String,
        /// The cause.
        error: PolicyError,
    },
    /// An evaluation failed.
    #[error("{file}: {}: input {input}: {error}", error.kind())]
    Evaluation {
        /// The policy.
        file: String,
        /// The source of the input.
        input: String,
        /// The cause.
        error: PolicyError,
    },
    /// The input is for policies of the other kind.
    #[error("{file}: a {} does not accept {input}; provide {}", kind.name(), expected_input(*kind))]
    OtherKind {
        /// The policy.
        file: String,
        /// Its kind.
        kind: Kind,
        /// The source of the input.
        input: String,
    },
    /// A test file is invalid.
    #[error(transparent)]
    Fixture(#[from] FixtureError),
    /// The configuration of a project is invalid.
    #[error("{}: {source}; expected a file like {EXAMPLE}", path.display())]
    Project {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
    /// A build command failed.
    #[error("{command}: failed with {status}")]
    Build {
        /// The command.
        command: String,
        /// Its exit status.
        status: ExitStatus,
    },
    /// A log has no readings.
    #[error("{0}: no readings")]
    NoReadings(String),
    /// A project has no tests.
    #[error(
        "{}: no tests; add NAME.window.json from 'phasemeter audit --dump-windows', or \
         NAME.request.json for a pricer",
        .0.display()
    )]
    NoTests(PathBuf),
    /// A key is invalid.
    #[error("{}: {problem}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A policy was expected, but the file is machine code.
    #[error(
        "{}: machine code, not a policy; it runs outside the sandbox: to sign it, add --machine-code",
        .0.display()
    )]
    MachineCode(PathBuf),
    /// Machine code was expected.
    #[error("{}: not machine code; expected the output of 'phasemeter policy compile'", .0.display())]
    NotMachineCode(PathBuf),
    /// No key matches the signature.
    #[error("{}: {source}", path.display())]
    Unsigned {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: SignatureError,
    },
}

/// The input of policies of a kind, and how to provide it.
const fn expected_input(kind: Kind) -> &'static str {
    match kind {
        Kind::Recommender => "a window: NAME.window.json, --window or --log",
        Kind::Pricer => "a quote request: NAME.request.json or --request",
    }
}

impl PolicyCommandError {
    /// That a policy was rejected.
    pub(super) fn rejected<E: Into<PolicyError>>(file: &Path) -> impl Fn(E) -> Self {
        move |error| Self::Rejected { file: file.display().to_string(), error: error.into() }
    }

    /// The exit status.
    pub(in crate::command) const fn exit_code(&self) -> u8 {
        match self {
            Self::Read { .. }
            | Self::NotBuilt { .. }
            | Self::NoTests(_)
            | Self::Rejected { error: PolicyError::Load(LoadError::File { .. }), .. } => EX_NOINPUT,
            Self::Exists(_) => EX_CANTCREAT,
            Self::NoTemplate => EX_USAGE,
            Self::Host(_) => EX_OSERR,
            Self::Rejected { .. }
            | Self::Evaluation { .. }
            | Self::OtherKind { .. }
            | Self::Fixture(_)
            | Self::NoReadings(_)
            | Self::Project { .. }
            | Self::Build { .. }
            | Self::Key { .. }
            | Self::MachineCode(_)
            | Self::NotMachineCode(_)
            | Self::Unsigned { .. } => EX_DATAERR,
        }
    }
}
