//! The configuration file: OpenTelemetry's declarative configuration, with a section of Phasemeter's own.
//!
//! A file is translated into variables of OpenTelemetry and options of the command line. So a value is checked, and
//! takes effect, in one place, however it was given.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod arguments;
mod change;
mod command_line;
mod configuration;
mod error;
mod exporter;
mod finding;
mod format;
mod keys;
mod node;
mod options;
mod print;
mod process_file;
mod reader;
mod reference;
mod resource;
mod sampler;
mod schema;
mod schema_check;
mod signals;
mod substitution;
mod variables;
mod yaml;

pub use change::Change;
pub use command_line::{CommandLine, file_of_environment, summary};
pub use configuration::{Configuration, FileError, Strictness};
pub use error::ConfigurationError;
pub use finding::{Finding, Problem};
pub use format::Format;
pub use process_file::{ConfigurationFile, Configured, Reread, parse};
