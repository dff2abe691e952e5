//! Errors of the command line, and help.
//!
//! Arguments may come from others: a job system fills in names that users choose.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use clap::Error;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use phasemeter_terminal::escape::clean;

use crate::{standard_error, version};

/// How long the end waits for the reader of standard error.
const FLUSH: Duration = Duration::from_secs(5);

/// Prints an error or help, as clap does, but no control characters of arguments.
#[must_use]
pub fn report(error: &Error) -> ExitCode {
    let status = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(u8::MAX));
    if error.kind() == ErrorKind::DisplayVersion {
        // A closed pipe is not an error.
        let _ = std::io::stdout().write_all(version::text().as_bytes());
        return status;
    }
    let text = error.render().to_string();
    let cleaned = match tip(error) {
        Some(tip) => format!("{}\n{tip}\n", clean_lines(text.trim_end())),
        None => clean_lines(&text),
    };
    if cleaned == text {
        // With colors, on a terminal. A closed pipe is not an error.
        let _ = error.print();
        return status;
    }
    standard_error::write(cleaned.as_bytes());
    let _ = standard_error::flush(FLUSH, || false);
    status
}

/// What to do in place of what was probably meant.
fn tip(error: &Error) -> Option<String> {
    let usage = match error.get(ContextKind::Usage) {
        Some(ContextValue::StyledStr(usage)) => usage.to_string(),
        _ => String::new(),
    };
    match (error.kind(), error.get(ContextKind::InvalidArg)) {
        (ErrorKind::UnknownArgument, Some(ContextValue::String(argument)))
            if usage.contains("[-- <CMD>...]") && !argument.starts_with('-') =>
        {
            let command = clean(argument);
            Some(format!("tip: a command comes after `--`: phasemeter run -- {command} …"))
        }
        (ErrorKind::MissingRequiredArgument, _) if usage.contains("<BEFORE> <AFTER>") => Some(
            "tip: compare takes the JSON reports of the same work before and after a change; \
             `phasemeter audit LOG --report FILE` and `phasemeter run --report FILE -- CMD` write them"
                .to_owned(),
        ),
        _ => None,
    }
}

/// The lines of a text, each of which has no control characters.
fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use phasemeter_cli::Cli;

    #[test]
    fn help_is_printed_as_it_is() {
        for command in Cli::command().get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert_eq!(clean_lines(&help), help, "{}", command.get_name());
        }
    }

    fn tip_of(arguments: &[&str]) -> Option<String> {
        let parsed = Cli::command().try_get_matches_from(arguments);
        tip(&parsed.unwrap_err())
    }

    #[test]
    fn likely_mistakes_have_a_tip() {
        let tip = tip_of(&["phasemeter", "run", "--gpu", "0", "python", "train.py"]).unwrap();
        assert_eq!(tip, "tip: a command comes after `--`: phasemeter run -- python …");
        let tip = tip_of(&["phasemeter", "compare", "a.csv"]).unwrap();
        assert!(tip.contains("before and after a change"), "{tip}");
        for other in [["phasemeter", "run", "--gpus"], ["phasemeter", "agent", "python"]] {
            assert_eq!(tip_of(&other), None, "{other:?}");
        }
    }

    #[test]
    fn arguments_are_cleaned() {
        let text = "error: unexpected argument '--\u{1b}[2J\u{202e}' found\n\nUsage\n";
        let cleaned = "error: unexpected argument '--\u{fffd}[2J\u{fffd}' found\n\nUsage\n";
        assert_eq!(clean_lines(text), cleaned);
    }
}
