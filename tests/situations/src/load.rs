//! Loads all situations.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::expectation::Common;
use crate::situation::Situation;

/// The kinds of situations: directories of `tests/situations`.
pub const KINDS: [&str; 8] = [
    "training",
    "serving",
    "interactive",
    "batch",
    "multi-gpu",
    "mixed-nodes",
    "faults",
    "poor-logs",
];

/// All situations, by kind and name, and the rules that they share.
#[derive(Debug)]
pub struct Situations {
    /// The situations.
    pub all: Vec<Situation>,
    pub(crate) common: Common,
}

/// A file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// It cannot be read.
    #[error("{}: {source}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It does not follow the format.
    #[error("{}: {source}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: Box<toml::de::Error>,
    },
    /// It is not consistent.
    #[error("{}: {problem}", path.display())]
    Inconsistent {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl Situations {
    /// Loads the situations of this repository.
    ///
    /// # Errors
    /// Returns the first file that cannot be used.
    pub fn load() -> Result<Self, LoadError> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut all = Vec::new();
        for kind in KINDS {
            for path in files(&dir.join(kind))? {
                let mut situation: Situation = read(&path)?;
                situation.kind = kind;
                let stem = path.file_stem().unwrap_or_default();
                situation.name = stem.to_string_lossy().into_owned();
                if let Some(problem) = situation.problem() {
                    return Err(LoadError::Inconsistent { path, problem });
                }
                all.push(situation);
            }
        }
        Ok(Self { all, common: read(&dir.join("common.toml"))? })
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, LoadError> {
    let text = fs::read_to_string(path)
        .map_err(|source| LoadError::File { path: path.to_owned(), source })?;
    toml::from_str(&text)
        .map_err(|source| LoadError::Format { path: path.to_owned(), source: Box::new(source) })
}

/// The TOML files of a directory, by name.
fn files(dir: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let at = |source| LoadError::File { path: dir.to_owned(), source };
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(at)? {
        let path = entry.map_err(at)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn situations_load_and_cover_every_kind() {
        let situations = Situations::load().unwrap_or_else(|error| panic!("{error}"));
        assert!(situations.all.len() >= 46, "only {} situations", situations.all.len());
        for kind in KINDS {
            let of_kind = situations.all.iter().filter(|situation| situation.kind == kind);
            assert!(of_kind.count() >= 5, "fewer than 5 of kind {kind}");
        }
        let titles: BTreeSet<_> = situations.all.iter().map(|situation| &situation.title).collect();
        assert_eq!(titles.len(), situations.all.len(), "two situations have one title");
    }

    #[test]
    fn inconsistent_situations_are_rejected() {
        let situation = |change: (&str, &str)| {
            let text = r#"
                title = "Test"
                workload = "training"
                length = "1h"
                every = "1s"
                [[gpus]]
                name = "all"
                model = "NVIDIA L4"
                load = "45..57%"
                memory = "4 GiB"
                [[expected]]
                levers = ["batch"]
                why = "Memory allows more work at once"
            "#;
            toml::from_str::<Situation>(&text.replace(change.0, change.1))
        };
        assert!(situation(("", "")).unwrap().problem().is_none());
        for (from, to) in [
            ("L4", "L5"),
            ("\"batch\"", "\"batch\"]\ngpus = [\"none\""),
            ("Memory allows more work at once", "Memory"),
            ("1s", "1300ms"),
            ("length", "start = \"24:00\"\nlength"),
            ("length", "source = \"a paper\"\nlength"),
            ("length", "without = [\"cats\"]\nlength"),
        ] {
            assert!(situation((from, to)).unwrap().problem().is_some(), "{from} → {to}");
        }
        for (from, to) in [("batch", "cats"), ("4 GiB", "4 GiB, 2"), ("1h", "1"), ("title", "name")]
        {
            assert!(situation((from, to)).is_err(), "{from} → {to}");
        }
    }
}
