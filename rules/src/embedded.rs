//! The default policies, compiled for the interpreter: part of this program, so that they run without
//! a compiler.
//!
//! `make policies` compiles them, and a test compares them with the policies. Must not depend on how
//! they are loaded.

/// One artifact per default policy.
pub(crate) const ARTIFACTS: &[&[u8]] = &[
    include_bytes!("../../wasm-rules/dist/interpreted/communication.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/data-loading.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/gaps.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/health.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/lifecycle.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/measure.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/memory.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/negotiated.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/precision.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/rate.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/sharing.aot"),
    include_bytes!("../../wasm-rules/dist/interpreted/sizing.aot"),
];
