//! JSON in which text of others is safe to print: a parser gets it unchanged, and a terminal nothing
//! invisible.

use std::io::{self, Write};

use crate::escape::is_visible;

/// A destination of JSON in which what [`clean`](crate::escape::clean) replaces is escaped. It must be
/// written whole characters, as `serde_json` does. Line breaks are of the layout: those of texts are escaped already.
#[derive(Clone, Debug, Default)]
pub struct Escaped<W>(pub W);

impl<W: Write> Write for Escaped<W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        let mut rest = str::from_utf8(json).map_err(io::Error::other)?;
        let is_escaped = |c: char| c != '\n' && !is_visible(c);
        while let Some((at, invisible)) = rest.char_indices().find(|(_, c)| is_escaped(*c)) {
            let (visible, from) = rest.split_at(at);
            self.0.write_all(visible.as_bytes())?;
            for unit in invisible.encode_utf16(&mut [0; 2]) {
                write!(self.0, "\\u{unit:04x}")?;
            }
            rest = &from[invisible.len_utf8()..];
        }
        self.0.write_all(rest.as_bytes())?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_escaped() {
        let text = "é\n\u{202e}\u{7f}\"x\u{e0041}";
        let mut out = Vec::new();
        serde_json::to_writer(Escaped(&mut out), text).unwrap();
        assert_eq!(str::from_utf8(&out).unwrap(), r#""é\n\u202e\u007f\"x\udb40\udc41""#);
        assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
    }
}
