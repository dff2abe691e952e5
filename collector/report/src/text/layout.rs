//! A page of 80 columns: styles, wrapping, and facts beside their labels.
//!
//! No text exceeds the page, and external text cannot send control sequences to the terminal.

use unicode_width::UnicodeWidthStr;

use phasemeter_meter::phase::Phase;
use phasemeter_terminal::escape::clean;

/// The width of a page in columns.
pub const WIDTH: usize = 80;

/// The column at which facts begin, after their labels.
const FACTS: usize = 13;

/// The columns of facts.
pub(super) const WIDTH_OF_FACTS: usize = WIDTH - FACTS;

/// A color. It repeats what the text states and adds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// None.
    Plain,
    /// Bold.
    Bold,
    /// Dim.
    Dim,
    /// The color of the phase.
    Phase(Phase),
}

impl Style {
    /// Its ECMA-48 code.
    const fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Bold => Some("1"),
            Self::Dim => Some("2"),
            Self::Phase(Phase::Idle) => Some("31"),
            Self::Phase(Phase::Underutilized) => Some("33"),
            Self::Phase(Phase::Productive) => Some("32"),
            Self::Phase(Phase::ComputeBound) => Some("36"),
        }
    }
}

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    text: String,
    color: bool,
}

impl Page {
    /// An empty page.
    pub const fn new(color: bool) -> Self {
        Self { text: String::new(), color }
    }

    /// The finished page.
    pub fn into_text(self) -> String {
        self.text
    }

    /// Appends to the current line.
    pub fn write(&mut self, style: Style, text: &str) {
        match style.code().filter(|_| self.color && !text.trim().is_empty()) {
            Some(code) => {
                self.text.push_str("\x1b[");
                self.text.push_str(code);
                self.text.push('m');
                self.text.push_str(text);
                self.text.push_str("\x1b[0m");
            }
            None => self.text.push_str(text),
        }
    }

    /// Ends the line, without trailing blanks.
    pub fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// Items over the whole width, as many per line as fit.
    pub fn items(&mut self, style: Style, items: &[String], between: &str) {
        for line in wrap(items, between, WIDTH) {
            self.write(style, &line);
            self.end_line();
        }
    }

    /// Items beside a label, as many per line as fit.
    pub fn fact(&mut self, label: &str, items: &[String], between: &str) {
        self.beside(label, Style::Plain, &wrap(items, between, WIDTH_OF_FACTS));
    }

    /// The same in at most `lines` lines; items that do not fit are omitted.
    pub fn at_most(&mut self, label: &str, items: &[String], lines: usize) {
        let all = wrap(items, SEPARATOR, WIDTH_OF_FACTS);
        self.beside(label, Style::Plain, all.get(..lines).unwrap_or(&all));
    }

    /// External text beside a label in at most `lines` lines; longer text ends with an ellipsis.
    /// Returns the number of lines.
    pub fn passage(&mut self, label: &str, style: Style, text: &str, lines: usize) -> usize {
        let mut all = passage(text);
        if all.len() > lines {
            all.truncate(lines);
            if let Some(last) = all.last_mut() {
                let limit = WIDTH_OF_FACTS - 1;
                let kept = last.rsplit_once(' ').filter(|_| width(last) > limit);
                let kept = kept.map_or(last.as_str(), |(kept, _)| kept);
                *last = format!("{}…", chunks(kept, limit).swap_remove(0).trim_end());
            }
        }
        self.beside(label, style, &all);
        all.len()
    }

    /// A title beside a label.
    pub fn titled(&mut self, label: &str, title: &str) {
        self.beside(label, Style::Bold, &wrap(&[title.to_owned()], " ", WIDTH_OF_FACTS));
    }

    fn beside(&mut self, label: &str, style: Style, lines: &[String]) {
        let mut label = label;
        for line in lines {
            self.write(Style::Dim, &format!("{label:<FACTS$}"));
            self.write(style, line);
            self.end_line();
            label = "";
        }
    }

    /// Facts beside a label, each on lines of its own.
    pub fn facts(&mut self, label: &str, facts: impl IntoIterator<Item = Vec<String>>) {
        let mut label = label;
        for items in facts {
            self.fact(label, &items, SEPARATOR);
            label = "";
        }
    }
}

/// The lines of a text beside a label.
fn passage(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            // A number keeps its percent, and a GPU its index.
            Some(before)
                if word.starts_with('%')
                    || before.ends_with("GPU")
                        && word.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                *before += &format!(" {word}");
            }
            _ => words.push(word.to_owned()),
        }
    }
    wrap(&words, " ", WIDTH_OF_FACTS)
}

/// The first clauses of a text that takes more than `limit` lines, if they are more than half of these; else all of
/// it.
pub(super) fn first_clauses(text: &str, limit: usize) -> String {
    let all = passage(text);
    let cut = all.get(..limit).filter(|cut| cut.len() < all.len()).map(|cut| cut.join(" "));
    let clauses = cut.as_deref().and_then(clause);
    clauses.map_or_else(|| text.to_owned(), |clauses| format!("{clauses}…"))
}

/// A text up to its last clause, if that is more than half of it: up to a comma, colon or semicolon before a blank,
/// outside of parentheses.
fn clause(text: &str) -> Option<&str> {
    let (mut depth, mut end) = (0_u32, 0);
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' | ':' | ';' if depth == 0 && chars.peek().is_none_or(|(_, next)| *next == ' ') => {
                end = at;
            }
            _ => {}
        }
    }
    text.get(..end).filter(|_| 2 * end > text.len())
}

/// The number of lines that a passage takes, if it is not limited.
pub(super) fn lines(text: &str) -> usize {
    passage(text).len()
}

/// The default separator of items.
pub const SEPARATOR: &str = " · ";

/// The width of a text in terminal columns.
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps items into lines of at most `limit` columns. Longer items are broken at blanks, longer words
/// anywhere.
pub fn wrap(items: &[String], between: &str, limit: usize) -> Vec<String> {
    let items: Vec<String> = items.iter().map(|item| clean(item)).collect();
    fill(items.iter().map(String::as_str), between, limit, |item| {
        fill(item.split(' '), " ", limit, |word| chunks(word, limit))
    })
}

fn fill<'a>(
    pieces: impl Iterator<Item = &'a str>,
    between: &str,
    limit: usize,
    broken: impl Fn(&'a str) -> Vec<String>,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        if let Some(line) = lines.last_mut() {
            let longer = format!("{line}{between}{piece}");
            if width(&longer) <= limit {
                *line = longer;
                continue;
            }
        }
        if width(piece) <= limit {
            lines.push(piece.to_owned());
        } else {
            lines.extend(broken(piece));
        }
    }
    lines
}

fn chunks(word: &str, limit: usize) -> Vec<String> {
    let mut chunks = vec![String::new()];
    for c in word.chars() {
        let longer = chunks.last().map(|chunk| format!("{chunk}{c}"));
        match (longer, chunks.last_mut()) {
            (Some(longer), Some(chunk)) if width(&longer) <= limit => *chunk = longer,
            _ => chunks.push(c.to_string()),
        }
    }
    chunks
}

/// A name in at most `limit` columns: its middle is elided, since names differ at their ends.
pub fn shortened(name: &str, limit: usize) -> String {
    let name = clean(name);
    if width(&name) <= limit {
        return name;
    }
    let half = limit.saturating_sub(1) / 2;
    let mut head = String::new();
    for c in name.chars() {
        head.push(c);
        if width(&head) > half {
            head.pop();
            break;
        }
    }
    let mut tail = String::new();
    for c in name.chars().rev() {
        let longer = format!("{c}{tail}");
        if width(&longer) > half {
            break;
        }
        tail = longer;
    }
    format!("{head}…{tail}")
}

/// Pads a text with blanks up to `limit` columns.
pub fn padded(text: &str, limit: usize) -> String {
    format!("{text}{}", " ".repeat(limit.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(items: &[&str], limit: usize) -> Vec<String> {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        wrap(&items, SEPARATOR, limit)
    }

    #[test]
    fn items_are_broken_only_if_too_long() {
        assert_eq!(wrapped(&["one two", "three", "four"], 15), ["one two · three", "four"]);
        assert_eq!(wrapped(&["one two three"], 8), ["one two", "three"]);
        assert_eq!(wrapped(&["abcdefgh", "i"], 5), ["abcde", "fgh", "i"]);
        assert_eq!(wrapped(&["日本語日本"], 5), ["日本", "語日", "本"]);
    }

    #[test]
    fn long_passage_ends_with_whole_word() {
        let first = |words: &str| {
            let mut page = Page::new(false);
            page.passage("Why", Style::Plain, words, 1);
            page.into_text().split_off(FACTS)
        };
        let limit = WIDTH - FACTS;
        let full = format!("{} word", "a".repeat(limit - 5));
        assert_eq!(first(&full), format!("{full}\n"));
        assert_eq!(first(&format!("{full} more")), format!("{}…\n", "a".repeat(limit - 5)));
        assert_eq!(first("short, but not all"), "short, but not all\n");
        let long = "a".repeat(2 * limit);
        assert_eq!(first(&long), format!("{}…\n", "a".repeat(limit - 1)));
    }

    #[test]
    fn long_reason_ends_with_whole_clause() {
        let end = "and an end that does not fit";
        let both = |text: &str| clause(&format!("{text} {end}")).map(str::to_owned);
        let text = "The link runs at 4 of 16 lanes (x4, not x16)";
        assert_eq!(both(&format!("{text},")).as_deref(), Some(text));
        assert_eq!(clause(&format!("{text}:")), Some(text));
        assert_eq!(both(text), None, "a comma in parentheses");
        assert_eq!(both("So, some of"), None, "most of it would be lost");
        assert_eq!(both("The clock was 1,800 MHz of 1,950 while working"), None);
        let long = format!("{text}, {}", "and much more than that ".repeat(3));
        assert_eq!(first_clauses(&long, 1), format!("{text}…"));
        assert_eq!(first_clauses(&long, 3), long, "all of it fits");
    }

    #[test]
    fn gpu_keeps_its_index() {
        let text = format!("{} GPU 0–3 of 8", "a".repeat(WIDTH_OF_FACTS - 4));
        assert_eq!(passage(&text)[1], "GPU 0–3 of 8");
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(wrapped(&["a\x1b[31m\r\nb"], 80), ["a\u{fffd}[31m\u{fffd}\u{fffd}b"]);
        assert_eq!(shortened("a\tb", 10), "a\u{fffd}b");
    }

    #[test]
    fn long_name_is_elided_in_the_middle() {
        let name = "GPU-5a1c8e2f-0000-0000-0000-0123456789ab";
        assert_eq!(shortened(name, 17), "GPU-5a1c…456789ab");
        assert_eq!(shortened("日本語日本語", 6), "日…語");
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn codes_are_written_only_with_color() {
        for (color, text) in [(false, "idle"), (true, "\x1b[31midle\x1b[0m")] {
            let mut page = Page::new(color);
            page.write(Style::Phase(Phase::Idle), "idle");
            assert_eq!(page.into_text(), text);
        }
    }
}
