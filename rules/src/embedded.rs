//! The default policies, which are part of this program: components, and what they compile to for the interpreter, so
//! that they run without a compiler.
//!
//! `make policies` builds them, and a test compares both.

/// An artifact, aligned as the ELF file in it requires.
#[repr(C, align(16))]
struct Aligned<Bytes: ?Sized>(Bytes);

macro_rules! embed {
    ($file:literal) => {{
        static ARTIFACT: &Aligned<[u8]> = &Aligned(*include_bytes!($file));
        &ARTIFACT.0
    }};
}

/// A default policy.
pub struct DefaultPolicy {
    /// Its name.
    pub name: &'static str,
    /// The digest of its component, as `sha256sum` writes it. With it, no component is read that need not be
    /// compiled: all of them together would be a megabyte of resident memory.
    pub(crate) digest: &'static str,
    pub(crate) component: &'static [u8],
    pub(crate) artifact: &'static [u8],
}

/// The default policies, in evaluation order.
pub static DEFAULT_POLICIES: &[DefaultPolicy] =
    &include!(concat!(env!("OUT_DIR"), "/default_policies.rs"));
