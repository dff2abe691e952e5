//! The files of a new policy project: a recommender and a pricer per language, and a larger recommender
//! in Rust, with all sources that they need from this repository, so that they build anywhere.
//!
//! The templates in `wasm-rules/templates` are policies named `my-policy`.

use std::borrow::Cow;

use phasemeter_cli::Language;

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

const RUST_PRICER: Group = group!("wasm-rules/templates/rust-pricer/" => "":
    "README.md", "src/lib.rs");

const RUST_EXAMPLE: Group = group!("wasm-rules/templates/rust-example/" => "":
    "src/lib.rs", "tests/small.recommendations.json", "tests/small.window.json");

/// What a recommendation may name.
const LEVERS: Group = group!("wasm-rules/templates/" => "": "LEVERS.md");

const C: Group = group!("wasm-rules/templates/c/" => "":
    ".gitignore", "Makefile", "README.md", "bindings/recommender_policy.c",
    "bindings/recommender_policy.h", "bindings/recommender_policy_component_type.o", "policy.c",
    "policy.json", "requirements.txt");

const JS: Group = group!("wasm-rules/templates/js/" => "":
    ".gitignore", "README.md", "package-lock.json", "package.json", "policy.json", "src/policy.js");

const PYTHON: Group = group!("wasm-rules/templates/python/" => "":
    ".gitignore", "Makefile", "README.md", "policy.json", "policy.py", "requirements.txt");

const C_PRICER: Group = group!("wasm-rules/templates/c-pricer/" => "":
    "README.md", "bindings/pricer_policy.c", "bindings/pricer_policy.h",
    "bindings/pricer_policy_component_type.o", "policy.c");

const JS_PRICER: Group = group!("wasm-rules/templates/js-pricer/" => "":
    "README.md", "package.json", "src/policy.js");

const PYTHON_PRICER: Group = group!("wasm-rules/templates/python-pricer/" => "":
    "Makefile", "README.md", "policy.py");

/// Tests of the pricers of all languages, which have the same output.
const PRICER_TESTS: Group = group!("wasm-rules/templates/pricer-tests/" => "tests/":
    "listed.quote.json", "listed.request.json", "spot.quote.json", "spot.request.json");

/// Tests of all languages: all templates have the same output.
const TESTS: Group = group!("wasm-rules/templates/tests/" => "tests/":
    "fleet.recommendations.json", "fleet.window.json", "nothing.recommendations.json", "nothing.window.json",
    "strict.recommendations.json", "strict.settings.json", "strict.window.json");

const CONTRACT: Group = group!("rules/wit/v0.1/" => "wit/":
    "pricer.wit", "recommender.wit", "types.wit", "worlds.wit");

const SDK: Group = group!("wasm-rules/sdk/rust/" => "sdk/":
    "Cargo.toml", "pricer/Cargo.toml", "pricer/src/lib.rs", "src/bindings.rs", "src/column.rs",
    "src/export.rs", "src/format.rs", "src/gpu.rs", "src/group.rs", "src/heap.rs", "src/lib.rs", "src/log.rs",
    "src/memory.rs", "src/offer.rs", "src/recommendation.rs", "src/saving.rs", "src/settings.rs",
    "src/testing.rs", "src/thresholds.rs", "src/vendor.rs", "wit/v0.1/pricer.wit", "wit/v0.1/recommender.wit",
    "wit/v0.1/types.wit", "wit/v0.1/worlds.wit");

/// The directory of generated files, each for one kind of policy.
const BINDINGS: &str = "bindings/";

/// The first line of the templates' sources, and what it is in other templates.
const SUMMARY: &str = "Recommends sharing or switching off GPUs that are mostly idle.";
const PRICER_SUMMARY: &str = "Prices GPUs at a discount on the list price.";
const EXAMPLE_SUMMARY: &str = "Recommends the cheapest GPU on offer that is large enough.";

/// A template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Template {
    /// The small recommender.
    Recommender(Language),
    /// The pricer.
    Pricer(Language),
    /// The larger recommender, in Rust.
    RustExample,
}

impl Template {
    /// The files of a policy of this name: relative path and contents.
    pub(super) fn files(
        self,
        name: &str,
    ) -> impl Iterator<Item = (String, Cow<'static, [u8]>)> + use<'_> {
        let (language, own, common): (_, &Group, &[&Group]) = match self {
            Self::Recommender(Language::Rust) => (&RUST, &RUST, &[&SDK, &TESTS, &LEVERS]),
            Self::Recommender(Language::C) => (&C, &C, &[&CONTRACT, &TESTS, &LEVERS]),
            Self::Recommender(Language::Js) => (&JS, &JS, &[&CONTRACT, &TESTS, &LEVERS]),
            Self::Recommender(Language::Python) => {
                (&PYTHON, &PYTHON, &[&CONTRACT, &TESTS, &LEVERS])
            }
            Self::Pricer(Language::Rust) => (&RUST, &RUST_PRICER, &[&SDK, &PRICER_TESTS]),
            Self::Pricer(Language::C) => (&C, &C_PRICER, &[&CONTRACT, &PRICER_TESTS]),
            Self::Pricer(Language::Js) => (&JS, &JS_PRICER, &[&CONTRACT, &PRICER_TESTS]),
            Self::Pricer(Language::Python) => {
                (&PYTHON, &PYTHON_PRICER, &[&CONTRACT, &PRICER_TESTS])
            }
            Self::RustExample => (&RUST, &RUST_EXAMPLE, &[&SDK, &LEVERS]),
        };
        let summary = match self {
            Self::Recommender(_) => SUMMARY,
            Self::Pricer(_) => PRICER_SUMMARY,
            Self::RustExample => EXAMPLE_SUMMARY,
        };
        // A template has the files of the recommender of its language, except for those it has of its own
        // and the bindings of the other kind.
        let is_own = |path: &str| own.files.iter().any(|(known, _)| *known == path);
        let shared = language.files.iter();
        let shared = shared.filter(move |(path, _)| !is_own(path) && !path.starts_with(BINDINGS));
        let own = own.files.iter().chain(shared);
        let own = own.map(move |(path, bytes)| ("", *path, named(bytes, name, summary)));
        let common = common.iter().flat_map(|group| {
            group.files.iter().map(|(path, bytes)| (group.to, *path, Cow::Borrowed(*bytes)))
        });
        own.chain(common).map(|(to, path, bytes)| (format!("{to}{path}"), bytes))
    }
}

/// Replaces the placeholders in a text file; other files are unchanged.
fn named(bytes: &'static [u8], name: &str, summary: &str) -> Cow<'static, [u8]> {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.replace(NAME, name).replace(IDENTIFIER, &name.replace('-', "_"));
            let text = text.replace(SUMMARY, summary);
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
            ("wasm-rules/templates/rust-pricer", &RUST_PRICER),
            ("wasm-rules/templates/rust-example", &RUST_EXAMPLE),
            ("wasm-rules/templates/c-pricer", &C_PRICER),
            ("wasm-rules/templates/js-pricer", &JS_PRICER),
            ("wasm-rules/templates/python-pricer", &PYTHON_PRICER),
            ("wasm-rules/templates/pricer-tests", &PRICER_TESTS),
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
        let languages = [Language::Rust, Language::C, Language::Js, Language::Python];
        let pricers = languages.map(Template::Pricer);
        let recommenders = languages.map(Template::Recommender);
        let all = recommenders.into_iter().chain(pricers).chain([Template::RustExample]);
        for template in all {
            let files: Vec<_> = template.files("idle-2").collect();
            let all: Vec<_> =
                files.iter().map(|(_, bytes)| String::from_utf8_lossy(bytes)).collect();
            assert!(all.iter().all(|text| !text.contains(NAME) && !text.contains(IDENTIFIER)));
            assert!(all.iter().any(|text| text.contains("idle-2")), "{template:?}");
        }
    }

    /// Guarantee: what is replaced is in the files, and no template describes another.
    #[test]
    fn summary_is_that_of_the_template() {
        let manifest = |template: Template| {
            let mut files = template.files("idle");
            let (_, bytes) = files.find(|(path, _)| path == "Cargo.toml").unwrap();
            String::from_utf8(bytes.into_owned()).unwrap()
        };
        for (template, summary) in [
            (Template::Recommender(Language::Rust), SUMMARY),
            (Template::Pricer(Language::Rust), PRICER_SUMMARY),
            (Template::RustExample, EXAMPLE_SUMMARY),
        ] {
            assert!(manifest(template).contains(summary), "{template:?}");
        }
    }

    /// Guarantee: the directory of a new recommender lists every lever.
    #[test]
    fn levers_are_listed() {
        let list = str::from_utf8(LEVERS.files[0].1).unwrap();
        for lever in phasemeter_rules::lever::Lever::ALL {
            assert!(list.contains(&format!("`{lever}`")), "{lever} is missing");
        }
    }
}
