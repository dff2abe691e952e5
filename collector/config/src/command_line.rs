//! The command line together with the file: an option that is given replaces the same option of the file.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

use crate::arguments::LOG_LEVEL;
use crate::change::Change;
use crate::configuration::Configuration;
use crate::keys::{SECTION, keys};
use crate::options::{CHECK, COMMANDS, Options, assignment};

/// OpenTelemetry's variable of the file.
const VARIABLE: &str = "OTEL_CONFIG_FILE";

/// The file that a variable of the environment names. An empty value counts as unset.
pub fn file_of_environment(lookup: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    lookup(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// What a command line says about a file.
#[derive(Debug)]
pub struct CommandLine {
    /// The file of `--config`.
    pub file: Option<PathBuf>,
    /// Whether the command reads a file.
    pub is_configured: bool,
    /// Whether it runs another command, or reads only what was recorded: a file of the environment is then for others.
    pub is_for_others: bool,
    /// The options that the command has and that are not given.
    open: Vec<String>,
}

impl CommandLine {
    pub(crate) fn of(options: &Options, arguments: &[OsString]) -> Self {
        let program = OsString::from("phasemeter");
        let all = std::iter::once(&program).chain(arguments);
        let parser = options.cli().clone().ignore_errors(true);
        let matches = parser.try_get_matches_from(all).unwrap_or_default();
        let none = ArgMatches::default();
        let (command, of_command) = matches.subcommand().unwrap_or(("", &none));
        let file = [of_command, &matches]
            .into_iter()
            .find_map(|it| it.try_get_one::<PathBuf>("config").ok().flatten().cloned());
        let is_given = |arg: &&Arg| {
            let id = arg.get_id();
            let is_in = |it: &ArgMatches| {
                it.ids().any(|known| known == id)
                    && it.value_source(id.as_str()) == Some(ValueSource::CommandLine)
            };
            is_in(of_command) || is_in(&matches)
        };
        let known = options.command(command).map(Command::get_arguments).into_iter().flatten();
        let open = known.filter(|arg| !is_given(arg)).filter_map(Arg::get_long);
        let runs = ["run", CHECK].contains(&command) && arguments.iter().any(|it| it == "--");
        Self {
            file,
            is_configured: command == CHECK || COMMANDS.contains(&command),
            is_for_others: runs || ["audit", "demo"].contains(&command),
            open: open.map(ToOwned::to_owned).collect(),
        }
    }

    /// The arguments with the options of a file that the command has and that are not given.
    #[must_use]
    pub fn with(&self, arguments: &[OsString], configuration: &Configuration) -> Vec<OsString> {
        let end = arguments.iter().position(|it| it == OsStr::new("--"));
        let (own, rest) = arguments.split_at(end.unwrap_or(arguments.len()));
        let mut all = own.to_vec();
        all.extend(self.options(configuration).into_iter().map(OsString::from));
        all.extend_from_slice(rest);
        all
    }

    /// What a newer file changes for this command, by line.
    #[must_use]
    pub fn changes(&self, before: &Configuration, after: &Configuration) -> Vec<Change> {
        let given = |it: &Configuration, option: &str| {
            it.given().iter().find(|given| given.option == option).cloned()
        };
        let level = (LOG_LEVEL.0.to_owned(), LOG_LEVEL.1);
        let own = keys().map(|key| (key.path(), key.option)).chain([level]);
        let changed = own.filter(|(_, option)| {
            self.is_open(option) && given(before, option) != given(after, option)
        });
        let options = changed.map(|(key, option)| Change {
            line: after.line_of(&key),
            key,
            option: Some(option),
        });
        let mut changes: Vec<_> = options.chain(Change::of_variables(before, after)).collect();
        changes.sort_by(|a, b| (a.line, &a.key).cmp(&(b.line, &b.key)));
        changes.dedup_by(|a, b| a.key == b.key);
        changes
    }

    fn is_open(&self, option: &str) -> bool {
        self.open.iter().any(|it| it == option)
    }

    /// The options of a file for this command.
    #[must_use]
    pub fn options(&self, configuration: &Configuration) -> Vec<String> {
        let used = configuration.given().iter().filter(|it| self.is_open(it.option));
        used.flat_map(|it| it.values.iter().map(|value| assignment(it.option, value.as_deref())))
            .collect()
    }
}

/// Why the options of a file do not go together, for each command that refuses them.
pub(crate) fn conflicts(options: &Options, configuration: &Configuration) -> Vec<String> {
    let mut conflicts = Vec::new();
    // An option may lack another one whose value is wrong.
    if configuration.findings().iter().any(|finding| finding.key.starts_with(SECTION)) {
        return conflicts;
    }
    for command in [&["run", "--", "command"][..], &["agent"], &["gateway"]] {
        let arguments: Vec<_> = command.iter().map(OsString::from).collect();
        let whole = CommandLine::of(options, &arguments).with(&arguments, configuration);
        let program = std::iter::once(OsString::from("phasemeter"));
        let refused = options.cli().clone().try_get_matches_from(program.chain(whole)).err();
        conflicts.extend(refused.map(|error| summary(&error)));
    }
    conflicts.dedup();
    conflicts
}

/// An error of the command line in one line.
#[must_use]
pub fn summary(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
