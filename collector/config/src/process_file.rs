//! The command line with the options of the configuration file that it has not, and the file when it changes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use clap::{Error, Parser};
use phasemeter_files::FileStamp;

use crate::change::Change;
use crate::command_line::{CommandLine, file_of_environment, summary};
use crate::configuration::{Configuration, Strictness};
use crate::error::ConfigurationError;
use crate::finding::Finding;
use crate::format::Format;

/// A command line, and what is to be logged of its file.
pub struct Configured<C> {
    /// The command line.
    pub cli: C,
    /// What the file has that is wrong or has no effect, if the command runs anyway.
    pub warnings: Vec<String>,
    /// Why the command must not run.
    pub error: Option<ConfigurationError>,
}

/// The file of this process, as it is in force.
#[derive(Clone, Debug)]
pub struct ConfigurationFile {
    arguments: Vec<OsString>,
    path: PathBuf,
    /// As it was before it was read first.
    stamp: FileStamp,
    configuration: Configuration,
    warnings: Vec<String>,
    /// Whether it may be meant for others: see [`CommandLine::is_for_others`].
    is_for_others: bool,
}

/// A file that was read again, and can be used.
pub struct Reread<C> {
    /// The command line with it.
    pub cli: C,
    /// What has changed.
    pub changes: Vec<Change>,
    /// As of [`Configured`].
    pub warnings: Vec<String>,
    configuration: Configuration,
}

/// A command line with its file.
struct Resolved<C> {
    configured: Configured<C>,
    /// The file, if there is one.
    file: Option<Used>,
}

/// A file that is used.
struct Used {
    path: PathBuf,
    is_for_others: bool,
    stamp: FileStamp,
    line: CommandLine,
    configuration: Configuration,
}

static FILE: OnceLock<ConfigurationFile> = OnceLock::new();

/// Parses arguments, of which the first is the program, as a command line that may require that nothing is wrong. From
/// then on its file is that of this process.
///
/// # Errors
/// If they are invalid, or ask for help.
pub fn parse<C: Parser>(
    arguments: &[OsString],
    is_strict: fn(&C) -> bool,
) -> Result<Configured<C>, Error> {
    let Resolved { configured, file } = resolve(arguments, is_strict)?;
    if let Some(Used { path, is_for_others, stamp, configuration, .. }) =
        file.filter(|_| configured.error.is_none())
    {
        let arguments = arguments.to_vec();
        // It is parsed once.
        let _ = FILE.set(ConfigurationFile {
            arguments,
            path,
            stamp,
            configuration,
            warnings: configured.warnings.clone(),
            is_for_others,
        });
    }
    Ok(configured)
}

impl ConfigurationFile {
    /// The file of this process as it was at the start, if it has one.
    pub fn of_process() -> Option<&'static Self> {
        FILE.get()
    }

    /// The value that it gives a variable of OpenTelemetry.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.configuration.variable(name)
    }

    /// What it sets.
    #[must_use]
    pub const fn configuration(&self) -> &Configuration {
        &self.configuration
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was wrong in it at the start, or had no effect.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// What shows a change since the start.
    #[must_use]
    pub const fn stamp(&self) -> FileStamp {
        self.stamp
    }

    /// The command line without what the file adds, if the file may be meant for others.
    #[must_use]
    pub fn command_line_without<C: Parser>(&self) -> Option<C> {
        C::try_parse_from(&self.arguments).ok().filter(|_| self.is_for_others)
    }

    /// Reads it again.
    ///
    /// # Errors
    /// Returns all reasons if it cannot be used.
    pub fn read<C: Parser>(&self, is_strict: fn(&C) -> bool) -> Result<Reread<C>, String> {
        let Resolved { configured, file } =
            resolve(&self.arguments, is_strict).map_err(|error| summary(&error))?;
        if let Some(error) = configured.error {
            return Err(error.lines().join("; "));
        }
        let usable = file.filter(|it| it.configuration.is_usable());
        let Some(Used { line, configuration, .. }) = usable else {
            return Err(configured.warnings.join("; "));
        };
        let Configured { cli, warnings, .. } = configured;
        let changes = line.changes(&self.configuration, &configuration);
        Ok(Reread { cli, changes, warnings, configuration })
    }

    /// Takes it as what is in force, to which later ones are compared.
    pub fn accept<C>(&mut self, read: Reread<C>) {
        self.configuration = read.configuration;
    }
}

fn resolve<C: Parser>(
    arguments: &[OsString],
    is_strict: fn(&C) -> bool,
) -> Result<Resolved<C>, Error> {
    let plain = || C::try_parse_from(arguments);
    let own = arguments.get(1..).unwrap_or_default();
    let environment = |name: &str| std::env::var(name).ok();
    let without_file = |warnings, error| {
        let configured = Configured { cli: plain()?, warnings, error };
        Ok(Resolved { configured, file: None })
    };
    let is_named = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"--config");
    if !own.iter().any(is_named) && file_of_environment(environment).is_none() {
        return without_file(Vec::new(), None);
    }
    let format = Format::of(C::command());
    let line = format.command_line(own);
    let file = line.file.clone().or_else(|| file_of_environment(environment));
    let Some(path) = file.filter(|_| line.is_configured) else {
        return without_file(Vec::new(), None);
    };
    let is_for_others = line.file.is_none() && line.is_for_others;
    let strictness = if is_for_others { Strictness::OfACommand } else { Strictness::Own };
    let stamp = FileStamp::of(&path);
    let configuration = match format.read(&path, strictness, &environment) {
        Ok(configuration) => configuration,
        Err(error) if is_for_others => {
            let cli = plain()?;
            let text = format!(
                "OTEL_CONFIG_FILE: {error}; OpenTelemetry's other variables have no effect"
            );
            let error = is_strict(&cli).then_some(ConfigurationError::Unreadable(error));
            let configured = Configured { cli, warnings: vec![text], error };
            let configuration = Configuration::default();
            let file = Some(Used { path, is_for_others, stamp, line, configuration });
            return Ok(Resolved { configured, file });
        }
        Err(error) => {
            return without_file(Vec::new(), Some(ConfigurationError::Unreadable(error)));
        }
    };
    let findings = configuration.findings().to_vec();
    let invalid = || Some(ConfigurationError::invalid(&path, &findings));
    if !findings.is_empty() && !is_for_others {
        return without_file(Vec::new(), invalid());
    }
    let mut warnings = warnings(&path, &findings, &configuration);
    let whole = line.with(own, &configuration);
    let program = arguments.first().cloned().unwrap_or_default();
    let cli = match C::try_parse_from(std::iter::once(program).chain(whole)) {
        Ok(cli) => cli,
        Err(error) => match plain() {
            Err(_) => return Err(error),
            Ok(cli) => {
                let reason = summary(&error);
                if !is_for_others {
                    let error = ConfigurationError::Options(path, reason);
                    let configured = Configured { cli, warnings, error: Some(error) };
                    return Ok(Resolved { configured, file: None });
                }
                warnings.push(format!("{}: {reason}; its options are ignored", path.display()));
                cli
            }
        },
    };
    let error = if is_strict(&cli) && !findings.is_empty() { invalid() } else { None };
    let configured = Configured { cli, warnings, error };
    let file = Some(Used { path, is_for_others, stamp, line, configuration });
    Ok(Resolved { configured, file })
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
