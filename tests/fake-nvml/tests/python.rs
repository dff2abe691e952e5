//! The fake through nvidia-ml-py, unchanged, in a Python process of its own.

use std::env;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;

use fake_nvml::Fake;

/// The Python to run; without it, whatever `python3` is.
const PYTHON: &str = "PHASEMETER_PYTHON";

#[test]
fn nvidia_ml_py_reads_the_fake() {
    let python = env::var_os(PYTHON);
    let program = python.clone().unwrap_or_else(|| "python3".into());
    let has_pynvml = Command::new(&program).args(["-c", "import pynvml"]).output();
    if !has_pynvml.is_ok_and(|output| output.status.success()) {
        assert!(python.is_none(), "{PYTHON} is set, but cannot `import pynvml`");
        // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
        writeln!(
            io::stderr(),
            "SKIPPED: python3 has no pynvml. Run `python3 -m venv target/venv && \
             target/venv/bin/pip install nvidia-ml-py`, then this test with \
             {PYTHON}=$PWD/target/venv/bin/python"
        )
        .unwrap();
        return;
    }

    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let script = std::fs::read_to_string(here.join("python.toml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let fake = Fake::install(folder.path(), &script).unwrap();
    let output = Command::new(program)
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
