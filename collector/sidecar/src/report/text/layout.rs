//! A page of 80 columns: styles, wrapping, and facts beside their labels.
//!
//! Whatever is written here stays within the page, and what came from outside can't speak to the
//! terminal. This room must not know what is written.

use unicode_width::UnicodeWidthStr;

use phasemeter_meter::phase::Phase;

/// The width of a page in columns.
pub(super) const WIDTH: usize = 80;

/// Where the facts beside labels begin.
const FACTS: usize = 13;

/// How something looks where there is colour. It never says what the text does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Dim,
    Phase(Phase),
}

impl Style {
    /// The code that switches it on, by ECMA-48.
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

/// A page that is being written.
#[derive(Clone, Debug)]
pub(super) struct Page {
    text: String,
    colour: bool,
}

impl Page {
    pub(super) const fn new(colour: bool) -> Self {
        Self { text: String::new(), colour }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    /// Writes on in the line.
    pub(super) fn write(&mut self, style: Style, text: &str) {
        match style.code().filter(|_| self.colour && !text.trim().is_empty()) {
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

    /// Ends the line, without blanks at its end.
    pub(super) fn end_line(&mut self) {
        self.text.truncate(self.text.trim_end_matches(' ').len());
        self.text.push('\n');
    }

    /// Items over the whole width, as many in a line as there is room for.
    pub(super) fn items(&mut self, style: Style, items: &[String], between: &str) {
        for line in wrap(items, between, WIDTH) {
            self.write(style, &line);
            self.end_line();
        }
    }

    /// Items beside a label, as many in a line as there is room for.
    pub(super) fn fact(&mut self, label: &str, items: &[String], between: &str) {
        self.beside(label, Style::Plain, &wrap(items, between, WIDTH - FACTS));
    }

    /// The same in at most `lines` lines; what there is no room for is left out.
    pub(super) fn at_most(&mut self, label: &str, items: &[String], lines: usize) {
        let all = wrap(items, SEPARATOR, WIDTH - FACTS);
        self.beside(label, Style::Plain, all.get(..lines).unwrap_or(&all));
    }

    /// What others wrote, beside a label and in at most `lines` lines; where that is too long, it
    /// ends with an ellipsis.
    pub(super) fn passage(&mut self, label: &str, text: &str, lines: usize) {
        let mut words: Vec<String> = Vec::new();
        for word in text.split_whitespace() {
            match words.last_mut() {
                // A number keeps its percent.
                Some(number) if word.starts_with('%') => *number += &format!(" {word}"),
                _ => words.push(word.to_owned()),
            }
        }
        let mut all = wrap(&words, " ", WIDTH - FACTS);
        if all.len() > lines {
            all.truncate(lines);
            if let Some(last) = all.last_mut() {
                let room = WIDTH - FACTS - 1;
                let kept = last.rsplit_once(' ').filter(|_| width(last) > room);
                let kept = kept.map_or(last.as_str(), |(kept, _)| kept);
                *last = format!("{}…", chunks(kept, room).swap_remove(0).trim_end());
            }
        }
        self.beside(label, Style::Plain, &all);
    }

    /// A title beside a label.
    pub(super) fn titled(&mut self, label: &str, title: &str) {
        self.beside(label, Style::Bold, &wrap(&[title.to_owned()], " ", WIDTH - FACTS));
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

    /// Facts beside a label, each in lines of its own.
    pub(super) fn facts(&mut self, label: &str, facts: impl IntoIterator<Item = Vec<String>>) {
        let mut label = label;
        for items in facts {
            self.fact(label, &items, SEPARATOR);
            label = "";
        }
    }
}

/// Between items that have nothing else between them.
pub(super) const SEPARATOR: &str = " · ";

/// The columns a terminal gives a text.
pub(super) fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Text from outside without what a terminal would obey, break a line at, or read backwards from.
pub(crate) fn clean(text: &str) -> String {
    let turns = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let harmful = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || turns(c);
    text.chars().map(|c| if harmful(c) { '\u{fffd}' } else { c }).collect()
}

/// Puts items into lines of at most `room` columns. An item that is longer is broken at blanks,
/// and a word that is longer, wherever it has to be.
fn wrap(items: &[String], between: &str, room: usize) -> Vec<String> {
    let items: Vec<String> = items.iter().map(|item| clean(item)).collect();
    fill(items.iter().map(String::as_str), between, room, |item| {
        fill(item.split(' '), " ", room, |word| chunks(word, room))
    })
}

fn fill<'a>(
    pieces: impl Iterator<Item = &'a str>,
    between: &str,
    room: usize,
    broken: impl Fn(&'a str) -> Vec<String>,
) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in pieces {
        if let Some(line) = lines.last_mut() {
            let longer = format!("{line}{between}{piece}");
            if width(&longer) <= room {
                *line = longer;
                continue;
            }
        }
        if width(piece) <= room {
            lines.push(piece.to_owned());
        } else {
            lines.extend(broken(piece));
        }
    }
    lines
}

fn chunks(word: &str, room: usize) -> Vec<String> {
    let mut chunks = vec![String::new()];
    for c in word.chars() {
        let longer = chunks.last().map(|chunk| format!("{chunk}{c}"));
        match (longer, chunks.last_mut()) {
            (Some(longer), Some(chunk)) if width(&longer) <= room => *chunk = longer,
            _ => chunks.push(c.to_string()),
        }
    }
    chunks
}

/// A name in at most `room` columns: its middle gives way, since names differ at their ends.
pub(super) fn shortened(name: &str, room: usize) -> String {
    let name = clean(name);
    if width(&name) <= room {
        return name;
    }
    let half = room.saturating_sub(1) / 2;
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

/// Blanks after a text, up to `room` columns.
pub(super) fn padded(text: &str, room: usize) -> String {
    format!("{text}{}", " ".repeat(room.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(items: &[&str], room: usize) -> Vec<String> {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        wrap(&items, SEPARATOR, room)
    }

    #[test]
    fn items_stay_whole_where_they_can() {
        assert_eq!(wrapped(&["one two", "three", "four"], 15), ["one two · three", "four"]);
        assert_eq!(wrapped(&["one two three"], 8), ["one two", "three"]);
        assert_eq!(wrapped(&["abcdefgh", "i"], 5), ["abcde", "fgh", "i"]);
        assert_eq!(wrapped(&["日本語日本"], 5), ["日本", "語日", "本"]);
    }

    #[test]
    fn a_passage_that_is_too_long_ends_with_a_whole_word() {
        let first = |words: &str| {
            let mut page = Page::new(false);
            page.passage("Why", words, 1);
            page.into_text().split_off(FACTS)
        };
        let room = WIDTH - FACTS;
        let full = format!("{} word", "a".repeat(room - 5));
        assert_eq!(first(&full), format!("{full}\n"));
        assert_eq!(first(&format!("{full} more")), format!("{}…\n", "a".repeat(room - 5)));
        assert_eq!(first("short, but not all"), "short, but not all\n");
        let long = "a".repeat(2 * room);
        assert_eq!(first(&long), format!("{}…\n", "a".repeat(room - 1)));
    }

    #[test]
    fn what_comes_from_outside_cannot_speak_to_the_terminal() {
        assert_eq!(wrapped(&["a\x1b[31m\r\nb"], 80), ["a\u{fffd}[31m\u{fffd}\u{fffd}b"]);
        assert_eq!(shortened("a\tb", 10), "a\u{fffd}b");
    }

    #[test]
    fn the_middle_of_a_name_gives_way() {
        let name = "GPU-5a1c8e2f-0000-0000-0000-0123456789ab";
        assert_eq!(shortened(name, 17), "GPU-5a1c…456789ab");
        assert_eq!(shortened("日本語日本語", 6), "日…語");
        assert_eq!(shortened("short", 5), "short");
    }

    #[test]
    fn without_colour_there_are_no_codes() {
        for (colour, text) in [(false, "idle"), (true, "\x1b[31midle\x1b[0m")] {
            let mut page = Page::new(colour);
            page.write(Style::Phase(Phase::Idle), "idle");
            assert_eq!(page.into_text(), text);
        }
    }
}
