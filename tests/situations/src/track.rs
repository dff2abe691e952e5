//! The workload language: a list of stages that repeats until the log ends.
//!
//! ```text
//! 45..57%                                     always
//! 22s 86..98%, 18s 0..2%                      a cycle
//! 2h 0%, 3h (22s 86..98%, 18s 0..2%), rest 0% a cycle for three hours, idle before and after
//! 20..40m 97..100%, 3m 0%                     the first stage takes 20 to 40 minutes, each time anew
//! 6h 40->79 GiB                               rising
//! ```

use serde::Deserialize;

use crate::level::{Level, Value, thousandths};
use crate::prng::Prng;

/// Milliseconds.
pub(crate) type Millis = u64;

/// Units of time, in milliseconds. Longer names first.
const UNITS: [(&str, Millis); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// How a value changes over time.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Track(Vec<Stage>);

#[derive(Clone, Debug)]
struct Stage {
    /// Minimum and maximum duration; `None` if it lasts to the end.
    duration: Option<(Millis, Millis)>,
    content: Content,
}

#[derive(Clone, Debug)]
enum Content {
    Level(Level),
    /// Repeated until the stage ends.
    Repeated(Vec<Stage>),
}

/// The text does not follow the workload language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid stage `{0}`: expected a duration and a value, such as `20m 95%`")]
pub(crate) struct ParseTrackError(String);

impl TryFrom<String> for Track {
    type Error = ParseTrackError;

    fn try_from(text: String) -> Result<Self, ParseTrackError> {
        // A single value without a duration.
        if let Some(level) = Level::parse(&text) {
            return Ok(Self(vec![Stage { duration: None, content: Content::Level(level) }]));
        }
        match stages(&text)? {
            (stages, "") => Ok(Self(stages)),
            (_, rest) => Err(ParseTrackError(rest.to_owned())),
        }
    }
}

/// Parses stages up to the end or a closing parenthesis; returns the rest.
fn stages(text: &str) -> Result<(Vec<Stage>, &str), ParseTrackError> {
    let mut stages = Vec::new();
    let mut text = text;
    loop {
        let (stage, rest) = stage(text.trim_start())?;
        stages.push(stage);
        match rest.trim_start().strip_prefix(',') {
            Some(next) => text = next,
            None => return Ok((stages, rest.trim_start())),
        }
    }
}

fn stage(text: &str) -> Result<(Stage, &str), ParseTrackError> {
    let error = || ParseTrackError(text.to_owned());
    let (duration, content) = match text.strip_prefix("rest ") {
        Some(rest) => (None, rest),
        None => duration(text).map(|(range, rest)| (Some(range), rest)).ok_or_else(error)?,
    };
    if let Some(repeated) = content.trim_start().strip_prefix('(') {
        let (repeated, rest) = stages(repeated)?;
        let rest = rest.strip_prefix(')').ok_or_else(error)?;
        return Ok((Stage { duration, content: Content::Repeated(repeated) }, rest));
    }
    let end = content.find([',', ')']).unwrap_or(content.len());
    let (level, rest) = content.split_at(end);
    let level = Some(level.trim()).filter(|level| !level.is_empty()).and_then(Level::parse);
    Ok((Stage { duration, content: Content::Level(level.ok_or_else(error)?) }, rest))
}

/// Parses `20m` or `20..40m` and the space after it; returns the rest.
fn duration(text: &str) -> Option<((Millis, Millis), &str)> {
    let (word, rest) = text.split_once(' ')?;
    let (numbers, unit) = word.split_at(word.find(|at: char| at.is_ascii_alphabetic())?);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit)?;
    let (low, high) = numbers.split_once("..").unwrap_or((numbers, numbers));
    let millis = |number: &str| Some(thousandths(number)? * unit / 1_000);
    let (low, high) = (millis(low)?, millis(high)?);
    (0 < low && low <= high).then_some(((low, high), rest))
}

/// Parses a duration such as `6h`.
pub(crate) fn length(text: &str) -> Option<Millis> {
    let text = format!("{text} ");
    duration(&text).filter(|((low, high), _)| low == high).map(|((length, _), _)| length)
}

/// A track over the time of a log.
#[derive(Clone, Debug)]
pub(crate) struct Timeline<'a>(Vec<Span<'a>>);

#[derive(Clone, Copy, Debug)]
struct Span<'a> {
    start: Millis,
    end: Millis,
    level: &'a Level,
}

impl Track {
    /// The stages of a log of this length. Equal schedules draw equal durations.
    pub(crate) fn timeline(&self, length: Millis, mut schedule: Prng) -> Timeline<'_> {
        let mut spans = Vec::new();
        repeat(&self.0, 0, length, &mut schedule, &mut spans);
        Timeline(spans)
    }
}

fn repeat<'a>(
    stages: &'a [Stage],
    mut start: Millis,
    end: Millis,
    schedule: &mut Prng,
    spans: &mut Vec<Span<'a>>,
) {
    while start < end {
        for stage in stages {
            let duration = stage.duration.map(|(low, high)| schedule.within(low, high));
            let stage_end = duration.map_or(end, |duration| end.min(start + duration));
            match &stage.content {
                Content::Repeated(stages) => repeat(stages, start, stage_end, schedule, spans),
                Content::Level(_) if start == stage_end => {}
                Content::Level(level) => spans.push(Span { start, end: stage_end, level }),
            }
            start = stage_end;
        }
    }
}

impl<'a> Timeline<'a> {
    /// The value at an instant; after the end, the last one.
    pub(crate) fn at(&self, instant: Millis) -> Value<'a> {
        let next = self.0.partition_point(|span| span.start <= instant);
        let Some(span) = self.0.get(next.saturating_sub(1)) else { return Value::Word("") };
        span.level.at(instant.min(span.end) - span.start, span.end - span.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(text: &str) -> Result<Track, ParseTrackError> {
        Track::try_from(text.to_owned())
    }

    /// The low ends of the values at these seconds.
    fn lows(text: &str, seconds: &[u64]) -> Vec<u64> {
        let track = track(text).unwrap();
        let timeline = track.timeline(100_000, Prng::of("test", 0));
        let low = |second: &u64| match timeline.at(second * 1_000) {
            Value::Number(range, _) => range.low / 1_000,
            Value::Word(_) => 999,
        };
        seconds.iter().map(low).collect()
    }

    #[test]
    fn stages_repeat_until_the_end() {
        assert_eq!(lows("7%", &[0, 50, 99]), [7, 7, 7]);
        assert_eq!(lows("10s 1%, 10s 2%", &[0, 9, 10, 19, 20, 95]), [1, 1, 2, 2, 1, 2]);
        assert_eq!(lows("10s 1%, rest 2%", &[9, 10, 99]), [1, 2, 2]);
        let nested = "20s 0%, 40s (6s 1%, 4s 2%), rest [N/A]";
        assert_eq!(lows(nested, &[0, 20, 26, 30, 59, 60, 99]), [0, 1, 2, 1, 2, 999, 999]);
    }

    #[test]
    fn random_durations_are_equal_for_equal_schedules() {
        let seconds: Vec<_> = (0..100).collect();
        let load = lows("3..9s 1%, 2..4s 0%", &seconds);
        assert_eq!(load, lows("3..9s 1 GiB, 2..4s 0 GiB", &seconds));
        let stages = load.chunk_by(|a, b| a == b).map(<[_]>::len).collect::<Vec<_>>();
        assert!(stages.iter().all(|length| (2..=9).contains(length)), "{stages:?}");
        assert!(stages.iter().any(|length| *length != stages[0]), "{stages:?}");
    }

    #[test]
    fn invalid_tracks_are_rejected() {
        for text in ["10s 1%, 2%", "10s (1s 2%", "10s 1%)", "10s ", "0s 1%", "10s 1%,", "5..2s 1%"]
        {
            assert!(track(text).is_err(), "{text} was accepted");
        }
        assert_eq!([length("6h"), length("200ms")], [Some(21_600_000), Some(200)]);
        assert_eq!([length("6"), length("6 h"), length("1..2h"), length("rest")], [None; 4]);
    }
}
