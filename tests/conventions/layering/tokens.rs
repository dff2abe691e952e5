//! Rust source as identifiers and punctuation, without comments and literals.

/// One token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) text: String,
    /// Starts at 1.
    pub(super) line: usize,
}

impl Token {
    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    pub(super) fn is_identifier(&self) -> bool {
        self.text.starts_with(|first: char| first == '_' || first.is_alphabetic())
    }
}

/// Splits source text. `::` is one token, other punctuation one per character.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let characters: Vec<char> = source.chars().collect();
    let mut found = Vec::new();
    let (mut at, mut line) = (0, 1);
    while at < characters.len() {
        let end = end_of_token(&characters, at);
        let text: String = characters[at..end].iter().collect();
        if is_code(&text) {
            found.push(Token { text: text.clone(), line });
        }
        line += text.matches('\n').count();
        at = end;
    }
    found
}

fn is_code(text: &str) -> bool {
    let comment = text.starts_with("//") || text.starts_with("/*");
    // A character or a lifetime, a number, a string.
    let literal = text.starts_with('\'')
        || text.starts_with(|first: char| first.is_ascii_digit())
        || text.len() > 1 && text.ends_with(['"', '\'', '#']);
    !(comment || literal || text.starts_with(char::is_whitespace))
}

fn end_of_token(text: &[char], start: usize) -> usize {
    let at = |index: usize| text.get(index).copied().unwrap_or('\0');
    let while_in = |from: usize, accept: &dyn Fn(char) -> bool| {
        (from..text.len()).find(|&index| !accept(text[index])).unwrap_or(text.len())
    };
    let identifier = |character: char| character == '_' || character.is_alphanumeric();
    let (first, second) = (at(start), at(start + 1));
    match first {
        '/' if second == '/' => while_in(start, &|character| character != '\n'),
        '/' if second == '*' => end_of_block_comment(text, start),
        ':' if second == ':' => start + 2,
        '"' => end_of_string(text, start + 1),
        '\'' if second == '\\' => while_in(start + 3, &|character| character != '\'') + 1,
        '\'' if at(start + 2) == '\'' => start + 3,
        '\'' => while_in(start + 1, &identifier),
        _ if first.is_whitespace() => while_in(start, &char::is_whitespace),
        _ if identifier(first) => {
            let end = while_in(start, &identifier);
            let prefix: String = text[start..end].iter().collect();
            let raw = matches!(prefix.as_str(), "r" | "br" | "cr");
            match at(end) {
                '"' if raw => end_of_raw_string(text, end),
                '"' if matches!(prefix.as_str(), "b" | "c") => end_of_string(text, end + 1),
                '\'' if prefix == "b" => end_of_token(text, end),
                '#' if raw && matches!(at(end + 1), '"' | '#') => end_of_raw_string(text, end),
                _ => end,
            }
        }
        _ => start + 1,
    }
}

fn end_of_block_comment(text: &[char], start: usize) -> usize {
    let mut depth = 0;
    let mut index = start;
    while index < text.len() {
        match text[index..] {
            ['/', '*', ..] => (depth, index) = (depth + 1, index + 2),
            ['*', '/', ..] => (depth, index) = (depth - 1, index + 2),
            _ => index += 1,
        }
        if depth == 0 {
            break;
        }
    }
    index
}

fn end_of_string(text: &[char], start: usize) -> usize {
    let mut index = start;
    while index < text.len() && text[index] != '"' {
        index += if text[index] == '\\' { 2 } else { 1 };
    }
    text.len().min(index + 1)
}

fn end_of_raw_string(text: &[char], start: usize) -> usize {
    let hashes = text[start..].iter().take_while(|&&character| character == '#').count();
    let closing: Vec<char> = std::iter::once('"').chain(vec!['#'; hashes]).collect();
    let body = start + hashes + 1;
    (body..text.len())
        .find(|&index| text[index..].starts_with(&closing))
        .map_or(text.len(), |index| index + closing.len())
}

#[test]
fn tokens_leave_out_comments_and_literals() {
    let source = "use a::b; // use c\n/* /* x */ y */ let s: &'static str = \"d\\\" e\";\n\
        let r = r#\"f \" g\"#; let c = ['h', '\\'', b'i', '\\u{41}']; 1_000u64 * 2.5";
    let all = tokens(source);
    let words: Vec<_> =
        all.iter().filter(|token| token.is_identifier()).map(|token| token.text.as_str()).collect();
    assert_eq!(words, ["use", "a", "b", "let", "s", "str", "let", "r", "let", "c"]);
    assert_eq!(all[0].line, 1);
    assert_eq!(all.iter().find(|token| token.is("let")).unwrap().line, 2);
}
