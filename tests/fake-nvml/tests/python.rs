//! The fake through nvidia-ml-py, unchanged, in a Python process of its own.

use std::env;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use fake_nvml::Fake;

/// The Python that `make toolchains` brings.
const TOOLCHAIN: &str = "target/toolchains/python/bin/python";

#[test]
fn nvidia_ml_py_reads_the_fake() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let known = [root.join(TOOLCHAIN), "python3".into()];
    let has_pynvml = |python: &&PathBuf| {
        let output = Command::new(python).args(["-c", "import pynvml"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let Some(python) = known.iter().find(has_pynvml) else {
        assert!(env::var_os("CI").is_none(), "no Python here has pynvml: run `make toolchains`");
        // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
        writeln!(io::stderr(), "SKIPPED: no Python here has pynvml; `make toolchains` brings one")
            .unwrap();
        return;
    };

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
