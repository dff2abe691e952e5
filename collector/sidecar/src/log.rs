//! The log: lines on standard error, as text or JSON, of panics too.
//!
//! The message of an event is complete on its own; its fields repeat the values and are only written as
//! JSON. Of other crates, warnings and errors are logged. The report is not part of the log.

use std::fmt::{self, Debug};
use std::io::{self, Write};
use std::panic::set_hook;
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum;
use phasemeter_otlp::excerpt;
use phasemeter_terminal::escape::clean;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber, error, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry, reload};

use crate::log_limit::LogLimit;
use crate::standard_error;
use phasemeter_cli::{LogArgs, LogFormat, LogLevel};

/// How long a thread that panics waits for the reader of the log.
const PANIC_FLUSH: Duration = Duration::from_secs(1);

/// The log format if there is no option.
const FORMAT: &str = "PHASEMETER_LOG_FORMAT";

/// The minimum level if there is no option.
const LEVEL: &str = "PHASEMETER_LOG_LEVEL";

/// The minimum level if there is neither: OpenTelemetry's.
const OTEL_LEVEL: &str = "OTEL_LOG_LEVEL";

/// What limits lines of one kind.
static LIMIT: LogLimit = LogLimit::new();

/// Changes the minimum level.
static CHANGE_LEVEL: OnceLock<Box<dyn Fn(LogLevel) + Send + Sync>> = OnceLock::new();

/// Logs how many lines were suppressed, at the end.
pub fn finish() {
    LIMIT.finish();
}

/// Starts logging to standard error. `lookup` returns the value of a variable; an empty value counts
/// as unset, and an invalid one is ignored with a warning.
pub fn start(args: LogArgs, lookup: impl Fn(&str) -> Option<String>) {
    let (format, level, warnings) = settings(args, lookup);
    let layer = layer().with_writer(|| Lines).log_internal_errors(false);
    let layer = match format {
        LogFormat::Text => layer.event_format(Text).boxed(),
        LogFormat::Json => {
            let json = layer.json().flatten_event(true);
            json.with_current_span(false).with_span_list(false).boxed()
        }
    };
    let (targets, handle) = reload::Layer::new(targets(level));
    // Fails only if a test has started logging before.
    let _ = registry().with(layer).with(&LIMIT).with(targets).try_init();
    // Fails only if logging has ended.
    let _ = CHANGE_LEVEL.set(Box::new(move |level| _ = handle.reload(self::targets(level))));
    set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or_default();
        error!("internal error at {place}: {message}");
        // The process may end now.
        let _ = standard_error::flush(PANIC_FLUSH, || false);
    }));
    for warning in warnings {
        warn!("{warning}; the default is used");
    }
}

/// Logs from the level on that these options have now.
#[cfg(feature = "full")]
pub(crate) fn change_level(args: LogArgs, lookup: impl Fn(&str) -> Option<String>) {
    if let Some(change) = CHANGE_LEVEL.get() {
        change(settings(args, lookup).1);
    }
}

fn targets(level: LogLevel) -> Targets {
    let level = filter(level);
    Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(env!("CARGO_PKG_NAME"), level)
}

/// The invalid variables, each with the reason.
pub(crate) fn invalid(args: LogArgs, lookup: impl Fn(&str) -> Option<String>) -> Vec<String> {
    settings(args, lookup).2
}

/// The format, the minimum level, and the invalid variables, each with the reason.
fn settings(
    args: LogArgs,
    lookup: impl Fn(&str) -> Option<String>,
) -> (LogFormat, LogLevel, Vec<String>) {
    let mut warnings = Vec::new();
    let format = args.log_format.or_else(|| read(FORMAT, &lookup, &mut warnings));
    let level = args
        .log_level
        .or_else(|| read(LEVEL, &lookup, &mut warnings))
        .or_else(|| read(OTEL_LEVEL, &lookup, &mut warnings));
    (format.unwrap_or_default(), level.unwrap_or_default(), warnings)
}

/// Parses a variable; if it is invalid, adds the reason.
fn read<T: ValueEnum>(
    name: &str,
    lookup: impl Fn(&str) -> Option<String>,
    warnings: &mut Vec<String>,
) -> Option<T> {
    let text = lookup(name).filter(|text| !text.is_empty())?;
    let value = T::from_str(&text, true).ok();
    if value.is_none() {
        let known = T::value_variants().iter().filter_map(T::to_possible_value);
        let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        warnings.push(format!(
            "{name}: invalid value {:?}: expected {}",
            excerpt(&text),
            known.join(", ")
        ));
    }
    value
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// `phasemeter: message`; debug and trace lines include the level.
struct Text;

impl<S, N> FormatEvent<S, N> for Text
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        let Message(message) = message;
        match *event.metadata().level() {
            Level::ERROR | Level::WARN | Level::INFO => writeln!(line, "phasemeter: {message}"),
            level => writeln!(line, "phasemeter: {}: {message}", level.as_str().to_lowercase()),
        }
    }
}

/// The message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Standard error: each line at once, without control characters, since lines contain untrusted text.
struct Lines;

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        standard_error::write_line(cleaned(line).as_bytes());
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn cleaned(line: &[u8]) -> String {
    clean(String::from_utf8_lossy(line).trim_end_matches('\n')) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        let line = "phasemeter: \u{1b}[2Ja\nb\u{202e}c\n".as_bytes();
        assert_eq!(cleaned(line), "phasemeter: \u{fffd}[2Ja\u{fffd}b\u{fffd}c\n");
    }

    #[test]
    fn level_is_that_of_the_option_else_ours_else_opentelemetrys() {
        let option = |log_level| LogArgs { log_level, log_format: None };
        let variables = |ours: &'static str, otel: &'static str| {
            move |name: &str| {
                let value = match name {
                    LEVEL => ours,
                    OTEL_LEVEL => otel,
                    _ => return None,
                };
                Some(value.to_owned())
            }
        };
        let (given, none) = (option(Some(LogLevel::Trace)), option(None));
        let level = |option, ours, otel| {
            let (_, level, invalid) = settings(option, variables(ours, otel));
            (level, invalid)
        };
        assert_eq!(level(given, "warn", "error"), (LogLevel::Trace, vec![]));
        assert_eq!(level(none, "warn", "error"), (LogLevel::Warn, vec![]));
        assert_eq!(level(none, "", "ERROR"), (LogLevel::Error, vec![]));
        let (level, invalid) = level(none, "", "verbose");
        assert_eq!((level, invalid.len()), (LogLevel::Info, 1));
        assert!(invalid[0].starts_with("OTEL_LOG_LEVEL: invalid value"), "{invalid:?}");
    }

    #[test]
    fn invalid_variable_is_ignored_with_a_warning() {
        let mut warnings = Vec::new();
        let mut level = |text: &str| {
            let read = read::<LogLevel>(LEVEL, |_| Some(text.to_owned()), &mut warnings);
            (read, std::mem::take(&mut warnings))
        };
        assert_eq!(level("Debug"), (Some(LogLevel::Debug), vec![]));
        assert_eq!(level(""), (None, vec![]));
        let warning = "PHASEMETER_LOG_LEVEL: invalid value \"loud\": expected error, warn, info, debug, trace";
        assert_eq!(level("loud"), (None, vec![warning.to_owned()]));
    }

    /// Every variable of the specification is read, by the meter, by delivery or for the log, or
    /// reported as ignored, once; and the documentation lists it as the one or the other.
    #[cfg(feature = "full")]
    #[test]
    fn every_variable_of_the_specification_is_read_or_reported() {
        use std::cell::RefCell;
        use std::collections::BTreeSet;

        use phasemeter_environment::variables::{Environment, Ignored, UNSUPPORTED};
        use phasemeter_otlp::Signal;
        use phasemeter_otlp::delivery::{Config, Destination};

        let list = include_str!("../../../tests/fixtures/otel-variables.txt");
        let lines = list.lines().filter(|line| !line.starts_with('#'));
        let all: Vec<_> = lines.filter_map(|line| line.split_once('=')).collect();
        let looked_up = RefCell::new(BTreeSet::new());
        let lookup = |name: &str| {
            looked_up.borrow_mut().insert(name.to_owned());
            let found = all.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let warnings = Environment::read(lookup).warnings;
        // A variable of one signal precedes the general one, which is then not read. The certificates
        // do not exist.
        let is_general = |name: &str| {
            Signal::ALL.iter().all(|it| !name.contains(&format!("_{}_", it.in_variable())))
        };
        let general = |name: &str| lookup(name).filter(|_| is_general(name));
        let _ = Config::read(Destination::Environment, lookup);
        let _ = Config::read(Destination::Environment, general);
        settings(LogArgs::default(), lookup);
        assert!(phasemeter_config::file_of_environment(lookup).is_some());
        let looked_up = looked_up.into_inner();
        let unread: Vec<_> = all.iter().filter(|(name, _)| !looked_up.contains(*name)).collect();
        assert!(unread.is_empty(), "{unread:?}");
        let unsupported = |warning: &Ignored| match warning {
            Ignored::Unsupported(name) => *name,
            other => panic!("{other}"),
        };
        let reported: Vec<_> = warnings.iter().map(unsupported).collect();
        assert_eq!(reported, UNSUPPORTED);

        let documentation = include_str!("../../../docs/otlp.md");
        let (supported, rest) = documentation.split_once("The other variables of").unwrap();
        let (ignored, _) = rest.split_once("\n## ").unwrap();
        for (name, _) in all {
            let per_signal = Signal::ALL.map(|signal| format!("_{}_", signal.in_variable()));
            let general = per_signal.iter().fold(name.to_owned(), |name, part| {
                if name.starts_with("OTEL_EXPORTER_OTLP") { name.replace(part, "_") } else { name }
            });
            let is_in = |text: &str| {
                text.contains(&format!("`{name}`")) || text.contains(&format!("`{general}`"))
            };
            assert_eq!(
                (is_in(supported), is_in(ignored)),
                {
                    let is_ignored = UNSUPPORTED.contains(&name);
                    (!is_ignored, is_ignored)
                },
                "{name}"
            );
        }
    }
}
