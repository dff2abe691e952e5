//! What is said of the work while it is done: lines on standard error, for people or for programs.
//!
//! The message of an event says all of it to people; its fields say the same to programs, and only
//! JSON shows them. Of what others say beside our own crates, warnings and errors are shown. The
//! report is no log, and does not come through here.

use std::fmt::{self, Debug};
use std::io::{self, Write};

use clap::ValueEnum;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, layer};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, registry};

use crate::cli::{LogArgs, LogFormat, LogLevel};
use crate::report::text::clean;

/// How lines are written, where the command line does not say.
const FORMAT: &str = "PHASEMETER_LOG_FORMAT";

/// The least that is said, where the command line does not say.
const LEVEL: &str = "PHASEMETER_LOG_LEVEL";

/// Begins to write what is said to standard error. `lookup` gives the value of a variable; an empty
/// one is as good as none, and one that cannot be used is ignored with a warning.
pub fn start(args: LogArgs, lookup: impl Fn(&str) -> Option<String>) {
    let mut wrong = Vec::new();
    let format = args.log_format.or_else(|| read(FORMAT, &lookup, &mut wrong));
    let level = args.log_level.or_else(|| read(LEVEL, &lookup, &mut wrong));
    let layer = match format.unwrap_or_default() {
        LogFormat::Text => layer()
            .event_format(Text)
            .with_writer(|| Clean(io::stderr()))
            .log_internal_errors(false)
            .boxed(),
        LogFormat::Json => layer()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_writer(|| Clean(io::stderr()))
            .log_internal_errors(false)
            .boxed(),
    };
    let level = filter(level.unwrap_or_default());
    let shown = Targets::new()
        .with_default(level.min(LevelFilter::WARN))
        .with_target(env!("CARGO_PKG_NAME"), level);
    // Only a test could have begun before.
    let _ = registry().with(layer).with(shown).try_init();
    for warning in wrong {
        warn!("{warning}");
    }
}

/// What a variable says; where that cannot be used, why.
fn read<T: ValueEnum>(
    name: &str,
    lookup: impl Fn(&str) -> Option<String>,
    wrong: &mut Vec<String>,
) -> Option<T> {
    let text = lookup(name).filter(|text| !text.is_empty())?;
    let value = T::from_str(&text, true).ok();
    if value.is_none() {
        let known = T::value_variants().iter().filter_map(T::to_possible_value);
        let known: Vec<_> = known.map(|value| value.get_name().to_owned()).collect();
        wrong.push(format!("{name} is ignored: {text:?} is none of {}", known.join(", ")));
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

/// `phasemeter: message`. What is for whoever looks for a fault names its level too.
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

/// Writes lines, each whole and at once. Text from outside is in them: it must not move a cursor.
struct Clean<W>(W);

impl<W: Write> Write for Clean<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let mut cleaned = clean(text.trim_end_matches('\n'));
        cleaned.push('\n');
        self.0.write_all(cleaned.as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_stays_a_line_and_moves_no_cursor() {
        let mut out = Vec::new();
        Clean(&mut out).write_all("phasemeter: \u{1b}[2Ja\nb\u{202e}c\n".as_bytes()).unwrap();
        let cleaned = "phasemeter: \u{fffd}[2Ja\u{fffd}b\u{fffd}c\n";
        assert_eq!(String::from_utf8(out).unwrap(), cleaned);
    }

    #[test]
    fn a_variable_says_it_or_is_ignored_with_a_warning() {
        let mut wrong = Vec::new();
        let mut level = |text: &str| {
            let read = read::<LogLevel>(LEVEL, |_| Some(text.to_owned()), &mut wrong);
            (read, std::mem::take(&mut wrong))
        };
        assert_eq!(level("Debug"), (Some(LogLevel::Debug), vec![]));
        assert_eq!(level(""), (None, vec![]));
        let warning =
            "PHASEMETER_LOG_LEVEL is ignored: \"loud\" is none of error, warn, info, debug, trace";
        assert_eq!(level("loud"), (None, vec![warning.to_owned()]));
    }
}
