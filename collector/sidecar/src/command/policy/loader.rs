//! Loads policies as a sidecar does.

use std::path::Path;

use phasemeter_rules::compile::Compiler;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::policy_dir;

use super::error::PolicyCommandError;
use super::{files, project};
use crate::command::error::CommandError;
use crate::command::policies;
use phasemeter_cli::{GuestArgs, HostArgs};

/// A host that loads policies.
pub(super) struct PolicyLoader {
    host: Host,
    limits: Limits,
}

impl PolicyLoader {
    pub(super) fn new(args: &HostArgs) -> Result<Self, CommandError> {
        let (limits, compiler, _) = policies::limits(&args.limits)?;
        let options = Options {
            limits,
            stub_imports: args.stub_imports,
            interpreter: args.interpreter,
            compiler: Compiler::Subprocess(compiler),
            cache: policies::default_cache_dir(),
            ..Options::default()
        };
        // The cache of compiled policies is optional.
        Ok(Self { host: Host::new(options).map_err(PolicyCommandError::from)?, limits })
    }

    /// Loads a component with the given settings, else with those beside it.
    pub(super) fn load(
        &self,
        file: &Path,
        settings: Option<&Path>,
    ) -> Result<Policy, PolicyCommandError> {
        let rejected = PolicyCommandError::rejected(file);
        let mut candidate = candidate(file)?;
        if let Some(path) = settings {
            candidate.settings =
                policy_dir::settings(path, &files::read(path)?).map_err(&rejected)?;
            candidate.settings_file = None;
        }
        self.host.load(candidate).map_err(rejected)
    }

    /// Loads the policy of a command.
    pub(super) fn load_guest(args: &GuestArgs) -> Result<Policy, CommandError> {
        let file = project::component_of(&args.policy)?;
        Ok(Self::new(&args.host)?.load(&file, args.settings.as_deref())?)
    }

    /// The limits of an evaluation.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Compiles a policy to machine code for this host.
    pub(super) fn compile(&self, file: &Path) -> Result<Vec<u8>, PolicyCommandError> {
        let candidate = candidate(file)?;
        self.host.compile(&candidate.bytes).map_err(PolicyCommandError::rejected(file))
    }
}

/// A policy with the files beside it.
fn candidate(file: &Path) -> Result<Candidate, PolicyCommandError> {
    policy_dir::candidate(file).map_err(|it| PolicyCommandError::rejected(file)(it.error))
}
