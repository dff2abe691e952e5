//! Where an author's policies are loaded: on a host like that of a sidecar, and what is read for it.
//!
//! This room must not know what is asked.

use std::fs;
use std::path::Path;

use phasemeter_rules::compile::Compiler;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::Rejection;
use phasemeter_rules::host::{Candidate, Host, HostError, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::policy_dir;

use super::PolicyFailure;
use super::answer::Answer;
use super::shown::Shown;
use crate::cli::{GuestArgs, HostArgs};
use crate::command::{Failure, advice};

/// A host, ready to load.
pub(super) struct Desk {
    host: Host,
    limits: Limits,
}

impl Desk {
    pub(super) fn open(args: &HostArgs) -> Result<Self, Failure> {
        let (limits, compiler) = advice::limits(&args.limits)?;
        let options = Options {
            limits,
            stub_imports: args.stub_imports,
            interpreter: args.interpreter,
            compiler: Compiler::Subprocess(compiler),
            cache: advice::usual_cache(),
            ..Options::default()
        };
        // What was compiled is kept for the next command, where there is a place for it.
        let host = match Host::new(options.clone()) {
            Err(HostError::Cache { .. }) => Host::new(Options { cache: None, ..options }),
            host => host,
        };
        Ok(Self { host: host.map_err(PolicyFailure::from)?, limits })
    }

    /// The policy of a file, with the settings that are given, else those beside it.
    pub(super) fn load(&self, file: &Path, given: Option<&Path>) -> Result<Policy, PolicyFailure> {
        let refused = |fault| PolicyFailure::Refused { file: file.display().to_string(), fault };
        let mut candidate = candidate(file)?;
        if let Some(path) = given {
            candidate.settings = policy_dir::settings(path, &read(path)?).map_err(refused)?;
        }
        self.host.load(candidate).map_err(refused)
    }

    /// The policy that a command is about.
    pub(super) fn guest(args: &GuestArgs) -> Result<Policy, Failure> {
        Ok(Self::open(&args.host)?.load(&args.file, args.settings.as_deref())?)
    }

    /// What each run may use up.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Machine code of a policy, for hosts like this one.
    pub(super) fn compile(&self, file: &Path) -> Result<Vec<u8>, PolicyFailure> {
        let candidate = candidate(file)?;
        let refused = |fault| PolicyFailure::Refused { file: candidate.file, fault };
        self.host.compile(&candidate.bytes).map_err(|fault| refused(PolicyError::Load(fault)))
    }
}

/// A policy, with what stands beside it.
pub(super) fn candidate(file: &Path) -> Result<Candidate, PolicyFailure> {
    policy_dir::candidate(file)
        .map_err(|Rejection { file, error }| PolicyFailure::Refused { file, fault: error })
}

/// What a policy answers, and what that took. What it logs goes to standard error.
pub(super) fn ask(policy: &Policy, shown: &Shown) -> Result<(Answer, Usage), PolicyFailure> {
    let run = Answer::of(policy, &shown.question).ok_or_else(|| PolicyFailure::OtherKind {
        file: policy.file().to_owned(),
        kind: policy.kind(),
        shown: shown.from.clone(),
    })?;
    let name = &policy.manifest().name;
    for (level, line) in &run.log.lines {
        eprintln!("{name}: {}: {line}", level.name());
    }
    if run.log.dropped > 0 {
        eprintln!("{name}: {} more lines", run.log.dropped);
    }
    let silent = |fault| PolicyFailure::Silent {
        file: policy.file().to_owned(),
        shown: shown.from.clone(),
        fault,
    };
    Ok((run.result.map_err(silent)?, run.usage))
}

/// All of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, PolicyFailure> {
    fs::read(path).map_err(|source| PolicyFailure::Unreadable { path: path.to_owned(), source })
}

/// Writes a file.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    fs::write(path, bytes).map_err(|source| Failure::Write { path: path.to_owned(), source })
}
