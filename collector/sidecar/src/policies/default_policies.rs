//! The policies that are part of this program, so that it advises with none configured.
//!
//! `wasm-rules/` says what each of them knows, and makes the components in its `dist/`.

use phasemeter_rules::host::Candidate;

/// A component of `wasm-rules/dist/`, with its name.
macro_rules! default_policies {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../../wasm-rules/dist/", $name, ".wasm")).as_slice())),*]
    };
}

/// All of them, in the order they are asked.
const SHIPPED: &[(&str, &[u8])] = &default_policies![
    "sharing",
    "data-loading",
    "sizing",
    "precision",
    "memory",
    "rate",
    "negotiated"
];

/// Each of them.
pub(super) fn candidates() -> impl Iterator<Item = Candidate> {
    SHIPPED.iter().map(|(name, bytes)| Candidate {
        embedded: true,
        ..Candidate::new(format!("{name} (default)"), *bytes)
    })
}
