//! Where the tools are that templates are built with.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A `PATH` on which they are found; `None` where they are not there, and nobody promised them.
pub(crate) fn path() -> Option<OsString> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/toolchains");
    let folders = [root.join("python/bin"), root.join("js/node_modules/.bin")];
    let missing: Vec<_> = folders
        .iter()
        .flat_map(|folder| tools(folder))
        .filter(|path| !path.exists())
        .map(|path| path.display().to_string())
        .collect();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        assert!(env::var_os("CI").is_none(), "run 'make toolchains': {missing} is not there");
        // Past the test runner, which keeps what a test prints to itself.
        let told = format!("\nSKIPPED: templates: run 'make toolchains': {missing} is not there\n");
        io::stderr().write_all(told.as_bytes()).unwrap();
        return None;
    }
    let before = env::var_os("PATH").unwrap_or_default();
    let all = folders.into_iter().chain(env::split_paths(&before));
    Some(env::join_paths(all).unwrap())
}

fn tools(folder: &Path) -> Vec<PathBuf> {
    let names: &[&str] = if folder.ends_with("python/bin") {
        &["python3", "python-zig", "componentize-py"]
    } else {
        &["componentize-qjs"]
    };
    names.iter().map(|name| folder.join(name)).collect()
}
