//! Makes text of others safe to print.
//!
//! Control characters move a terminal's cursor, and format characters reverse or hide text.

/// Replaces everything that is not visible as itself: control characters, line and paragraph
/// separators, format characters, and those that a renderer may ignore (`Default_Ignorable_Code_Point`
/// of Unicode 16).
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars().map(|c| if is_visible(c) { c } else { '\u{fffd}' }).collect()
}

/// The same for at most `limit` bytes of a text.
#[must_use]
pub fn sanitize(text: &str, limit: usize) -> String {
    clean(text.get(..text.floor_char_boundary(limit)).unwrap_or_default())
}

/// Ranges of characters that are not visible as themselves, beside control characters.
const INVISIBLE: [(char, char); 25] = [
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{600}', '\u{605}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{6dd}', '\u{6dd}'),
    ('\u{70f}', '\u{70f}'),
    ('\u{890}', '\u{891}'),
    ('\u{8e2}', '\u{8e2}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{200b}', '\u{200f}'),
    ('\u{2028}', '\u{202e}'),
    ('\u{2060}', '\u{206f}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{110bd}', '\u{110bd}'),
    ('\u{110cd}', '\u{110cd}'),
    ('\u{13430}', '\u{1343f}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    // Tags and supplementary variation selectors.
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character is visible as itself.
#[must_use]
pub fn is_visible(c: char) -> bool {
    !c.is_control() && !INVISIBLE.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invisible_characters_are_replaced() {
        let invisible = [
            '\0',
            '\u{7}',
            '\n',
            '\u{1b}',
            '\u{7f}',
            '\u{9b}',
            '\u{ad}',
            '\u{61c}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{200f}',
            '\u{2028}',
            '\u{2029}',
            '\u{202a}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{3164}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e007f}',
            '\u{e0100}',
        ];
        for c in invisible {
            assert_eq!(clean(&format!("a{c}b")), "a\u{fffd}b", "U+{:04X}", u32::from(c));
        }
    }

    #[test]
    fn visible_text_is_unchanged() {
        let text = "train.csv — 90% “é” 訓練 обучение تدريب 🚀 \u{fffd}";
        assert_eq!(clean(text), text);
    }

    #[test]
    fn text_is_cut_between_characters() {
        assert_eq!(sanitize("aé\n", 2), "a");
        assert_eq!(sanitize("aé\n", 3), "aé");
        assert_eq!(sanitize("aé\n", 9), "aé\u{fffd}");
    }
}
