//! `phasemeter run` on the scripted driver, in an environment of its own.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use fake_nvml::Fake;
use serde_json::Value;
use tempfile::TempDir;

use crate::script::Script;

/// An odd price, in dollars and in nano-dollars: an hour of it is no whole number of them a second.
const PRICE: &str = "--price=2.985";
pub(crate) const RATE: u64 = 2_985_000_000;

/// The context that runs are given.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(crate) const PARENT: &str = "b7ad6b7169203331";

/// A run to come.
pub(crate) struct Run {
    command: Command,
    report: PathBuf,
    _folder: TempDir,
}

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl Run {
    /// The whole of a script, around a command that does nothing for as long, in the given context.
    pub(crate) fn of(script: &Script) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = Fake::install(folder.path(), &script.text()).unwrap();
        let report = folder.path().join("report.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.env_clear().envs(fake.environment()).env("PATH", "/usr/bin:/bin");
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-01"));
        command.env("OTEL_SERVICE_NAME", "trainer");
        command.env("OTEL_RESOURCE_ATTRIBUTES", "team=vision");
        command.args(["run", PRICE, "--report"]).arg(&report);
        command.args(["--", "sleep", &script.seconds().to_string()]).stdin(Stdio::null());
        Self { command, report, _folder: folder }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sends it there, by this protocol.
    pub(crate) fn to(self, endpoint: &str, protocol: &str) -> Self {
        self.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    }

    /// Runs it to its end.
    pub(crate) fn report(mut self) -> Report {
        let output = self.command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        let report = fs::read(&self.report).unwrap();
        Report(serde_json::from_slice(&report).unwrap_or_else(|error| panic!("{error}: {told}")))
    }
}

impl Report {
    pub(crate) fn gpus(&self) -> &[Value] {
        self.0["gpus"].as_array().unwrap()
    }

    /// The line of what was assumed, and noted, that has this in it.
    pub(crate) fn note(&self, of: &str) -> &str {
        let mut lines = self.0["assumptions"].as_array().unwrap().iter();
        let line = lines.find_map(|line| line.as_str().filter(|line| line.contains(of)));
        line.unwrap_or_else(|| panic!("nothing of `{of}` in {:#}", self.0["assumptions"]))
    }
}

/// Nano-dollars of a decimal text with nine decimals.
pub(crate) fn nano_usd(text: &Value) -> u64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text} is no money"));
    text.replace('.', "").parse().unwrap()
}

/// A number of seconds, or of dollars, to the nearest billionth.
pub(crate) fn billionths(number: f64) -> u64 {
    (number * 1e9).round() as u64
}
