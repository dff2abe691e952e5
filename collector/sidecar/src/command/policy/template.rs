//! The files that a new policy begins with: a template a language, with what it needs of this
//! repository as source, so that it builds anywhere.
//!
//! They stand in `wasm-rules/templates`, and are a policy called `my-policy`. This room must not
//! know where they are written to.

use std::borrow::Cow;

use crate::cli::Language;

/// The name that stands for that of the policy, and its form in identifiers.
const NAME: &str = "my-policy";
const IDENTIFIER: &str = "my_policy";

/// Files of a folder of this repository: where each goes, and what is in it.
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
    ".gitignore", "README.md", "package.json", "policy.json", "src/policy.js");

const PYTHON: Group = group!("wasm-rules/templates/python/" => "":
    ".gitignore", "Makefile", "README.md", "policy.json", "policy.py", "requirements.txt");

/// The same in every language: all of them are to say the same.
const TESTS: Group = group!("wasm-rules/templates/tests/" => "tests/":
    "fleet.recommendations.json", "fleet.window.json", "nothing.recommendations.json", "nothing.window.json",
    "strict.recommendations.json", "strict.settings.json", "strict.window.json");

const CONTRACT: Group = group!("rules/wit/v0.1/" => "wit/":
    "pricer.wit", "recommender.wit", "types.wit", "worlds.wit");

const SDK: Group = group!("wasm-rules/sdk/rust/" => "sdk/":
    "Cargo.toml", "pricer/Cargo.toml", "pricer/src/lib.rs", "src/bindings.rs", "src/column.rs",
    "src/export.rs", "src/format.rs", "src/gpu.rs", "src/lib.rs", "src/log.rs", "src/saving.rs",
    "src/settings.rs", "src/testing.rs", "wit/v0.1/pricer.wit", "wit/v0.1/recommender.wit",
    "wit/v0.1/types.wit", "wit/v0.1/worlds.wit");

/// The files of a policy of this name: where each stands in its folder, and what is in it.
pub(super) fn files(
    language: Language,
    name: &str,
) -> impl Iterator<Item = (String, Cow<'static, [u8]>)> {
    let (own, brought) = match language {
        Language::Rust => (&RUST, &SDK),
        Language::C => (&C, &CONTRACT),
        Language::Js => (&JS, &CONTRACT),
        Language::Python => (&PYTHON, &CONTRACT),
    };
    let own = own.files.iter().map(move |(path, bytes)| (own.to, *path, named(bytes, name)));
    let brought = [brought, &TESTS].into_iter().flat_map(|group| {
        group.files.iter().map(|(path, bytes)| (group.to, *path, Cow::Borrowed(*bytes)))
    });
    own.chain(brought).map(|(to, path, bytes)| (format!("{to}{path}"), bytes))
}

/// A file of a template for a policy of this name. What is no text is the same for all.
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

    fn found(folder: &Path, path: &str, files: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder.join(path)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{path}{}", entry.file_name().to_str().unwrap());
            // What a symlink leads to counts.
            if fs::metadata(entry.path()).unwrap().is_dir() {
                found(folder, &format!("{path}/"), files);
            } else {
                files.insert(path);
            }
        }
    }

    /// Guarantee: a file that is added to a template or to the SDK is not forgotten here.
    #[test]
    fn all_files_are_brought() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (folder, group) in [
            ("wasm-rules/templates/rust", &RUST),
            ("wasm-rules/templates/c", &C),
            ("wasm-rules/templates/js", &JS),
            ("wasm-rules/templates/python", &PYTHON),
            ("wasm-rules/templates/tests", &TESTS),
            ("wasm-rules/sdk/rust", &SDK),
            ("rules/wit/v0.1", &CONTRACT),
        ] {
            let mut files = BTreeSet::new();
            found(&root.join(folder), "", &mut files);
            let brought: BTreeSet<_> =
                group.files.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(brought, files, "{folder}");
        }
    }

    #[test]
    fn a_policy_has_its_own_name_everywhere() {
        for language in [Language::Rust, Language::C, Language::Js, Language::Python] {
            let files: Vec<_> = files(language, "idle-2").collect();
            let all: Vec<_> =
                files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
            assert!(all.iter().all(|text| !text.contains(NAME) && !text.contains(IDENTIFIER)));
            assert!(all.iter().any(|text| text.contains("idle-2")), "{language:?}");
        }
    }
}
