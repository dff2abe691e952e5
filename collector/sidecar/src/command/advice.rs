//! The policies of a command, as its command line and the environment decide.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use phasemeter_rules::compile::CompilerProcess;
use phasemeter_rules::generation::{Generation, Rejection};
use phasemeter_rules::host::HostError;
use phasemeter_rules::limits::Limits;
use tracing::{info, warn};

use super::Failure;
use crate::advice::{Cache, Choice, OpenError, Policies};
use crate::cli::{AdviceArgs, COMPILE, Limit};

/// The policies in use; `None` where there are none, and then nothing of them is paid for.
pub(super) fn policies(args: &AdviceArgs) -> Result<Option<Arc<Policies>>, Failure> {
    let (limits, compiler) = limits(&args.limits)?;
    let choice = Choice {
        shipped: !args.no_default_policies,
        files: args.files.clone(),
        folder: args.folder.clone(),
        settings: args.settings.clone(),
        keys: args.keys.clone(),
        limits,
        compiler,
        stub_imports: args.policy_stub_imports,
        cache: args.cache.clone().map_or_else(|| Cache::Usual(usual_cache()), Cache::Given),
    };
    match Policies::open(&choice) {
        // The bill stands without advice.
        Err(OpenError::Host(HostError::Runtime(error))) => {
            warn!("no policy is asked: {error}");
            Ok(None)
        }
        opened => Ok(opened?),
    }
}

/// What a run may use up, and what compiling may.
pub(super) fn limits(given: &[(Limit, u64)]) -> Result<(Limits, CompilerProcess), Failure> {
    let refused = |source| Failure::System { what: "this program cannot be found", source };
    let mut limits = Limits::default();
    let mut compiler = CompilerProcess::of_this_program(COMPILE).map_err(refused)?;
    for (limit, value) in given {
        set(&mut limits, &mut compiler, *limit, *value);
    }
    Ok((limits, compiler))
}

fn set(limits: &mut Limits, compiler: &mut CompilerProcess, limit: Limit, value: u64) {
    let count = || usize::try_from(value).unwrap_or(usize::MAX);
    match limit {
        Limit::Fuel => limits.fuel = value,
        Limit::DeadlineMs => limits.deadline = Duration::from_millis(value),
        Limit::MemoryMib => limits.memory = count() << 20,
        Limit::TableElements => limits.table_elements = count(),
        Limit::Instances => limits.instances = count(),
        Limit::Memories => limits.memories = count(),
        Limit::Tables => limits.tables = count(),
        Limit::OutputKib => limits.output = count() << 10,
        Limit::CompileMemoryMib => compiler.memory = value << 20,
        Limit::CompileSeconds => compiler.time = Duration::from_secs(value),
    }
}

/// Where programs keep what they can make again, by the XDG base directories; a path that is not
/// absolute counts for nothing.
pub(super) fn usual_cache() -> Option<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let caches = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")))?;
    Some(caches.join("phasemeter").join("policies"))
}

/// Says what a reload changed.
pub(super) fn told(generation: &Generation) {
    info!(generation = generation.number, "policies: generation {} is in use", generation.number);
    for Rejection { file, error } in &generation.rejected {
        warn!(file, fault = error.kind(), "policies: {file} is not taken into use: {error}");
    }
}
