//! A project directory with a built policy, and `phasemeter policy` in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A path in `wasm-rules`.
pub(crate) fn wasm_rules(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wasm-rules").join(name)
}

/// A project directory with a built policy.
pub(crate) struct PolicyProject(pub(crate) TempDir);

impl PolicyProject {
    /// With a recommender and windows.
    pub(crate) fn new() -> Self {
        Self::with("data-loading", "templates", &["fleet.window.json", "nothing.window.json"])
    }

    /// With a recommender that has needs of a log whose workload is unknown.
    pub(crate) fn needing() -> Self {
        Self::with("measure", "templates", &[])
    }

    /// With a pricer and a request.
    pub(crate) fn pricer() -> Self {
        let files = ["commitment.request.json", "commitment.settings.json"];
        Self::with("negotiated", "policies/negotiated", &files)
    }

    fn with(policy: &str, from: &str, tests: &[&str]) -> Self {
        let project = Self(TempDir::new().unwrap());
        fs::create_dir(project.at("tests")).unwrap();
        for test in tests {
            let test = format!("tests/{test}");
            fs::copy(wasm_rules(from).join(&test), project.at(&test)).unwrap();
        }
        let wasm = format!("{policy}.wasm");
        fs::copy(wasm_rules("dist").join(&wasm), project.at(&wasm)).unwrap();
        project.write("policy.json", &format!(r#"{{"build": "echo built", "wasm": "{wasm}"}}"#));
        project
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.at(name), text).unwrap();
    }

    /// Runs `phasemeter policy` and returns its exit status and output.
    pub(crate) fn policy(&self, args: &[&str]) -> (i32, String) {
        let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_phasemeter"))
            .arg("policy")
            .args(args)
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.at("cache"))
            .output()
            .unwrap();
        let text = [stdout, stderr].concat();
        (status.code().unwrap(), String::from_utf8(text).unwrap())
    }
}
