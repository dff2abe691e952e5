//! Runs the binary in an isolated environment and returns its outcome.

use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

/// A run that has not started.
pub(crate) struct Phasemeter {
    command: Command,
    input: Vec<u8>,
}

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Phasemeter {
    /// `phasemeter SUBCOMMAND` with an empty environment except for the cache of compiled policies.
    pub(crate) fn new(subcommand: &str) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_phasemeter"));
        command.env_clear().env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR")).arg(subcommand);
        command.env("PHASEMETER_METRICS", "all");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self { command, input: Vec::new() }
    }

    /// `phasemeter audit --format json`.
    pub(crate) fn audit() -> Self {
        Self::new("audit").args(["--format", "json"])
    }

    pub(crate) fn arg(self, arg: impl AsRef<OsStr>) -> Self {
        self.args([arg])
    }

    pub(crate) fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(mut self, args: I) -> Self {
        self.command.args(args);
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    pub(crate) fn within(mut self, dir: &Path) -> Self {
        self.command.current_dir(dir);
        self
    }

    pub(crate) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// Redirects standard output.
    pub(crate) fn stdout(mut self, to: impl Into<Stdio>) -> Self {
        self.command.stdout(to);
        self
    }

    pub(crate) fn run(self) -> Outcome {
        let Self { mut command, input } = self;
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let output = std::thread::scope(|scope| {
            // It may stop reading early.
            scope.spawn(move || _ = stdin.write_all(&input));
            child.wait_with_output().unwrap()
        });
        let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
        Outcome {
            status: output.status.code().expect("ended by a signal"),
            out: text(output.stdout),
            err: text(output.stderr),
        }
    }

    /// The report of a successful run.
    pub(crate) fn report(self) -> Value {
        let outcome = self.run();
        assert_eq!((outcome.status, outcome.err.as_str()), (0, ""));
        outcome.json()
    }
}

impl Outcome {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {}", self.out))
    }

    /// The single error line.
    pub(crate) fn error_line(&self) -> &str {
        let line = self.err.strip_suffix('\n').unwrap_or_else(|| panic!("no error line: {self:?}"));
        assert!(!line.chars().any(char::is_control), "more than one line: {line:?}");
        assert_eq!(self.out, "", "{line}");
        line.strip_prefix("phasemeter: ").unwrap_or_else(|| panic!("no prefix: {line}"))
    }
}
