//! The tools that templates are built with.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// What the templates call, by directory.
const TOOLS: [&str; 4] = [
    "python/bin/python3",
    "python/bin/python-zig",
    "python/bin/componentize-py",
    "js/node_modules/.bin/componentize-qjs",
];

/// A `PATH` with the tools in `TEST_TOOLCHAINS`, which `make test-backends` sets; `None` if that is
/// unset, and the test is reported as skipped.
pub(crate) fn path() -> Option<OsString> {
    let Some(root) = env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty()) else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: templates (no toolchains): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return None;
    };
    let root = Path::new(&root);
    for tool in TOOLS {
        assert!(root.join(tool).exists(), "TEST_TOOLCHAINS: no {tool} in {}", root.display());
    }
    let tools = ["python/bin", "js/node_modules/.bin"].map(|directory| root.join(directory));
    let before = env::var_os("PATH").unwrap_or_default();
    let all = tools.into_iter().chain(env::split_paths(&before));
    Some(env::join_paths(all).unwrap())
}
