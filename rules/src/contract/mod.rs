//! The contract with guests: which versions there are, and what of the host they may ask for.
//!
//! One file a version knows its generated types; from there on only the plain types of this crate
//! travel. A version that was published never changes; the next one stands beside it, and is
//! looked for first. This room must not know what limits a guest has.

mod check;
mod v0_1;

pub(crate) use v0_1::{Contract, link};

use wasmtime::Store;
use wasmtime::component::Instance;

use crate::error::{LoadError, PolicyError, sanitize};
use crate::guest_state::GuestState;
use crate::wasm_info::WasmInfo;

/// A guest that can be asked.
pub(crate) struct Call<'a> {
    pub(crate) store: &'a mut Store<GuestState>,
    pub(crate) instance: Instance,
    /// Tells what an error of a call is.
    pub(crate) fault: &'a dyn Fn(wasmtime::Error) -> PolicyError,
}

/// The versions that this host speaks, as faults name them.
const KNOWN: &str = "0.1";

/// The namespace of everything in the contract.
const PACKAGE: &str = "phasemeter:policy/";

/// What a policy may import: a function to log with, and types, which are no ability.
const ALLOWED: [&str; 2] = ["log", "types"];

/// Whether a binary speaks a version that is known here, and asks for nothing that no policy gets.
///
/// # Errors
/// `UnsupportedVersion`, or `ForbiddenImport` unless `stubs` stand in for what is foreign.
pub(crate) fn admit(binary: &WasmInfo, stubs: bool) -> Result<(), LoadError> {
    let names = binary.exports.iter().chain(&binary.imports);
    for version in names.filter_map(|name| Some(split(name)?.1)) {
        let parts = version.split('.').collect::<Vec<_>>();
        if parts.get(..2) != Some(["0", "1"].as_slice()) {
            return Err(LoadError::UnsupportedVersion {
                found: sanitize(version, 32),
                known: KNOWN,
                newer: !version.starts_with("0.0."),
            });
        }
    }
    let foreign: Vec<_> = binary
        .imports
        .iter()
        .filter(|name| split(name).is_none_or(|(interface, _)| !ALLOWED.contains(&interface)))
        .map(|name| sanitize(name, 128))
        .collect();
    if foreign.is_empty() || (stubs && binary.is_component) {
        Ok(())
    } else {
        Err(LoadError::ForbiddenImport(foreign))
    }
}

/// `phasemeter:policy/log@0.1.0` is `log` and `0.1.0`.
fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACKAGE)?.split_once('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(imports: &[&str], exports: &[&str]) -> WasmInfo {
        let own = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        WasmInfo { is_component: true, imports: own(imports), exports: own(exports) }
    }

    #[test]
    fn a_policy_may_log_and_nothing_else() {
        let fine = binary(&["phasemeter:policy/log@0.1.0", "phasemeter:policy/types@0.1.0"], &[]);
        assert!(admit(&fine, false).is_ok());
        let wants = ["wasi:clocks/wall-clock@0.2.0", "phasemeter:policy/network@0.1.0", "log"];
        let refused = admit(&binary(&wants, &[]), false).unwrap_err();
        assert!(matches!(&refused, LoadError::ForbiddenImport(names) if names == &wants));
        assert!(admit(&binary(&wants, &[]), true).is_ok());
    }

    #[test]
    fn another_version_is_named() {
        for (name, newer) in
            [("phasemeter:policy/policy@0.2.0", true), ("phasemeter:policy/policy@0.0.9", false)]
        {
            match admit(&binary(&[], &[name]), true).unwrap_err() {
                LoadError::UnsupportedVersion { found, newer: said, .. } => {
                    assert!(name.ends_with(&found));
                    assert_eq!(said, newer);
                }
                other => panic!("{other}"),
            }
        }
        assert!(admit(&binary(&[], &["phasemeter:policy/policy@0.1.7"]), false).is_ok());
    }
}
