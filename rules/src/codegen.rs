//! Compiles policies: to native code, or to bytecode for the interpreter.
//!
//! `codegen/absent.rs` takes its place in a build without the feature `compiler`.

use std::borrow::Cow;
use std::hash::{Hash as _, Hasher};
use std::io;
use std::panic::catch_unwind;

use phasemeter_terminal::escape::sanitize;
use wasmparser::Payload;
use wasmtime::{Config, Engine};

use crate::error::{CompileError, LoadError, MAX_GUEST_TEXT};

/// Whether this build can compile policies and run native code.
pub(crate) const AVAILABLE: bool = true;

/// Configures the compiler. The result of an operation must not depend on the processor.
pub(crate) fn configure(config: &mut Config) {
    config.cranelift_nan_canonicalization(true);
}

/// Hashes all that decides which native code an engine can run.
pub(crate) fn hash_compatibility(engine: &Engine, hasher: &mut impl Hasher) {
    engine.precompile_compatibility_hash().hash(hasher);
}

/// Compiles a policy with `engine`. May run out of memory or time, or into a bug of the compiler.
pub(crate) fn compile(
    policy: &[u8],
    engine: impl FnOnce() -> wasmtime::Result<Engine>,
) -> Result<Vec<u8>, LoadError> {
    let component = componentize(policy)?;
    engine().and_then(|engine| engine.precompile_component(&component)).map_err(|error| {
        if error.is::<wasmtime::OutOfMemory>() || error.is::<io::Error>() {
            CompileError::Run(io::ErrorKind::OutOfMemory.into()).into()
        } else {
            LoadError::Unreadable(sanitize(&format!("{error:#}"), MAX_GUEST_TEXT))
        }
    })
}

/// Returns a component unchanged, and wraps a core module into one by its component metadata.
///
/// # Errors
/// Returns [`LoadError::NotAPolicy`] if a core module has no valid component metadata.
fn componentize(bytes: &[u8]) -> Result<Cow<'_, [u8]>, LoadError> {
    if wasmparser::Parser::is_component(bytes) {
        return Ok(bytes.into());
    }
    let not_a_policy = |problem: &str| {
        let message = format!("cannot make a component of the module: {problem}");
        LoadError::NotAPolicy(sanitize(&message, MAX_GUEST_TEXT))
    };
    validate_metadata(bytes).map_err(|problem| not_a_policy(&problem))?;
    let encoder = wit_component::ComponentEncoder::default().validate(true).module(bytes);
    encoder
        .and_then(|mut encoder| encoder.encode())
        .map(Cow::from)
        .map_err(|error| not_a_policy(&format!("{error:#}")))
}

/// Rejects component metadata whose packages depend on each other in a cycle: `wit-component` would
/// recurse until the stack overflows. `wit-parser` panics on some corrupt metadata; in a program that a
/// panic aborts, that ends the child that compiles.
fn validate_metadata(module: &[u8]) -> Result<(), String> {
    for payload in wasmparser::Parser::new(0).parse_all(module) {
        let Ok(Payload::CustomSection(section)) = payload else { continue };
        if !section.name().starts_with("component-type") {
            continue;
        }
        let decoded = catch_unwind(|| wit_parser::decoding::decode_world(section.data()));
        let (resolve, _) = decoded
            .map_err(|_| "it is corrupt".to_owned())?
            .map_err(|error| format!("{error:#}"))?;
        let mut unordered: Vec<_> = resolve.packages.iter().map(|(id, _)| id).collect();
        while !unordered.is_empty() {
            let waiting = |id| resolve.package_direct_deps(id).any(|dep| unordered.contains(&dep));
            let remaining: Vec<_> = unordered.iter().copied().filter(|id| waiting(*id)).collect();
            if remaining.len() == unordered.len() {
                return Err("its packages depend on each other in a cycle".to_owned());
            }
            unordered = remaining;
        }
    }
    Ok(())
}
