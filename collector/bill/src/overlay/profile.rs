//! What must be known of a profile before anything is laid over it: its clock, its time, where its events begin, and
//! which IDs of processes and threads it leaves free.

use std::cell::Cell;
use std::fmt;
use std::io::{self, BufReader, Read};

use phasemeter_meter::units::{Nanos, Timestamp};
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::error::OverlayError;

/// The key of the events.
const EVENTS: &str = "traceEvents";

/// The key of the instant that times of events count from; without it, they count from 1970.
const BASE: &str = "baseTimeNanoseconds";

/// Events that name processes and threads; their times mean nothing.
const METADATA: &str = "M";

/// IDs above are those of no process and no thread.
const MAX_ID: u64 = i32::MAX as u64;

/// A profile in the Chrome trace format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// What its times count from, in nanoseconds since 1970.
    pub(super) base: u64,
    /// From the start of its first event to the end of its last.
    pub(super) span: (Timestamp, Timestamp),
    /// Number of bytes before its events: up to their bracket, and with it.
    pub(super) events_at: u64,
    /// From here on, it has no process and no thread of that ID.
    pub(super) free_id: u64,
}

impl Profile {
    /// Reads the text of a profile.
    ///
    /// # Errors
    /// Returns an error if it cannot be read, or is not the text of a profile with events.
    pub fn read(file: &str, input: impl Read) -> Result<Self, OverlayError> {
        let at = Cell::new(0);
        let mut json = serde_json::Deserializer::from_reader(Counted {
            input: BufReader::new(input),
            at: &at,
        });
        let wrong = |problem: String| OverlayError::NotAProfile { file: file.to_owned(), problem };
        let found =
            json.deserialize_map(ProfileVisitor(&at)).and_then(|found| json.end().map(|()| found));
        let found = found.map_err(|error| {
            if error.is_io() {
                return OverlayError::unreadable(file)(error.into());
            }
            wrong(error.to_string())
        })?;
        let events = found.events.ok_or_else(|| wrong(format!("has no {EVENTS}")))?;
        let (from, to) = events.span.ok_or_else(|| wrong("has no event with a time".to_owned()))?;
        let base = found.base.unwrap_or(0);
        let instant = |relative: i128| {
            let nanos = u64::try_from(i128::from(base) + relative).ok();
            nanos.and_then(Timestamp::from_nanos)
        };
        let span = instant(from).zip(instant(to));
        let span =
            span.ok_or_else(|| wrong("has an event that is not of 1970 to 2261".to_owned()))?;
        Ok(Self { base, span, events_at: events.at, free_id: events.free_id })
    }

    /// Its length.
    #[must_use]
    pub const fn length(&self) -> Nanos {
        self.span.1.since(self.span.0)
    }
}

/// Counts the bytes read. The deserializer reads none ahead.
struct Counted<'a, R> {
    input: R,
    at: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.at.set(self.at.get() + length as u64);
        Ok(length)
    }
}

#[derive(Default)]
struct Found {
    base: Option<u64>,
    events: Option<Events>,
}

/// What the events of a profile have in common.
struct Events {
    at: u64,
    /// In nanoseconds of the profile's clock.
    span: Option<(i128, i128)>,
    free_id: u64,
}

struct ProfileVisitor<'a>(&'a Cell<u64>);

impl<'de> Visitor<'de> for ProfileVisitor<'_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {EVENTS}")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        let mut found = Found::default();
        while let Some(key) = map.next_key::<String>()? {
            let is_repeated = match key.as_str() {
                EVENTS => {
                    found.events.replace(map.next_value_seed(EventsVisitor(self.0))?).is_some()
                }
                BASE => found.base.replace(map.next_value()?).is_some(),
                _ => map.next_value::<IgnoredAny>().map(|_| false)?,
            };
            if is_repeated {
                return Err(A::Error::custom(format!("{key} is repeated")));
            }
        }
        Ok(found)
    }
}

struct EventsVisitor<'a>(&'a Cell<u64>);

impl<'de> DeserializeSeed<'de> for EventsVisitor<'_> {
    type Value = Events;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Events, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for EventsVisitor<'_> {
    type Value = Events;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Events, A::Error> {
        let mut events = Events { at: self.0.get(), span: None, free_id: 0 };
        while let Some(event) = seq.next_element::<Event>()? {
            for id in [&event.pid, &event.tid].into_iter().filter_map(Value::as_u64) {
                if id <= MAX_ID {
                    events.free_id = events.free_id.max(id + 1);
                }
            }
            let Some(from) = nanos(&event.ts).filter(|_| event.ph != METADATA) else { continue };
            let to = from + nanos(&event.dur).unwrap_or(0).max(0);
            let (first, last) = events.span.unwrap_or((from, to));
            events.span = Some((first.min(from), last.max(to)));
        }
        Ok(events)
    }
}

/// What matters of an event. A value of another type than usual counts as none.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Event {
    ph: Value,
    ts: Value,
    dur: Value,
    pid: Value,
    tid: Value,
}

/// A number of microseconds in nanoseconds. Exact for three decimals while the number is below 2^43, which is 101 days:
/// profilers count from an instant that is nearer.
#[expect(clippy::cast_possible_truncation, reason = "bounded, and rounded on purpose")]
fn nanos(micros: &Value) -> Option<i128> {
    if let Some(whole) = micros.as_i64() {
        return Some(i128::from(whole) * 1_000);
    }
    let nanos = (micros.as_f64()? * 1_000.0).round();
    (nanos.abs() < 1e19).then_some(nanos as i128)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Profile, String> {
        Profile::read("t.json", text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn clock_time_and_free_ids_are_found_wherever_the_keys_stand() {
        let events = r#""traceEvents":[
            {"ph":"M","name":"process_name","pid":41,"ts":1},
            {"ph":"X","pid":7,"tid":"main","ts":2000000000.125,"dur":1.5},
            {"ph":"i","pid":"Spans","ts":1999999999,"args":{"ts":5,"pid":900}},
            {"ph":"X","tid":4294967295,"ts":2000000000}
        ]"#;
        let base = r#""baseTimeNanoseconds": 1700000000000000000"#;
        let other = r#""other":{"traceEvents":[1],"a":"]}\"["}"#;
        for text in [
            format!("{{{base},{other},{events}}}"),
            format!(" {{ {events} , {base},\n{other} }} \n"),
        ] {
            let profile = read(&text).unwrap();
            let base = 1_700_000_000_000_000_000;
            let span = [1_999_999_999_000, 2_000_000_001_625];
            assert_eq!(profile.base, base);
            assert_eq!(
                [profile.span.0, profile.span.1].map(Timestamp::as_nanos),
                span.map(|at| base + at)
            );
            assert_eq!(profile.free_id, 42);
            let (before, after) = text.split_at(usize::try_from(profile.events_at).unwrap());
            assert!(before.ends_with(r#""traceEvents":["#) && after.starts_with("\n"), "{before}");
        }
    }

    #[test]
    fn times_without_a_base_count_from_1970() {
        let profile = read(r#"{"traceEvents":[{"ts":1700000000123456,"dur":0.5}]}"#).unwrap();
        let [from, to] = [profile.span.0, profile.span.1].map(Timestamp::as_nanos);
        assert_eq!((from, to), (1_700_000_000_123_456_000, 1_700_000_000_123_456_500));
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for (text, problem) in [
            ("", "EOF"),
            ("[]", "expected an object with traceEvents"),
            ("timestamp, index\n", "expected"),
            ("{}", "has no traceEvents"),
            (r#"{"traceEvents":{}}"#, "expected an array of events"),
            (r#"{"traceEvents":[]}"#, "has no event with a time"),
            (r#"{"traceEvents":[{"ph":"M","ts":1}]}"#, "has no event with a time"),
            (r#"{"traceEvents":[{"ts":"1"}]}"#, "has no event with a time"),
            (r#"{"traceEvents":[{"ts":-1}]}"#, "not of 1970 to 2261"),
            (r#"{"traceEvents":[{"ts":1e300}]}"#, "has no event with a time"),
            (r#"{"traceEvents":[{"ts":1}],"traceEvents":[]}"#, "is repeated"),
            (r#"{"traceEvents":[{"ts":1}]"#, "EOF"),
            (r#"{"traceEvents":[{"ts":1}]}x"#, "trailing"),
            (r#"{"baseTimeNanoseconds":-1,"traceEvents":[{"ts":1}]}"#, "expected u64"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(problem) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
