//! The reports that a command line names: files, directories of them, and patterns that no shell has expanded.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use phasemeter_attribution::selection::glob;
use phasemeter_bill::error::ReadError;

/// The most that is read of a report.
pub(super) const MAX_REPORT: u64 = 1 << 30;

/// The files of these names, those of one name in order. A directory has the files in it whose names end in `.json`.
/// `*` and `?` in a name that does not exist match as in a shell.
pub(super) fn expand(names: &[PathBuf]) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for name in names {
        let found = if name.is_dir() {
            let is_report =
                |file: &PathBuf| file.extension().is_some_and(|it| it == "json") && !file.is_dir();
            entries(name, "*")?.into_iter().filter(is_report).collect()
        } else if is_pattern(name) && !name.exists() {
            matching(name)?
        } else {
            vec![name.clone()]
        };
        if found.is_empty() {
            return Err(ReadError::NoFiles { name: name.display().to_string() });
        }
        files.extend(found);
    }
    Ok(files)
}

fn is_pattern(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.contains(['*', '?']))
}

/// The files that match, one component of the pattern after another.
fn matching(pattern: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let name = Path::new(component.as_os_str());
        found = match (component, name.to_str()) {
            (Component::Normal(_), Some(text)) if is_pattern(name) => {
                let directories =
                    found.iter().filter(|it| it.as_os_str().is_empty() || it.is_dir());
                let entries = directories.map(|directory| entries(directory, text));
                entries.collect::<Result<Vec<_>, _>>()?.concat()
            }
            _ => found.iter().map(|directory| directory.join(name)).collect(),
        };
    }
    found.retain(|file| file.is_file());
    Ok(found)
}

/// The entries of a directory whose names match, in order. Hidden ones only match a pattern that begins with a dot.
fn entries(directory: &Path, pattern: &str) -> Result<Vec<PathBuf>, ReadError> {
    let read = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let names = fs::read_dir(read).and_then(|entries| {
        entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()
    });
    let unreadable =
        |source| ReadError::Unreadable { file: directory.display().to_string(), source };
    let mut names = names.map_err(unreadable)?;
    names.retain(|name| {
        let name = name.to_string_lossy();
        glob(pattern, &name) && (pattern.starts_with('.') || !name.starts_with('.'))
    });
    names.sort_unstable();
    Ok(names.into_iter().map(|name| directory.join(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_patterns_name_their_reports_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for day in ["01", "02"] {
            fs::create_dir(at(day)).unwrap();
            for name in ["b.json", "a.json", ".hidden.json", "notes.txt"] {
                fs::write(at(day).join(name), "{}").unwrap();
            }
        }
        fs::create_dir(at("01/directory.json")).unwrap();
        fs::write(at("a*.json"), "{}").unwrap();
        let expanded = |name: &str| -> Vec<String> {
            let files = expand(&[at(name)]).unwrap();
            let name =
                |file: &PathBuf| file.strip_prefix(dir.path()).unwrap().display().to_string();
            files.iter().map(name).collect()
        };
        assert_eq!(expanded("01"), ["01/a.json", "01/b.json"]);
        assert_eq!(expanded("*/a.json"), ["01/a.json", "02/a.json"]);
        assert_eq!(expanded("0?/*.json"), ["01/a.json", "01/b.json", "02/a.json", "02/b.json"]);
        assert_eq!(expanded("a*.json"), ["a*.json"], "a file of that name");
        assert_eq!(
            expanded("missing.json"),
            ["missing.json"],
            "which is reported when it is opened"
        );
        for nothing in ["*/c.json", "*/*/*.json"] {
            let error = expand(&[at(nothing)]).unwrap_err().to_string();
            assert!(error.contains("no reports"), "{error}");
        }
    }
}
