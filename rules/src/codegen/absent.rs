//! Takes the place of `codegen.rs` in a build without the feature `compiler`: runs what was compiled
//! for the interpreter elsewhere.

use std::hash::Hasher;

use wasmtime::{Config, Engine};

use crate::error::{CompileError, LoadError};

/// Whether this build can compile policies and run native code.
pub(crate) const AVAILABLE: bool = false;

/// Artifacts that are part of this program: the default policies, which `make policies` compiles.
pub(crate) const EMBEDDED: &[&[u8]] = &[
    include_bytes!("../../../wasm-rules/dist/interpreted/data-loading.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/memory.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/negotiated.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/precision.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/rate.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/sharing.aot"),
    include_bytes!("../../../wasm-rules/dist/interpreted/sizing.aot"),
];

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
