//! What a file may contain, as the command line defines it.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use serde_json::Value;

use crate::command_line::CommandLine;
use crate::configuration::{Configuration, FileError, Strictness};
use crate::options::Options;
use crate::{command_line, reference, schema};

/// What a file may contain.
pub struct Format {
    options: Options,
    schema: Value,
}

impl Format {
    /// The format with the options of this command line.
    #[must_use]
    pub fn of(cli: Command) -> Self {
        let options = Options::new(cli);
        let schema = schema::build(&options);
        Self { options, schema }
    }

    /// Reads a file. `lookup` returns the value of a variable of the environment.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read. What is wrong in it is in [`Configuration::findings`].
    pub fn read(
        &self,
        path: &Path,
        strictness: Strictness,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Configuration, FileError> {
        Configuration::read((&self.options, &self.schema), path, strictness, lookup)
    }

    /// The configuration of a text. Values that are wrong set nothing; of a text that is not a document of a version
    /// that is read, nothing is used.
    #[must_use]
    pub fn parse(
        &self,
        text: &str,
        strictness: Strictness,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Configuration {
        Configuration::parse((&self.options, &self.schema), text, strictness, lookup)
    }

    /// What can be read of a command line, without its program.
    #[must_use]
    pub fn command_line(&self, arguments: &[OsString]) -> CommandLine {
        CommandLine::of(&self.options, arguments)
    }

    /// Why the options of a file do not go together, for each command that refuses them.
    #[must_use]
    pub fn conflicts(&self, configuration: &Configuration) -> Vec<String> {
        command_line::conflicts(&self.options, configuration)
    }

    /// The schema, in JSON Schema's draft 2020-12.
    #[must_use]
    pub const fn schema(&self) -> &Value {
        &self.schema
    }

    /// The reference page, in Markdown.
    #[must_use]
    pub fn page(&self) -> String {
        reference::page(&self.options)
    }
}
