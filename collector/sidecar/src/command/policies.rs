//! The policies of a command, configured by its command line and the environment.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use phasemeter_engine::policies::{OpenError, PolicyConfig, PolicyManager};
use phasemeter_rules::compile::CompilerProcess;
use phasemeter_rules::limits::Limits;
use phasemeter_rules::policy_dir;
use tracing::warn;

use super::error::CommandError;
use phasemeter_cli::{COMPILE, Limit, PolicyArgs, PolicyLimits};

/// How long a command waits for policies by default.
const START_LIMIT: Duration = Duration::from_secs(1);

/// How often a command evaluates its recommenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evaluations {
    /// At the end.
    Once,
    /// Every few minutes.
    #[cfg(feature = "full")]
    Periodic,
}

/// Opens the policies; `None` if there are none, which then cost nothing.
pub(super) fn open(
    args: &PolicyArgs,
    evaluations: Evaluations,
) -> Result<Option<Arc<PolicyManager>>, CommandError> {
    match PolicyManager::open(&config(args, evaluations)?) {
        // The bill does not depend on recommendations.
        Err(error @ (OpenError::Host(_) | OpenError::Thread(_))) => {
            let error = CommandError::from(error).in_one_line();
            warn!("policies are disabled: {error}");
            Ok(None)
        }
        opened => Ok(opened?),
    }
}

/// The configuration of policies.
pub(super) fn config(
    args: &PolicyArgs,
    evaluations: Evaluations,
) -> Result<PolicyConfig, CommandError> {
    let (limits, compiler, start_limit) = limits(&args.limits)?;
    // The default policies are interpreted in any case. Others may be interpreters themselves, too slow
    // to be interpreted.
    let interpreter = args.files.is_empty() && args.dir.is_none();
    let cache = args.cache.clone().or_else(default_cache_dir);
    Ok(PolicyConfig {
        default_policies: !args.no_default_policies,
        files: args.files.clone(),
        directory: args.dir.clone(),
        settings: args.settings.clone(),
        keys: args.keys.clone(),
        limits,
        compiler,
        interpreter,
        stub_imports: args.policy_stub_imports,
        // If nothing is compiled, there is nothing to cache.
        cache: cache.filter(|_| !interpreter),
        start_limit: (evaluations != Evaluations::Once).then_some(start_limit),
    })
}

/// The files that policies are read from.
pub(super) fn inputs(args: &PolicyArgs) -> impl Iterator<Item = PathBuf> {
    let entries = args.dir.iter().flat_map(fs::read_dir).flatten().flatten();
    let in_dir = entries.map(|entry| entry.path());
    let in_dir = in_dir.filter(|path| path.extension().is_some_and(|it| it == "wasm"));
    let lock = args.dir.iter().map(|dir| dir.join(policy_dir::LOCK));
    let policies = in_dir.chain(args.files.iter().cloned());
    let settings = args.settings.iter().map(|(_, path)| path.clone());
    let policies = policies.flat_map(|path| policy_dir::inputs(&path));
    policies.chain(lock).chain(settings).chain(args.keys.iter().cloned())
}

/// Limits of evaluations, the compiler with its limits, and how long a command waits for policies: it must not
/// wait for a compiler.
pub(super) fn limits(
    given: &[(Limit, u64)],
) -> Result<(Limits, CompilerProcess, Duration), CommandError> {
    let failed = CommandError::system("cannot locate the phasemeter executable");
    let mut compiler = CompilerProcess::current_program(COMPILE).map_err(failed)?;
    let mut limits = PolicyLimits {
        evaluation: Limits::default(),
        compiler: (compiler.memory, compiler.time),
        start: START_LIMIT,
    };
    given.iter().for_each(|(limit, value)| (limit.set)(&mut limits, *value));
    (compiler.memory, compiler.time) = limits.compiler;
    Ok((limits.evaluation, compiler, limits.start))
}

/// The cache directory, by the XDG base directory specification: relative paths are ignored.
pub(super) fn default_cache_dir() -> Option<PathBuf> {
    let dir = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = dir("XDG_CACHE_HOME").or_else(|| Some(dir("HOME")?.join(".cache")))?;
    Some(caches.join("phasemeter").join("policies"))
}
