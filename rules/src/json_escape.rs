//! JSON in which text of others is safe to print: a parser gets it unchanged, and a terminal nothing
//! invisible.

use std::io::{self, Write};

use serde_json::ser::Formatter;

use phasemeter_terminal::escape::is_visible;

/// A layout of JSON that escapes what [`clean`](phasemeter_terminal::escape::clean) replaces.
#[derive(Clone, Debug, Default)]
pub struct Escaped<F>(pub F);

impl<F: Formatter> Formatter for Escaped<F> {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, invisible)) = rest.char_indices().find(|(_, c)| !is_visible(*c)) {
            let (visible, from) = rest.split_at(at);
            out.write_all(visible.as_bytes())?;
            for unit in invisible.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            rest = &from[invisible.len_utf8()..];
        }
        out.write_all(rest.as_bytes())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(out, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_array_value(out)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.0.end_object_value(out)
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;
    use serde_json::ser::{CompactFormatter, Serializer};

    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        let text = "é\n\u{202e}\u{7f}\"x\u{e0041}";
        let mut out = Vec::new();
        let mut to = Serializer::with_formatter(&mut out, Escaped(CompactFormatter));
        text.serialize(&mut to).unwrap();
        assert_eq!(str::from_utf8(&out).unwrap(), r#""é\n\u202e\u007f\"x\udb40\udc41""#);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}
