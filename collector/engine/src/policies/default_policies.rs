//! The default policies, which are embedded in the program.
//!
//! Their sources are in `wasm-rules/`, their components in its `dist/`.

use phasemeter_rules::digest::Digest;
use phasemeter_rules::host::Candidate;

/// The digests of the components, as `sha256sum` writes them. With these, no component is read that
/// need not be compiled: all of them together would be a megabyte of resident memory.
const DIGESTS: &str = include_str!("../../../../wasm-rules/dist/SHA256SUMS");

/// Components of `wasm-rules/dist/` with their names.
macro_rules! embed {
    ($($name:literal),*) => {
        [$(($name, include_bytes!(concat!("../../../../wasm-rules/dist/", $name, ".wasm")).as_slice())),*]
    };
}

/// The default policies in evaluation order.
const DEFAULT_POLICIES: &[(&str, &[u8])] = &phasemeter_rules::default_policies!(embed);

/// The candidates of the default policies.
pub(super) fn candidates() -> impl Iterator<Item = Candidate> {
    DEFAULT_POLICIES.iter().map(|(name, bytes)| Candidate {
        embedded: Some(digest(name).unwrap_or_else(|| Digest::of(bytes))),
        ..Candidate::new(format!("{name} (default)"), *bytes)
    })
}

/// The digest of a default policy in [`DIGESTS`].
fn digest(name: &str) -> Option<Digest> {
    let mut lines = DIGESTS.lines().filter_map(|line| line.split_once("  "));
    let (digest, _) = lines.find(|(_, file)| file.strip_suffix(".wasm") == Some(name))?;
    digest.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_digests_are_those_of_the_components() {
        for (name, bytes) in DEFAULT_POLICIES {
            assert_eq!(digest(name), Some(Digest::of(bytes)), "{name}: run `make policies`");
        }
        assert_eq!(digest("other"), None);
    }
}
