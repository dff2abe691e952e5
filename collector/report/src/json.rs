//! The report as JSON, as specified by `report.schema.json`.

use std::io::{self, Write};

use phasemeter_terminal::json_escape::Escaped;
use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, Formatter, PrettyFormatter};

use super::model::Report;

/// Writes the report as indented JSON, followed by a newline.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    report.serialize(&mut Serializer::with_formatter(Escaped(&mut out), Layout::default()))?;
    writeln!(out)
}

/// An indented layout in which an array of numbers is one line: a timeline has up to 600.
#[derive(Default)]
struct Layout {
    lines: PrettyFormatter<'static>,
    /// Whether an array has begun whose first value is not known yet.
    opened: bool,
    /// Whether the innermost array is one of numbers.
    in_numbers: bool,
}

impl Layout {
    /// Before a value that is not a number.
    fn begin_other<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if std::mem::take(&mut self.opened) {
            self.lines.begin_array_value(out, true)?;
        }
        Ok(())
    }

    /// Before a number, or null.
    fn begin_number(&mut self) {
        self.in_numbers |= std::mem::take(&mut self.opened);
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other(out)?;
        self.lines.begin_array(out)
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        (self.opened, self.in_numbers) = (false, false);
        self.lines.end_array(out)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        match (first, self.in_numbers) {
            (true, _) => self.opened = true,
            (false, true) => out.write_all(b", ")?,
            (false, false) => self.lines.begin_array_value(out, false)?,
        }
        Ok(())
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        if self.in_numbers { Ok(()) } else { self.lines.end_array_value(out) }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other(out)?;
        self.lines.begin_object(out)
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lines.end_object(out)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        self.lines.begin_object_key(out, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lines.begin_object_value(out)
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.lines.end_object_value(out)
    }

    fn begin_string<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_other(out)?;
        self.lines.begin_string(out)
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        self.lines.write_char_escape(out, escape)
    }

    fn write_bool<W: ?Sized + Write>(&mut self, out: &mut W, value: bool) -> io::Result<()> {
        self.begin_other(out)?;
        self.lines.write_bool(out, value)
    }

    fn write_null<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.begin_number();
        self.lines.write_null(out)
    }

    fn write_f64<W: ?Sized + Write>(&mut self, out: &mut W, value: f64) -> io::Result<()> {
        self.begin_number();
        self.lines.write_f64(out, value)
    }

    fn write_u64<W: ?Sized + Write>(&mut self, out: &mut W, value: u64) -> io::Result<()> {
        self.begin_number();
        self.lines.write_u64(out, value)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(value: &serde_json::Value) -> String {
        let mut out = Vec::new();
        value.serialize(&mut Serializer::with_formatter(&mut out, Layout::default())).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Everything else is as `serde_json` lays it out.
    #[test]
    fn only_numbers_share_a_line() {
        let value = json!({"a": [], "b": [[], {"c": ["x", true, null]}, {}], "d": ["y"], "e": {}});
        assert_eq!(text(&value), serde_json::to_string_pretty(&value).unwrap());
        let value = json!({"u": [[1.5, null, 3], [null], "x"], "v": 1});
        let expected =
            "{\n  \"u\": [\n    [1.5, null, 3],\n    [null],\n    \"x\"\n  ],\n  \"v\": 1\n}";
        assert_eq!(text(&value), expected);
    }
}
