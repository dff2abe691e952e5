//! Lines that a workload writes to the socket.
//!
//! ```text
//! work samples 512
//! step
//! epoch
//! checkpoint
//! begin NAME [TRACEPARENT]
//! tag KEY=VALUE
//! end
//! ```

use std::str::FromStr;

use phasemeter_meter::work_unit::WorkUnit;

/// Maximum length of a line in bytes, without its end.
pub const MAX_LINE: usize = 1_024;

/// What a line reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Work was done.
    Work {
        /// Its unit.
        unit: WorkUnit,
        /// How much.
        count: u64,
    },
    /// The work so far is saved.
    Checkpoint,
    /// An experiment begins; the one before ends.
    Begin {
        /// Its ID.
        id: String,
        /// The W3C trace context that it belongs to.
        traceparent: Option<String>,
    },
    /// An attribute of the experiment.
    Tag {
        /// Its name.
        key: String,
        /// Its value.
        value: String,
    },
    /// The experiment ends.
    End,
}

/// Why a line is rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// It is longer than [`MAX_LINE`].
    #[error("line of more than {MAX_LINE} bytes")]
    TooLong,
    /// It has no known form.
    #[error(
        "expected `work UNIT COUNT`, `step`, `epoch`, `checkpoint`, `begin NAME [TRACEPARENT]`, \
         `tag KEY=VALUE` or `end`"
    )]
    Form,
    /// Its unit is unknown.
    #[error("unknown unit; expected samples, requests, tokens, epochs or steps")]
    Unit,
    /// Its count is not a whole number.
    #[error("invalid count; expected a whole number of 0 or more")]
    Count,
    /// It has control characters.
    #[error("control characters")]
    Control,
}

impl FromStr for Message {
    type Err = MessageError;

    fn from_str(line: &str) -> Result<Self, MessageError> {
        if line.len() > MAX_LINE {
            return Err(MessageError::TooLong);
        }
        if line.chars().any(char::is_control) {
            return Err(MessageError::Control);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["work", unit, count] => Ok(Self::Work {
                unit: WorkUnit::from_name(unit).ok_or(MessageError::Unit)?,
                count: count.parse().map_err(|_| MessageError::Count)?,
            }),
            ["step"] => Ok(Self::Work { unit: WorkUnit::Steps, count: 1 }),
            ["epoch"] => Ok(Self::Work { unit: WorkUnit::Epochs, count: 1 }),
            ["checkpoint"] => Ok(Self::Checkpoint),
            ["begin", id] => Ok(Self::Begin { id: id.to_owned(), traceparent: None }),
            ["begin", id, parent] => {
                Ok(Self::Begin { id: id.to_owned(), traceparent: Some(parent.to_owned()) })
            }
            ["tag", ..] => {
                let pair = line.trim().strip_prefix("tag").unwrap_or_default().trim();
                let (key, value) = pair.split_once('=').ok_or(MessageError::Form)?;
                let (key, value) = (key.trim(), value.trim());
                let is_key = !key.is_empty() && !key.contains(char::is_whitespace);
                let tag = Self::Tag { key: key.to_owned(), value: value.to_owned() };
                if is_key { Ok(tag) } else { Err(MessageError::Form) }
            }
            ["end"] => Ok(Self::End),
            _ => Err(MessageError::Form),
        }
    }
}

/// Assembles lines from the bytes of a connection, in at most [`MAX_LINE`] bytes of memory.
#[derive(Clone, Debug, Default)]
pub struct LineBuffer {
    line: Vec<u8>,
    is_too_long: bool,
}

impl LineBuffer {
    /// Adds bytes, and emits the messages of complete lines. Empty lines are ignored.
    pub fn push(&mut self, bytes: &[u8], emit: &mut impl FnMut(Result<Message, MessageError>)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|&byte| byte == b'\n') {
            self.extend(&rest[..end]);
            rest = &rest[end + 1..];
            self.finish(emit);
        }
        self.extend(rest);
    }

    /// Ends the input. A last line without an end is complete.
    pub fn finish(&mut self, emit: &mut impl FnMut(Result<Message, MessageError>)) {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            return emit(Err(MessageError::TooLong));
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim_end_matches('\r');
        if !text.trim().is_empty() {
            emit(text.parse());
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.line.len() + bytes.len() > MAX_LINE + 1 {
            self.is_too_long = true;
            self.line.clear();
        } else if !self.is_too_long {
            self.line.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn messages(parts: &[&[u8]]) -> Vec<Result<Message, MessageError>> {
        let (mut buffer, mut found) = (LineBuffer::default(), Vec::new());
        for part in parts {
            buffer.push(part, &mut |message| found.push(message));
        }
        buffer.finish(&mut |message| found.push(message));
        found
    }

    #[test]
    fn lines_are_parsed() {
        let text = b"work samples 512\nstep\r\n\nepoch\ncheckpoint\nbegin a 00-1\ntag k=v w\nend";
        let found: Vec<_> = messages(&[text]).into_iter().map(Result::unwrap).collect();
        let work = |unit, count| Message::Work { unit, count };
        let tag = Message::Tag { key: "k".to_owned(), value: "v w".to_owned() };
        let begin = Message::Begin { id: "a".to_owned(), traceparent: Some("00-1".to_owned()) };
        assert_eq!(
            found,
            [
                work(WorkUnit::Samples, 512),
                work(WorkUnit::Steps, 1),
                work(WorkUnit::Epochs, 1),
                Message::Checkpoint,
                begin,
                tag,
                Message::End,
            ]
        );
    }

    #[test]
    fn malformed_lines_are_rejected_alone() {
        for (line, expected) in [
            ("work cats 1", MessageError::Unit),
            ("work samples -1", MessageError::Count),
            ("work samples", MessageError::Form),
            ("tag =v", MessageError::Form),
            ("tag a b=v", MessageError::Form),
            ("begin", MessageError::Form),
            ("step\u{1b}[2J", MessageError::Control),
            (&"x".repeat(MAX_LINE + 1), MessageError::TooLong),
        ] {
            let text = format!("{line}\nstep\n");
            let found = messages(&[text.as_bytes()]);
            assert_eq!(found.len(), 2, "{line}");
            assert_eq!(found[0], Err(expected), "{line}");
            assert!(found[1].is_ok());
        }
    }

    proptest! {
        #[test]
        fn cuts_between_reads_change_nothing(
            pieces in prop::collection::vec(prop_oneof![
                9 => prop::sample::select(vec!["\n", "\r\n", " ", "work", "step", "tag a=", "samples", "12"])
                    .prop_map(|piece| piece.as_bytes().to_vec()),
                1 => prop::collection::vec(any::<u8>(), 0..=MAX_LINE),
            ], 0..60),
            cuts in prop::collection::vec(0..3_000_usize, 0..6),
        ) {
            let text = pieces.concat();
            let whole = messages(&[&text]);
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let parts: Vec<_> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(messages(&parts), whole);
        }
    }
}
