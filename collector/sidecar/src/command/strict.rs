//! `--strict`: invalid variables are errors, before anything starts.
//!
//! Without it each is a warning where it is read, and its default is used, as OpenTelemetry's
//! specification requires.

use phasemeter_environment::variables::Environment;
#[cfg(feature = "full")]
use phasemeter_otlp::delivery::{Config, Destination};

use super::error::CommandError;
use crate::log;
use phasemeter_cli::Cli;
#[cfg(feature = "full")]
use phasemeter_cli::Command;

/// Checks all variables, also those that the command does not use. `lookup` returns the value of one.
///
/// # Errors
/// Returns every invalid variable at once.
pub(super) fn check(
    cli: &Cli,
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<(), CommandError> {
    let mut invalid = log::invalid(cli.log, &lookup);
    let ignored = Environment::read(&lookup).warnings;
    invalid.extend(ignored.iter().filter(|it| it.is_invalid()).map(ToString::to_string));
    #[cfg(feature = "full")]
    {
        let (_, errors) = Config::read_usable(destination(&cli.command), &lookup);
        invalid.extend(errors.as_slice().iter().map(ToString::to_string));
    }
    if invalid.is_empty() { Ok(()) } else { Err(CommandError::Environment(invalid)) }
}

/// The place that the command sends to; the default if nowhere, so that all variables are read.
#[cfg(feature = "full")]
fn destination(command: &Command) -> Destination<'_> {
    let otlp = match command {
        Command::Audit(args) => args.send.otlp.as_ref(),
        Command::Demo(args) => args.send.otlp.as_ref(),
        _ => None,
    };
    match otlp {
        Some(Some(endpoint)) => Destination::Endpoint(endpoint),
        _ => Destination::Default,
    }
}

#[cfg(test)]
#[cfg(feature = "full")]
mod tests {
    use clap::Parser;

    use super::*;

    /// The errors of a command line with these variables.
    fn errors(line: &str, variables: &[(&str, &str)]) -> String {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let checked = check(&cli, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        });
        checked.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn every_invalid_variable_is_an_error_whatever_the_command() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_METRICS_COMPRESSION", "brotli"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "1m"),
            ("OTEL_RESOURCE_ATTRIBUTES", "team"),
            ("OTEL_TRACES_EXPORTER", "otlp,zipkin"),
            ("OTEL_LOG_LEVEL", "loud"),
            ("TRACEPARENT", "00-0AF7"),
        ];
        let lines =
            ["run", "run -- train", "gateway --listen 127.0.0.1:4317", "audit a.csv", "demo"];
        for line in
            lines.into_iter().chain(["audit --otlp=http://collector:4318 a.csv", "prices list"])
        {
            let text = errors(&format!("phasemeter --strict {line}"), &variables);
            let named = variables.iter().filter(|(variable, _)| text.contains(variable));
            assert_eq!((named.count(), text.lines().count()), (7, 7), "{line}: {text}");
            assert!(!text.contains("ignored"), "{text}");
        }
    }

    #[test]
    fn valid_and_unsupported_variables_are_not_errors() {
        let variables = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ];
        assert_eq!(errors("phasemeter run --strict -- train", &variables), "");
        assert_eq!(errors("phasemeter demo --strict", &[]), "");
    }
}
