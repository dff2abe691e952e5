//! JSON documents in a stream of lines: one on each line, or one over several lines, as `jq` writes it.
//!
//! A document that is cut off costs only itself: the next one is recognized by its beginning.

/// The beginning of a JSON object whose first key is on a later line.
const BRACE: &str = "{";

/// Joins the lines of a document.
#[derive(Clone, Debug)]
pub(super) struct Documents {
    /// The most bytes of a document.
    limit: usize,
    /// A document of which lines are missing, and the number of its first one.
    text: String,
    first_line: u64,
    /// How many brackets and braces of it are open.
    depth: usize,
    /// Whether a line of it is indented.
    is_indented: bool,
    /// Whether it exceeds the limit, so that its lines are not kept.
    is_too_long: bool,
}

/// What a line completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Completed<'a> {
    /// The first line of a document that was cut off, or is too long.
    pub(super) cut_off: Option<u64>,
    /// A document.
    pub(super) document: Option<&'a str>,
}

impl Documents {
    pub(super) const fn new(limit: usize) -> Self {
        Self {
            limit,
            text: String::new(),
            first_line: 0,
            depth: 0,
            is_indented: false,
            is_too_long: false,
        }
    }

    /// Adds a line with its number.
    pub(super) fn add<'a>(&'a mut self, line: &'a str, number: u64) -> Completed<'a> {
        if self.depth == 0 {
            self.clear();
        }
        let mut cut_off = None;
        if self.depth > 0 && self.begins_another(line) {
            cut_off = (!self.is_too_long).then_some(self.first_line);
            self.clear();
        }
        let is_first = self.depth == 0;
        self.depth = depth_after(self.depth, line);
        if is_first && self.depth == 0 {
            return Completed { cut_off, document: Some(line) };
        }
        if is_first {
            self.first_line = number;
        } else {
            self.is_indented |= line.starts_with([' ', '\t']);
        }
        if !is_first && !self.is_too_long && self.text.len() + line.len() > self.limit {
            // Its first line is kept, by which the next document is recognized.
            self.text.truncate(self.text.find('\n').unwrap_or_default());
            self.is_too_long = true;
            cut_off = Some(self.first_line);
        }
        if !self.is_too_long {
            self.text.push_str(line);
            self.text.push('\n');
        }
        let is_whole = self.depth == 0 && !self.is_too_long;
        Completed { cut_off, document: is_whole.then_some(&*self.text) }
    }

    /// The first line of a document that is cut off at the end of the stream.
    pub(super) fn finish(&mut self) -> Option<u64> {
        let is_cut_off = self.depth > 0 && !self.is_too_long;
        self.clear();
        is_cut_off.then_some(self.first_line)
    }

    fn clear(&mut self) {
        self.text.clear();
        self.depth = 0;
        self.is_indented = false;
        self.is_too_long = false;
    }

    /// Whether a line begins as the document that is not complete did: then it is of another one. A brace
    /// alone does so only if all braces within a document are indented.
    fn begins_another(&self, line: &str) -> bool {
        let first = self.text.lines().next().unwrap_or_default();
        match first_key(first) {
            Some(key) => line.starts_with(BRACE) && first_key(line) == Some(key),
            None => self.is_indented && line.trim_end() == BRACE && first.trim_end() == BRACE,
        }
    }
}

/// The first key of a JSON object with which this text begins.
pub(super) fn first_key(text: &str) -> Option<&str> {
    let inside = text.trim_start().strip_prefix(BRACE)?.trim_start().strip_prefix('"')?;
    let (key, rest) = inside.split_once('"')?;
    rest.trim_start().starts_with(':').then_some(key)
}

/// How many brackets and braces are open after a line. Text in quotes ends with its line.
fn depth_after(depth: usize, line: &str) -> usize {
    let (mut depth, mut is_quoted, mut is_escaped) = (depth, false, false);
    for byte in line.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' | b'[' if !is_quoted => depth += 1,
            b'}' | b']' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    depth
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The documents of a text, without line ends, and the first lines of those cut off.
    fn documents(text: &str, limit: usize) -> (Vec<String>, Vec<u64>) {
        let mut documents = Documents::new(limit);
        let (mut found, mut cut_off) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let completed = documents.add(line, number);
            found.extend(completed.document.map(|text| text.replace(['\n', ' '], "")));
            cut_off.extend(completed.cut_off);
        }
        cut_off.extend(documents.finish());
        (found, cut_off)
    }

    #[test]
    fn documents_are_read_from_one_line_and_from_several() {
        let text = "{\"a\":[1]}\n{\n  \"a\": [\n    {\"b\": \"}\\\"[\"}\n  ]\n}\n{\"a\":2}\n{\n\"a\":\n3}\n";
        let expected = ["{\"a\":[1]}", "{\"a\":[{\"b\":\"}\\\"[\"}]}", "{\"a\":2}", "{\"a\":3}"];
        assert_eq!(documents(text, 100), (expected.map(str::to_owned).to_vec(), vec![]));
    }

    #[test]
    fn document_that_is_cut_off_costs_itself() {
        let one = |text: &str, cut_off: &[u64]| {
            assert_eq!(
                documents(text, 100),
                (vec!["{\"a\":2}".to_owned()], cut_off.to_vec()),
                "{text}"
            );
        };
        one("{\"a\":[1\n{\"a\":2}\n", &[1]);
        one("{\"a\":2}\n{\"a\":[1\n", &[2]);
        one("{\n  \"a\": [\n{\n  \"a\": 2\n}\n", &[1]);
        one(&format!("{{\"a\":[\n{}\n{{\"a\":2}}\n", "\"x\",\n".repeat(40)), &[1]);
    }

    #[test]
    fn first_key_is_that_of_an_object() {
        assert_eq!(first_key(" {\n \"resourceMetrics\": ["), Some("resourceMetrics"));
        for text in ["", "{}", "{\"a\",\"b\"=\"c\"} 1", "{\"a\"=\"b\"} 1", "[{\"a\":1}]"] {
            assert_eq!(first_key(text), None, "{text}");
        }
    }
}
