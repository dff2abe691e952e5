//! The default policies, compiled for the interpreter: part of this program, so that they run without
//! a compiler.
//!
//! `make policies` compiles them, and a test compares them with the policies.

/// An artifact, aligned as the ELF file in it requires.
#[repr(C, align(16))]
struct Aligned<Bytes: ?Sized>(Bytes);

macro_rules! embed {
    ($($name:literal),*) => {
        &[$({
            static ARTIFACT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(
                "../../wasm-rules/dist/interpreted/",
                $name,
                ".aot"
            )));
            &ARTIFACT.0
        }),*]
    };
}

/// Calls a macro with the names of the default policies, in evaluation order: the only list of them.
#[macro_export]
macro_rules! default_policies {
    ($callback:ident) => {
        $callback![
            "health",
            "lifecycle",
            "sharing",
            "gaps",
            "data-loading",
            "communication",
            "inference",
            "sizing",
            "memory",
            "precision",
            "rate",
            "measure",
            "negotiated"
        ]
    };
}

/// One artifact per default policy.
pub(crate) static ARTIFACTS: &[&[u8]] = default_policies!(embed);
