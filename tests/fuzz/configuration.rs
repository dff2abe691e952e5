//! Any text as a configuration file.

use std::sync::LazyLock;

use clap::{Arg, ArgAction, Command};
use phasemeter_config::{Format, Strictness};

/// A part of the value of every variable.
const SECRET: &str = "s3cr3t";

/// Options of each kind. The fuzzers do not build the whole command line.
static FORMAT: LazyLock<Format> = LazyLock::new(|| {
    let option = |name: &'static str| Arg::new(name).long(name);
    let number = option("interval").value_parser(clap::value_parser!(u16));
    let list = option("gpu").action(ArgAction::Append).value_delimiter(',');
    let pairs = option("policy-limit").action(ArgAction::Append).value_name("NAME=VALUE");
    let switch = option("require-gpu").action(ArgAction::SetTrue);
    let optional = option("receive").num_args(0..=1).require_equals(true);
    let choice = option("log-level").value_parser(["error", "warn", "info", "debug", "trace"]);
    let run = Command::new("run").args([number, list, pairs, switch, optional, choice]);
    Format::of(Command::new("phasemeter").subcommand(run))
});

/// A text sets values or has findings in it, whose messages have no value of a variable. What is printed of a valid
/// text is valid, and prints the same.
pub(crate) fn configuration(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // No encoding of anything, and not to be found by its whole.
    let lookup = |_: &str| Some(format!("{SECRET},{SECRET}%"));
    // A carriage return alone ends a line of YAML, too.
    let lines = text.split(['\n', '\r']).count();
    for strictness in [Strictness::Own, Strictness::OfACommand] {
        let read = FORMAT.parse(&text, strictness, &lookup);
        for finding in read.findings() {
            assert!(finding.line <= lines + 1, "{finding}");
            let is_own = text.contains(SECRET);
            assert!(is_own || !finding.to_string().contains(SECRET), "{finding}");
        }
        if read.findings().is_empty() {
            let printed = read.print();
            let again = FORMAT.parse(&printed, strictness, &lookup);
            assert_eq!(again.findings(), [], "{printed}");
            assert_eq!(again.print(), printed);
        }
    }
}
