//! The files of this repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Directories of builds and tools. Hidden ones are left out too.
const IGNORED: [&str; 3] = ["target", "node_modules", "corpus"];

/// The root directory.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The text of a file, by its path from the root.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All files below a directory, as paths from the root, sorted. Both use `/`.
pub(crate) fn files(directory: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(directory, &mut found);
    found.sort();
    found
}

fn collect(directory: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = if directory.is_empty() { name.clone() } else { format!("{directory}/{name}") };
        if entry.file_type().unwrap().is_file() {
            found.push(path);
        } else if !IGNORED.contains(&name.as_str()) && (!name.starts_with('.') || name == ".ci") {
            collect(&path, found);
        }
    }
}
