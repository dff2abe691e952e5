//! The contract with guests: its supported versions, and the imports it allows.
//!
//! Each version has one module, the only one that depends on its generated types; everything else
//! uses the plain types of this crate. A published version never changes: the next one is a module
//! beside it, and is probed first.

mod v0_1;
mod validate;

pub(crate) use v0_1::{Contract, link};

use phasemeter_terminal::escape::sanitize;
use wasmtime::Store;
use wasmtime::component::Instance;

use crate::error::{ForbiddenImports, LoadError, PolicyError};
use crate::guest_state::GuestState;
use crate::wasm_info::WasmInfo;

/// An instance to call, and how to classify its errors.
pub(crate) struct Call<'a> {
    pub(crate) store: &'a mut Store<GuestState>,
    pub(crate) instance: Instance,
    /// Classifies an error of a call.
    pub(crate) classify: &'a dyn Fn(wasmtime::Error) -> PolicyError,
}

/// The supported versions, as errors name them.
pub(crate) const KNOWN: &str = "0.1";

/// Prefix of every interface of the contract.
const PACKAGE: &str = "phasemeter:policy/";

/// Interfaces that a policy may import: `log`, and `types`, which has no functions.
const ALLOWED: [&str; 2] = ["log", "types"];

/// Whether disallowed imports are replaced with stubs that trap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stubs {
    Enabled,
    Disabled,
}

impl Stubs {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Enabled => "stubs",
            Self::Disabled => "no-stubs",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Enabled, Self::Disabled].into_iter().find(|stubs| stubs.name() == name)
    }
}

/// Admits a binary of a supported version that imports only what the contract allows.
///
/// # Errors
/// Returns an error if the version is unsupported, or if an import is not allowed and `stubs` does
/// not replace it.
pub(crate) fn admit(binary: &WasmInfo, stubs: Stubs) -> Result<(), LoadError> {
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
    let is_foreign =
        |name: &&String| split(name).is_none_or(|(interface, _)| !ALLOWED.contains(&interface));
    let foreign = binary.imports.iter().filter(is_foreign).map(|name| sanitize(name, 128));
    let foreign = ForbiddenImports::new(foreign, 0);
    if foreign.first.is_empty() || (stubs == Stubs::Enabled && binary.is_component) {
        Ok(())
    } else {
        Err(LoadError::ForbiddenImport(foreign))
    }
}

/// Splits `phasemeter:policy/log@0.1.0` into `log` and `0.1.0`.
fn split(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix(PACKAGE)?.split_once('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binary(imports: &[&str], exports: &[&str]) -> WasmInfo {
        let to_owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        WasmInfo { is_component: true, imports: to_owned(imports), exports: to_owned(exports) }
    }

    #[test]
    fn admit_allows_only_log_and_types() {
        let allowed =
            binary(&["phasemeter:policy/log@0.1.0", "phasemeter:policy/types@0.1.0"], &[]);
        assert!(admit(&allowed, Stubs::Disabled).is_ok());
        let imports = ["wasi:clocks/wall-clock@0.2.0", "phasemeter:policy/network@0.1.0", "log"];
        let rejected = admit(&binary(&imports, &[]), Stubs::Disabled).unwrap_err();
        assert!(matches!(&rejected, LoadError::ForbiddenImport(names) if names.first == imports));
        assert!(admit(&binary(&imports, &[]), Stubs::Enabled).is_ok());
    }

    #[test]
    fn admit_rejects_unsupported_versions() {
        for (name, newer) in
            [("phasemeter:policy/policy@0.2.0", true), ("phasemeter:policy/policy@0.0.9", false)]
        {
            match admit(&binary(&[], &[name]), Stubs::Enabled).unwrap_err() {
                LoadError::UnsupportedVersion { found, newer: is_newer, .. } => {
                    assert!(name.ends_with(&found));
                    assert_eq!(is_newer, newer);
                }
                other => panic!("{other}"),
            }
        }
        let patch = binary(&[], &["phasemeter:policy/policy@0.1.7"]);
        assert!(admit(&patch, Stubs::Disabled).is_ok());
    }
}
