//! `phasemeter config`: checks and prints a file, and prints its schema. Also how a run does without a file that is meant for its
//! command.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;
use phasemeter_cli::{Cli, Command, ConfigCommand, FileArgs, RunArgs};
use phasemeter_config::{
    Configuration, ConfigurationError, ConfigurationFile, Format, Strictness, file_of_environment,
};
use tracing::warn;

use super::bill::print;
use super::error::CommandError;

/// Runs a subcommand. `global` is the file of `--config`.
pub(super) fn run(
    command: &ConfigCommand,
    global: Option<PathBuf>,
) -> Result<ExitCode, CommandError> {
    let format = Format::of(Cli::command());
    match command {
        ConfigCommand::Check(args) => {
            let (path, configuration) = valid(&format, args, global)?;
            let mut text = format!("{}: valid\n", path.display());
            for (line, key) in configuration.without_effect() {
                text += &format!("{}:{line}: {key}: has no effect here\n", path.display());
            }
            print(text.as_bytes())?;
        }
        ConfigCommand::Print(args) => {
            let (_, configuration) = valid(&format, args, global)?;
            print(configuration.print().as_bytes())?;
        }
        ConfigCommand::Schema => {
            let text = serde_json::to_string_pretty(format.schema()).unwrap_or_default();
            print((text + "\n").as_bytes())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The named file, if nothing is wrong with it.
fn valid(
    format: &Format,
    args: &FileArgs,
    global: Option<PathBuf>,
) -> Result<(PathBuf, Configuration), CommandError> {
    let environment = |name: &str| std::env::var(name).ok();
    let named = args.file.clone().or(global).or_else(|| file_of_environment(environment));
    let path = named.ok_or(ConfigurationError::Unnamed)?;
    let configuration = format
        .read(&path, Strictness::Own, &environment)
        .map_err(ConfigurationError::Unreadable)?;
    let mut problems = ConfigurationError::problems(&path, configuration.findings());
    problems.extend(ConfigurationError::conflicts(&path, &format.conflicts(&configuration)));
    if !problems.is_empty() {
        return Err(ConfigurationError::Invalid(problems).into());
    }
    Ok((path, configuration))
}

/// The options of a run without a configuration file that may be meant for its command, if one was the reason of this
/// error.
pub(super) fn without_file_of_command(error: CommandError) -> Result<RunArgs, CommandError> {
    let file = ConfigurationFile::of_process();
    let cli = file.and_then(ConfigurationFile::command_line_without::<Cli>);
    match (file, cli) {
        (Some(file), Some(Cli { strict: false, command: Command::Run(args), .. })) => {
            let reason = error.in_one_line();
            warn!("{}: its options are ignored, for the command: {reason}", file.path().display());
            Ok(*args)
        }
        _ => Err(error),
    }
}
