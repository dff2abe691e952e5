//! The default policies, which are embedded in the program.
//!
//! Their sources are in `wasm-rules/`, their components in its `dist/`.

use phasemeter_rules::host::Candidate;

/// Components of `wasm-rules/dist/` with their names.
macro_rules! embed {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../../wasm-rules/dist/", $name, ".wasm")).as_slice())),*]
    };
}

/// The default policies in evaluation order.
const DEFAULT_POLICIES: &[(&str, &[u8])] = &embed![
    "health",
    "lifecycle",
    "sharing",
    "gaps",
    "data-loading",
    "communication",
    "sizing",
    "memory",
    "precision",
    "rate",
    "measure",
    "negotiated"
];

/// The candidates of the default policies.
pub(super) fn candidates() -> impl Iterator<Item = Candidate> {
    DEFAULT_POLICIES.iter().map(|(name, bytes)| Candidate {
        embedded: true,
        ..Candidate::new(format!("{name} (default)"), *bytes)
    })
}
