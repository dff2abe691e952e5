//! Why the configured policies cannot be opened.

use std::io;
use std::path::PathBuf;

use phasemeter_rules::RuntimeError;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::signature::ParsePublicKeyError;

/// Why policies cannot be used as configured.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A file or directory cannot be read.
    #[error("{}: cannot be read; check that it exists and is readable", path.display())]
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The operating system's error.
        #[source]
        source: io::Error,
    },
    /// A settings file is not a JSON object.
    #[error("{0}")]
    Settings(PolicyError),
    /// A policy that the user named rejects its settings.
    #[error("{file}: {error}")]
    InvalidSettings {
        /// The policy's file.
        file: String,
        /// The problems.
        error: PolicyError,
    },
    /// Settings are for an unknown policy.
    #[error("--policy-settings {name}: no policy has this name; {known}")]
    NoSuchPolicy {
        /// The name.
        name: String,
        /// The known names, for people.
        known: String,
    },
    /// A public key is invalid.
    #[error("{}: {source}", path.display())]
    Key {
        /// The key file.
        path: PathBuf,
        /// The error.
        source: ParsePublicKeyError,
    },
    /// The thread that loads policies cannot be started.
    #[error("cannot start the thread that loads policies")]
    Thread(#[source] io::Error),
    /// The policy host cannot be started.
    #[error(transparent)]
    Host(#[from] RuntimeError),
}
