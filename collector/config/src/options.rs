//! The options of the command line, as a file gives them.

use std::iter;

use clap::{Arg, Command};

/// The commands that a file configures.
pub(crate) const COMMANDS: [&str; 7] =
    ["run", "agent", "gateway", "record", "audit", "demo", "flush"];

/// The command that checks what others need. It has their options, and some of a call.
pub(crate) const CHECK: &str = "doctor";

/// The most values of one key that are reported as wrong.
const MAX_REFUSALS: usize = 100;

/// The options of all commands.
pub(crate) struct Options {
    cli: Command,
}

impl Options {
    pub(crate) fn new(mut cli: Command) -> Self {
        // Gives each command the options of all.
        cli.build();
        Self { cli }
    }

    /// The whole command line.
    pub(crate) const fn cli(&self) -> &Command {
        &self.cli
    }

    pub(crate) fn command(&self, name: &str) -> Option<&Command> {
        self.cli.find_subcommand(name)
    }

    /// The commands with this option.
    pub(crate) fn commands(&self, option: &str) -> impl Iterator<Item = &'static str> {
        COMMANDS.into_iter().filter(move |name| {
            self.command(name).is_some_and(|command| argument(command, option).is_some())
        })
    }

    /// The option as the first command has it that has one.
    pub(crate) fn argument(&self, option: &str) -> Option<&Arg> {
        let command = self.commands(option).next()?;
        argument(self.command(command)?, option)
    }

    /// Why a command refuses this option with this value, whatever else it needs; `None` if it does not.
    pub(crate) fn refusal(&self, option: &str, value: Option<&str>) -> Option<String> {
        self.first_refusal(option, iter::once(value))
    }

    /// Those of several values, by their positions; the first [`MAX_REFUSALS`]. To parse a command line is expensive, and
    /// most values are right: so halves are divided in which some value is refused.
    pub(crate) fn refusals(&self, option: &str, values: &[Option<String>]) -> Vec<(usize, String)> {
        let mut refused = Vec::new();
        let mut ranges: Vec<_> = iter::once(0..values.len()).collect();
        while let Some(range) = ranges.pop().filter(|_| refused.len() < MAX_REFUSALS) {
            let part = values.get(range.clone()).unwrap_or_default();
            let Some(reason) = self.first_refusal(option, part.iter().map(Option::as_deref)) else {
                continue;
            };
            if part.len() == 1 {
                refused.push((range.start, reason));
            } else {
                let middle = range.start + part.len() / 2;
                ranges.extend([middle..range.end, range.start..middle]);
            }
        }
        refused
    }

    fn first_refusal<'a>(
        &self,
        option: &str,
        values: impl Iterator<Item = Option<&'a str>>,
    ) -> Option<String> {
        let command = self.commands(option).next()?;
        let given = values.map(|value| assignment(option, value));
        let line = ["phasemeter", command].map(ToOwned::to_owned).into_iter().chain(given);
        let parsed = self.cli.clone().try_get_matches_from(line);
        parsed.err().and_then(|error| reason(&error))
    }
}

/// The option of a command.
pub(crate) fn argument<'a>(command: &'a Command, option: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| arg.get_long() == Some(option))
}

/// The option as an argument.
pub(crate) fn assignment(option: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("--{option}={value}"),
        None => format!("--{option}"),
    }
}

/// What is expected in place of a value; `None` if the value is accepted.
fn reason(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use std::error::Error as _;
    match error.kind() {
        ErrorKind::InvalidValue => {
            let known = match error.get(ContextKind::ValidValue) {
                Some(ContextValue::Strings(known)) => known.join(", "),
                _ => return Some("expected a value".to_owned()),
            };
            Some(format!("expected one of {known}"))
        }
        ErrorKind::ValueValidation => {
            Some(error.source().map_or_else(|| "invalid".to_owned(), ToString::to_string))
        }
        ErrorKind::MissingRequiredArgument
        | ErrorKind::ArgumentConflict
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelp => None,
        kind => Some(kind.as_str().unwrap_or("invalid").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use phasemeter_cli::Cli;

    use super::*;

    #[test]
    fn refusals_are_about_the_value_only() {
        let options = Options::new(Cli::command());
        let of = |option, value| options.refusal(option, Some(value));
        assert_eq!(of("interval", "x").unwrap(), "expected seconds, at least 0.01");
        assert_eq!(of("log-format", "x").unwrap(), "expected one of text, json");
        // It needs --alerts.
        assert_eq!(of("alert-set", "high_memory.for=10m"), None);
        assert_eq!(of("report-every", "1h"), None);
        assert_eq!(options.refusal("receive", None), None);
        assert_eq!(of("mapping", "file"), None);
    }

    /// Of many values, those that are refused are found without parsing each by itself.
    #[test]
    fn refused_values_of_a_list_have_their_positions() {
        let options = Options::new(Cli::command());
        let mut values = vec![Some("fuel=1".to_owned()); 5_000];
        assert_eq!(options.refusals("policy-limit", &values), []);
        for index in [0, 7, 4_999] {
            values[index] = Some("fuel=0".to_owned());
        }
        let refused = options.refusals("policy-limit", &values);
        let positions: Vec<_> = refused.iter().map(|(index, _)| *index).collect();
        assert_eq!(positions, [0, 7, 4_999]);
        values.fill(Some("fuel".to_owned()));
        assert_eq!(options.refusals("policy-limit", &values).len(), MAX_REFUSALS);
    }
}
