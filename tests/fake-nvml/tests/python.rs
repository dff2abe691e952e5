//! The fake through an unmodified nvidia-ml-py, in a separate Python process.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use fake_nvml::Fake;

#[test]
fn nvidia_ml_py_reads_every_value() {
    let Some(toolchains) = env::var_os("TEST_TOOLCHAINS").filter(|path| !path.is_empty()) else {
        // Not by `eprintln!`: the test harness captures that.
        let skipped = b"\nSKIPPED: nvidia-ml-py (no toolchains): run `make test-backends`\n";
        io::stderr().write_all(skipped).unwrap();
        return;
    };
    let python = Path::new(&toolchains).join("python/bin/python");

    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let script = std::fs::read_to_string(here.join("python.toml")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let fake = Fake::install(dir.path(), &script).unwrap();
    let output = Command::new(python)
        .arg(here.join("python.py"))
        .arg(fake.library())
        .envs(fake.environment())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}{stderr}");
    assert_eq!(stdout.trim(), "read everything");
}
