//! Takes the place of `codegen.rs` in a build without the feature `compiler`: runs what was compiled
//! for the interpreter elsewhere.

use std::hash::Hasher;

use wasmtime::{Config, Engine};

use crate::error::{CompileError, LoadError};

/// Whether this build can compile policies and run native code.
pub(crate) const AVAILABLE: bool = false;

/// There is nothing to configure.
pub(crate) const fn configure(_: &mut Config) {}

/// This build runs no native code.
pub(crate) const fn hash_compatibility(_: &Engine, _: &mut impl Hasher) {}

/// Cannot compile.
pub(crate) fn compile(
    _: &[u8],
    _: impl FnOnce() -> wasmtime::Result<Engine>,
) -> Result<Vec<u8>, LoadError> {
    Err(CompileError::NoCompiler.into())
}
