//! The files of a new policy project: one template per language, with all sources that it needs from
//! this repository, so that it builds anywhere.
//!
//! The templates in `wasm-rules/templates` are a policy named `my-policy`. Must not depend on where
//! they are written.

use std::borrow::Cow;

use crate::cli::Language;

/// The placeholder of the policy name, and its form in identifiers.
const NAME: &str = "my-policy";
const IDENTIFIER: &str = "my_policy";

/// Files of a directory of this repository, with their contents, and their destination.
struct Group {
    to: &'static str,
    files: &'static [(&'static str, &'static [u8])],
}

macro_rules! group {
    ($from:literal => $to:literal: $($file:literal),+ $(,)?) => {
        Group {
            to: $to,
            files: &[$(($file, include_bytes!(concat!("../../../../../", $from, $file)))),+],
        }
    };
}

const RUST: Group = group!("wasm-rules/templates/rust/" => "":
    ".gitignore", "Cargo.toml", "README.md", "policy.json", "src/lib.rs");

const C: Group = group!("wasm-rules/templates/c/" => "":
    ".gitignore", "Makefile", "README.md", "bindings/recommender_policy.c",
    "bindings/recommender_policy.h", "bindings/recommender_policy_component_type.o", "policy.c",
    "policy.json", "requirements.txt");

const JS: Group = group!("wasm-rules/templates/js/" => "":
    ".gitignore", "README.md", "package-lock.json", "package.json", "policy.json", "src/policy.js");

const PYTHON: Group = group!("wasm-rules/templates/python/" => "":
    ".gitignore", "Makefile", "README.md", "policy.json", "policy.py", "requirements.txt");

/// Tests of all languages: all templates have the same output.
const TESTS: Group = group!("wasm-rules/templates/tests/" => "tests/":
    "fleet.recommendations.json", "fleet.window.json", "nothing.recommendations.json", "nothing.window.json",
    "strict.recommendations.json", "strict.settings.json", "strict.window.json");

const CONTRACT: Group = group!("rules/wit/v0.1/" => "wit/":
    "pricer.wit", "recommender.wit", "types.wit", "worlds.wit");

const SDK: Group = group!("wasm-rules/sdk/rust/" => "sdk/":
    "Cargo.toml", "pricer/Cargo.toml", "pricer/src/lib.rs", "src/bindings.rs", "src/column.rs",
    "src/export.rs", "src/format.rs", "src/gpu.rs", "src/heap.rs", "src/lib.rs", "src/log.rs",
    "src/memory.rs", "src/offer.rs", "src/recommendation.rs", "src/saving.rs", "src/settings.rs",
    "src/testing.rs", "wit/v0.1/pricer.wit", "wit/v0.1/recommender.wit", "wit/v0.1/types.wit",
    "wit/v0.1/worlds.wit");

/// The files of a policy of this name: relative path and contents.
pub(super) fn files(
    language: Language,
    name: &str,
) -> impl Iterator<Item = (String, Cow<'static, [u8]>)> {
    let (own, common) = match language {
        Language::Rust => (&RUST, &SDK),
        Language::C => (&C, &CONTRACT),
        Language::Js => (&JS, &CONTRACT),
        Language::Python => (&PYTHON, &CONTRACT),
    };
    let own = own.files.iter().map(move |(path, bytes)| (own.to, *path, named(bytes, name)));
    let common = [common, &TESTS].into_iter().flat_map(|group| {
        group.files.iter().map(|(path, bytes)| (group.to, *path, Cow::Borrowed(*bytes)))
    });
    own.chain(common).map(|(to, path, bytes)| (format!("{to}{path}"), bytes))
}

/// Replaces the placeholder in a text file; other files are unchanged.
fn named(bytes: &'static [u8], name: &str) -> Cow<'static, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.replace(NAME, name).replace(IDENTIFIER, &name.replace('-', "_"));
            Cow::Owned(text.into_bytes())
        }
        Err(_) => Cow::Borrowed(bytes),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    fn found(dir: &Path, path: &str, files: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir.join(path)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{path}{}", entry.file_name().to_str().unwrap());
            // Follows symlinks.
            if fs::metadata(entry.path()).unwrap().is_dir() {
                found(dir, &format!("{path}/"), files);
            } else {
                files.insert(path);
            }
        }
    }

    /// Guarantee: every file of a template and of the SDK is included.
    #[test]
    fn all_files_are_included() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (dir, group) in [
            ("wasm-rules/templates/rust", &RUST),
            ("wasm-rules/templates/c", &C),
            ("wasm-rules/templates/js", &JS),
            ("wasm-rules/templates/python", &PYTHON),
            ("wasm-rules/templates/tests", &TESTS),
            ("wasm-rules/sdk/rust", &SDK),
            ("rules/wit/v0.1", &CONTRACT),
        ] {
            let mut files = BTreeSet::new();
            found(&root.join(dir), "", &mut files);
            let included: BTreeSet<_> =
                group.files.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(included, files, "{dir}");
        }
    }

    #[test]
    fn placeholder_is_replaced_everywhere() {
        for language in [Language::Rust, Language::C, Language::Js, Language::Python] {
            let files: Vec<_> = files(language, "idle-2").collect();
            let all: Vec<_> =
                files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
            assert!(all.iter().all(|text| !text.contains(NAME) && !text.contains(IDENTIFIER)));
            assert!(all.iter().any(|text| text.contains("idle-2")), "{language:?}");
        }
    }
}
