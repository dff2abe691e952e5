//! Lines of limited width, in terminal columns.

use unicode_width::UnicodeWidthStr;

use crate::escape::clean;

/// The width of a text in terminal columns.
#[must_use]
pub fn width(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps items into lines of at most `limit` columns. Longer items are broken at blanks, longer words
/// anywhere.
#[must_use]
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

/// Text broken anywhere into pieces of at most `limit` columns, of which there is at least one.
pub(crate) fn chunks(word: &str, limit: usize) -> Vec<String> {
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
#[must_use]
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

/// A text in at most `limit` columns: its end is elided.
#[must_use]
pub fn truncated(text: &str, limit: usize) -> String {
    if width(text) <= limit {
        return text.to_owned();
    }
    format!("{}…", chunks(text, limit.saturating_sub(1)).swap_remove(0))
}

/// Pads a text with blanks up to `limit` columns.
#[must_use]
pub fn padded(text: &str, limit: usize) -> String {
    format!("{text}{}", " ".repeat(limit.saturating_sub(width(text))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(items: &[&str], limit: usize) -> Vec<String> {
        let items: Vec<String> = items.iter().map(|item| (*item).to_owned()).collect();
        wrap(&items, " · ", limit)
    }

    #[test]
    fn items_are_broken_only_if_too_long() {
        assert_eq!(wrapped(&["one two", "three", "four"], 15), ["one two · three", "four"]);
        assert_eq!(wrapped(&["one two three"], 8), ["one two", "three"]);
        assert_eq!(wrapped(&["abcdefgh", "i"], 5), ["abcde", "fgh", "i"]);
        assert_eq!(wrapped(&["日本語日本"], 5), ["日本", "語日", "本"]);
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
}
