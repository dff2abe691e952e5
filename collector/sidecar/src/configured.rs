//! The command line with the options of the configuration file that it has not.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, Error, Parser};
use phasemeter_cli::Cli;
use phasemeter_config::{Configuration, Finding, Format, Strictness, file_of_environment};

use crate::command::ConfigurationError;
use crate::variables::{self, UsedFile};

/// A command line, and what is to be logged of its file.
pub struct Configured {
    /// The command line.
    pub cli: Cli,
    /// What the file has that is wrong or has no effect, if the command runs anyway.
    pub warnings: Vec<String>,
    /// Why the command must not run.
    pub error: Option<ConfigurationError>,
}

/// Parses arguments; the first is the program.
///
/// # Errors
/// If they are invalid, or ask for help.
pub fn parse(arguments: &[OsString]) -> Result<Configured, Error> {
    let plain = || Cli::try_parse_from(arguments);
    let own = arguments.get(1..).unwrap_or_default();
    let environment = |name: &str| std::env::var(name).ok();
    let is_named = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"--config");
    if !own.iter().any(is_named) && file_of_environment(environment).is_none() {
        return Ok(Configured { cli: plain()?, warnings: Vec::new(), error: None });
    }
    let format = Format::of(Cli::command());
    let line = format.command_line(own);
    let file = line.file.clone().or_else(|| file_of_environment(environment));
    let Some(path) = file.filter(|_| line.is_configured) else {
        return Ok(Configured { cli: plain()?, warnings: Vec::new(), error: None });
    };
    let is_for_others = line.file.is_none() && line.is_for_others;
    let strictness = if is_for_others { Strictness::OfACommand } else { Strictness::Own };
    let configuration = match format.read(&path, strictness, &environment) {
        Ok(configuration) => configuration,
        Err(error) if is_for_others => {
            let cli = plain()?;
            let text = format!(
                "OTEL_CONFIG_FILE: {error}; OpenTelemetry's other variables have no effect"
            );
            let warnings = vec![text];
            let configuration = Configuration::default();
            variables::replace(UsedFile { path, configuration, warnings: warnings.clone() });
            let error = cli.strict.then_some(ConfigurationError::Unreadable(error));
            return Ok(Configured { cli, warnings, error });
        }
        Err(error) => {
            let error = Some(ConfigurationError::Unreadable(error));
            return Ok(Configured { cli: plain()?, warnings: Vec::new(), error });
        }
    };
    let findings = configuration.findings().to_vec();
    let invalid = || Some(ConfigurationError::invalid(&path, &findings));
    if !findings.is_empty() && !is_for_others {
        return Ok(Configured { cli: plain()?, warnings: Vec::new(), error: invalid() });
    }
    let mut warnings = warnings(&path, &findings, &configuration);
    let whole = line.with(own, &configuration);
    let program = arguments.first().cloned().unwrap_or_default();
    let cli = match Cli::try_parse_from(std::iter::once(program).chain(whole)) {
        Ok(cli) => cli,
        Err(error) => match plain() {
            Err(_) => return Err(error),
            Ok(cli) => {
                let reason = phasemeter_config::summary(&error);
                if !is_for_others {
                    let error = ConfigurationError::Options(path, reason);
                    return Ok(Configured { cli, warnings, error: Some(error) });
                }
                warnings.push(format!("{}: {reason}; its options are ignored", path.display()));
                cli
            }
        },
    };
    let error = if cli.strict && !findings.is_empty() { invalid() } else { None };
    variables::replace(UsedFile { path, configuration, warnings: warnings.clone() });
    Ok(Configured { cli, warnings, error })
}

/// What is wrong, one line each, and in one line what has no effect.
fn warnings(path: &Path, findings: &[Finding], configuration: &Configuration) -> Vec<String> {
    let path = path.display();
    let wrong = findings.iter().map(|finding| format!("{path}:{finding}; it is ignored"));
    let without_effect = configuration.without_effect();
    let keys = without_effect.iter().map(|(line, key)| format!("{key} (line {line})"));
    let keys: Vec<_> = keys.collect();
    let line = format!("{path}: has no effect here: {}", keys.join(", "));
    wrong.chain((!keys.is_empty()).then_some(line)).collect()
}
