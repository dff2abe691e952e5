//! The fake through nvidia-ml-py, unchanged, in a Python process of its own.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use fake_nvml::Fake;

#[test]
fn nvidia_ml_py_reads_the_fake() {
    let Some(toolchains) = env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty()) else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: nvidia-ml-py (no toolchains): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    };
    let python = Path::new(&toolchains).join("python/bin/python");

    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let script = std::fs::read_to_string(here.join("python.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::install(folder.path(), &script).unwrap();
    let output = Command::new(python)
        .arg(here.join("python.py"))
        .arg(fake.library())
        .envs(fake.environment())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    assert_eq!(said.trim(), "read everything");
}
