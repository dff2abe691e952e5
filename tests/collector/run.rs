//! Runs `phasemeter run` on the scripted driver in an isolated environment.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use fake_nvml::Fake;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::script::Script;

/// A price in dollars and in nano-dollars that is not a whole number of nano-dollars per second.
const PRICE: &str = "--price=2.985";
pub(crate) const RATE: u64 = 2_985_000_000;

/// The trace context of all runs.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(crate) const PARENT: &str = "b7ad6b7169203331";

/// A run that has not started.
pub(crate) struct Run {
    command: Command,
    report: PathBuf,
    _folder: TempDir,
}

/// The report of a finished run.
#[derive(Debug)]
pub(crate) struct Report(Value);

impl Run {
    /// Runs a whole script around a `sleep` of the same length.
    pub(crate) fn new(script: &Script) -> Self {
        Self::of(script, &[], &["sleep", &script.seconds().to_string()])
    }

    /// Runs a script around a command.
    pub(crate) fn of(script: &Script, options: &[&str], program: &[&str]) -> Self {
        Self::scripted(&script.text(), options, program)
    }

    /// Runs a driver with this script around a command.
    pub(crate) fn scripted(script: &str, options: &[&str], program: &[&str]) -> Self {
        let mut run = Self::metering("run", script, options);
        run.command.arg("--").args(program);
        run
    }

    /// Runs the agent of a node, whose driver has this script.
    pub(crate) fn agent(script: &str, options: &[&str]) -> Self {
        Self::metering("agent", script, options)
    }

    /// Meters until it is ended, with a driver of this script.
    pub(crate) fn endless(script: &str, options: &[&str]) -> Self {
        Self::metering("run", script, options)
    }

    fn metering(subcommand: &str, script: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::install(dir.path(), script).unwrap();
        let report = dir.path().join("report.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.env_clear().envs(fake.environment()).env("PATH", "/usr/bin:/bin");
        command.env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.env("TRACEPARENT", format!("00-{TRACE}-{PARENT}-01"));
        command.env("OTEL_SERVICE_NAME", "trainer").env("PHASEMETER_METRICS", "all");
        command.env("OTEL_RESOURCE_ATTRIBUTES", "team=vision");
        command.args([subcommand, PRICE, "--report"]).arg(&report);
        command.args(options).stdin(Stdio::null());
        Self { command, report, _folder: dir }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Exports to an endpoint with this protocol.
    pub(crate) fn export_to(self, endpoint: &str, protocol: &str) -> Self {
        self.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    }

    /// Logs to a file, if it is then started by [`Self::spawn`].
    pub(crate) fn log_to(mut self, file: &Path) -> Self {
        self.command.stderr(File::create(file).unwrap());
        self
    }

    /// Starts it, to be killed.
    pub(crate) fn spawn(mut self) -> (Child, Self) {
        (self.command.spawn().unwrap(), self)
    }

    /// Runs it and returns the report.
    pub(crate) fn report(self) -> Report {
        self.start().end()
    }

    /// Starts it.
    pub(crate) fn start(mut self) -> Started {
        let child = self.command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Started { child: Some(child), run: self }
    }
}

/// A run that has started.
pub(crate) struct Started {
    child: Option<Child>,
    run: Run,
}

impl Started {
    /// Asks it to end, and returns the report.
    pub(crate) fn stop(self) -> Report {
        let child = self.child.as_ref().unwrap();
        kill_process(Pid::from_child(child), Signal::TERM).unwrap();
        self.end()
    }

    /// Waits for its end, and returns the report.
    pub(crate) fn end(mut self) -> Report {
        let output = self.child.take().unwrap().wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        let report = fs::read(&self.run.report).unwrap();
        Report(serde_json::from_slice(&report).unwrap_or_else(|error| panic!("{error}: {stderr}")))
    }
}

/// Ends the run however the test ends.
impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Report {
    pub(crate) const fn json(&self) -> &Value {
        &self.0
    }

    pub(crate) fn gpus(&self) -> &[Value] {
        self.0["gpus"].as_array().unwrap()
    }

    /// The note that contains this text.
    pub(crate) fn note(&self, text: &str) -> &str {
        let parts = ["assumptions", "sampling", "delivery"];
        let mut lines = parts.iter().flat_map(|part| self.0[part].as_array().unwrap());
        let line = lines.find_map(|line| line.as_str().filter(|line| line.contains(text)));
        line.unwrap_or_else(|| panic!("no note with `{text}` in {:#}", self.0))
    }
}

/// Nano-dollars of a decimal text with nine decimals.
pub(crate) fn nano_usd(text: &Value) -> u64 {
    let text = text.as_str().unwrap_or_else(|| panic!("{text}: expected a decimal string"));
    text.replace('.', "").parse().unwrap()
}
