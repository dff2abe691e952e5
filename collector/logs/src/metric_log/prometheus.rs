//! Samples in the text formats of Prometheus and OpenMetrics.

use std::borrow::Cow;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;

use super::error::LineError;
use super::sample::Sample;

/// Maximum number of labels of a sample. dcgm-exporter adds those of a pod, of which there may be many.
pub(super) const MAX_LABELS: usize = 256;

/// A timestamp from here on is in milliseconds, as Prometheus has it; below it is in seconds, as
/// OpenMetrics has it. Neither is near in this century.
const FIRST_MILLIS: f64 = 1e11;

/// The label with the name of a metric, in a dump of Prometheus.
const NAME: &str = "__name__";

/// What a line is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line<'a> {
    /// Blank, or a comment without meaning here.
    Nothing,
    /// The time of the page that follows.
    Page(Timestamp),
    /// A sample.
    Sample(Sample<'a>),
}

/// Reads a line.
pub(super) fn line(text: &str) -> Result<Line<'_>, LineError> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(Line::Nothing);
    }
    let Some(comment) = text.strip_prefix('#') else { return sample(text).map(Line::Sample) };
    let time = comment.trim().parse().map(|Instant(at)| Line::Page(at));
    Ok(time.unwrap_or(Line::Nothing))
}

/// Reads a sample: `NAME{LABEL="VALUE",…} NUMBER [TIMESTAMP] [# EXEMPLAR]`, or `{"NAME",LABEL="VALUE",…}` with a
/// name of any characters. Names of labels may be quoted, too.
pub(super) fn sample(text: &str) -> Result<Sample<'_>, LineError> {
    let name_length = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
    let (name, rest) = text.split_at(name_length);
    let rest = rest.trim_start();
    let (mut labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (Vec::new(), rest),
    };
    let metric = match labels.iter().position(|(key, _)| key == NAME) {
        Some(index) if name.is_empty() => labels.remove(index).1,
        _ => Cow::Borrowed(name),
    };
    if metric.is_empty() {
        return Err(LineError::Sample);
    }
    let mut words = rest.split_whitespace();
    let number = words.next().and_then(number).ok_or(LineError::Sample)?;
    let at = match words.next() {
        None | Some("#") => None,
        Some(word) => Some(timestamp(word).ok_or(LineError::Time)?),
    };
    let has_more = at.is_some() && words.next().is_some_and(|word| word != "#");
    if has_more {
        Err(LineError::Sample)
    } else {
        Ok(Sample::undeclared(metric, labels, at, number))
    }
}

const fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

type Labels<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

/// Reads labels up to the closing brace, and returns what follows it.
fn labels(mut rest: &str) -> Result<(Labels<'_>, &str), LineError> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([' ', ',']);
        if let Some(after) = rest.strip_prefix('}') {
            return Ok((labels, after));
        }
        if labels.len() == MAX_LABELS {
            return Err(LineError::TooManyLabels(MAX_LABELS));
        }
        let (key, after) = match rest.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or(LineError::Sample)?,
            None => {
                let end = rest.find('=').ok_or(LineError::Sample)?;
                let (key, after) = rest.split_at(end);
                (Cow::Borrowed(key.trim_end()), after)
            }
        };
        let after = after.trim_start();
        if let Some(after) = after.strip_prefix('=') {
            let quoted = after.trim_start().strip_prefix('"').ok_or(LineError::Sample)?;
            let (value, after) = unquote(quoted).ok_or(LineError::Sample)?;
            labels.push((key, value));
            rest = after;
        } else if after.starts_with([',', '}']) {
            // A name that is not a word is quoted and precedes the labels.
            labels.push((Cow::Borrowed(NAME), key));
            rest = after;
        } else {
            return Err(LineError::Sample);
        }
    }
}

/// Text up to the closing quote, with escapes resolved, and what follows.
fn unquote(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let end = text.find(['"', '\\'])?;
    let (plain, rest) = text.split_at_checked(end)?;
    if let Some(after) = rest.strip_prefix('"') {
        return Some((Cow::Borrowed(plain), after));
    }
    let mut value = plain.to_owned();
    let mut chars = rest.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Some((Cow::Owned(value), rest.get(index + 1..)?)),
            '\\' => value.push(match chars.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            c => value.push(c),
        }
    }
    None
}

/// A number as Prometheus writes it.
pub(super) fn number(word: &str) -> Option<f64> {
    match word {
        "+Inf" => Some(f64::INFINITY),
        "-Inf" => Some(f64::NEG_INFINITY),
        _ => word.parse().ok(),
    }
}

/// Milliseconds, or seconds with decimals.
fn timestamp(word: &str) -> Option<Timestamp> {
    let number: f64 = word.parse().ok()?;
    if !number.is_finite() || number < 0.0 {
        return None;
    }
    let places = if number >= FIRST_MILLIS { 6 } else { 9 };
    let (whole, decimals) = word.split_once('.').unwrap_or((word, ""));
    let decimals = decimals.get(..places).unwrap_or(decimals);
    // Without a detour over a double, which has no nanoseconds.
    let nanos = format!("{whole}{decimals:0<places$}").parse().ok()?;
    Timestamp::from_nanos(nanos)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(nanos: u64) -> Option<Timestamp> {
        Timestamp::from_nanos(nanos)
    }

    #[test]
    fn sample_has_name_labels_number_and_time() {
        let text = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",modelName=\"NVIDIA \\\"L4\\\"\", UUID=\"GPU-a\",} 37 \
                    1785110400250";
        let sample = sample(text).unwrap();
        assert_eq!((&*sample.metric, sample.number), ("DCGM_FI_DEV_GPU_UTIL", 37.0));
        assert_eq!(sample.label("modelName"), Some("NVIDIA \"L4\""));
        assert_eq!(sample.label("UUID"), Some("GPU-a"));
        assert_eq!(sample.at, at(1_785_110_400_250_000_000));
    }

    #[test]
    fn times_of_dumps_and_pages_are_read() {
        let time = |text| sample(text).unwrap().at;
        assert_eq!(time("up 1"), None);
        assert_eq!(time("up 1 # {trace_id=\"a\"} 0.5"), None);
        assert_eq!(time("up 1 1785110400.5"), at(1_785_110_400_500_000_000));
        let dump = sample("{__name__=\"up\", job=\"a\"} +Inf 1785110400000").unwrap();
        assert_eq!((&*dump.metric, dump.label("job")), ("up", Some("a")));
        let quoted = "{\"hw.gpu.utilization\",\"hw.id\"=\"GPU-a\", job=\"a=b\"} 0.8 1785110400000";
        let quoted = sample(quoted).unwrap();
        assert_eq!((&*quoted.metric, quoted.number), ("hw.gpu.utilization", 0.8));
        assert_eq!((quoted.label("hw.id"), quoted.label("job")), (Some("GPU-a"), Some("a=b")));
        let alone = sample("{ \"my.\\\"metric\" } 1").unwrap();
        assert_eq!((&*alone.metric, alone.labels.len()), ("my.\"metric", 0));
        assert_eq!(
            line("# 2026-07-27T00:00:00Z"),
            Ok(Line::Page(at(1_785_110_400_000_000_000).unwrap()))
        );
        assert_eq!(line("# TYPE up gauge"), Ok(Line::Nothing));
        assert_eq!(line("  "), Ok(Line::Nothing));
    }

    #[test]
    fn malformed_lines_are_rejected() {
        for (text, expected) in [
            ("up", LineError::Sample),
            ("up one", LineError::Sample),
            ("up 1 soon", LineError::Time),
            ("up 1 -5", LineError::Time),
            ("up 1 5 6", LineError::Sample),
            ("up{a=\"b} 1", LineError::Sample),
            ("up{a=b} 1", LineError::Sample),
            ("up{a=\"b\\", LineError::Sample),
            ("{a=\"b\"} 1", LineError::Sample),
            ("{\"a\" \"b\"} 1", LineError::Sample),
            ("{\"a\"", LineError::Sample),
            ("{\"\"} 1", LineError::Sample),
        ] {
            assert_eq!(sample(text), Err(expected), "{text}");
        }
        let many = format!("up{{{}}} 1", "a=\"b\",".repeat(MAX_LABELS + 1));
        assert_eq!(sample(&many), Err(LineError::TooManyLabels(MAX_LABELS)));
    }

    proptest! {
        /// A sample reads back as it was written.
        #[test]
        fn sample_survives_a_round_trip(
            metric in "[a-zA-Z_:][a-zA-Z0-9_:]{0,10}",
            labels in prop::collection::vec(("[a-z][a-z0-9_]{0,5}", "\\PC{0,12}"), 0..5),
            number in any::<f64>(),
            millis in 100_000_000_000_u64..9_000_000_000_000,
        ) {
            let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"");
            let list = labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value)));
            let list = list.collect::<Vec<_>>().join(",");
            let text = format!("{metric}{{{list}}} {number} {millis}");
            let sample = sample(&text).unwrap();
            prop_assert_eq!(&*sample.metric, metric);
            prop_assert!(sample.number.to_bits() == number.to_bits() || number.is_nan());
            prop_assert_eq!(sample.at, Timestamp::from_millis(millis));
            let found: Vec<_> =
                sample.labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            prop_assert_eq!(found, labels);
        }

        /// Any text is a line or an error.
        #[test]
        fn text_is_line_or_error(text in "\\PC{0,80}") {
            let _ = line(&text);
        }
    }
}
