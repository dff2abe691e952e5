//! The fenced blocks of commands of a page, and how each is run.

/// A fenced block of commands.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) page: String,
    /// The line of its fence.
    pub(super) line: usize,
    /// The number of headings before it.
    pub(super) section: usize,
    pub(super) kind: Kind,
    /// What is typed, without prompts and output.
    pub(super) commands: String,
}

/// How a block is run, by the comment before it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Without a comment: once, and every command succeeds.
    Once,
    /// `<!-- runs until stopped -->`: each command in a terminal of its own, until the end of the section. Then it is
    /// asked to end, and succeeds.
    UntilStopped,
    /// `<!-- tried until it succeeds -->`: what it asks for is there a moment later.
    Tried,
    /// `<!-- not run: needs REASON; tested by TEST -->`. `TEST` is `FILE FUNCTION`, `make TARGET` or a script; without
    /// it there is no such test.
    NotRun { needs: String, test: Option<String> },
}

impl Kind {
    pub(super) const fn is_run(&self) -> bool {
        !matches!(self, Self::NotRun { .. })
    }

    /// By a line before the block; `None` if it is a comment that decides nothing.
    fn of(comment: &str) -> Option<Self> {
        let Some(text) = comment.strip_prefix("<!-- ").and_then(|it| it.strip_suffix(" -->"))
        else {
            return Some(Self::Once);
        };
        match text {
            "runs until stopped" => Some(Self::UntilStopped),
            "tried until it succeeds" => Some(Self::Tried),
            _ => {
                let reason = text.strip_prefix("not run: needs ")?;
                let (needs, test) = reason
                    .split_once("; tested by ")
                    .map_or((reason, None), |(needs, test)| (needs, Some(test.to_owned())));
                Some(Self::NotRun { needs: needs.to_owned(), test })
            }
        }
    }
}

/// The blocks of a page.
pub(super) fn blocks(page: &str, text: &str) -> Result<Vec<Block>, String> {
    let mut found = Vec::new();
    let (mut before, mut section) = ("", 0);
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```") else {
            if !line.trim().is_empty() {
                before = line;
            }
            section += usize::from(line.starts_with('#'));
            continue;
        };
        let place = format!("{page}:{}", number + 1);
        let body = lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```");
        let body: Vec<_> = body.collect();
        let looks_like_commands =
            |line: &&str| line.starts_with("$ ") || line.starts_with("phasemeter ");
        let commands = match language {
            "sh" => body.join("\n"),
            "console" => typed(&body),
            "bash" | "shell" => return Err(format!("{place}: the language of commands is sh")),
            _ if language.is_empty() && body.iter().any(looks_like_commands) => {
                return Err(format!("{place}: commands without a language"));
            }
            _ => continue,
        };
        let kind = Kind::of(before).ok_or_else(|| format!("{place}: unknown comment: {before}"))?;
        found.push(Block { page: page.to_owned(), line: number + 1, section, kind, commands });
        before = "";
    }
    Ok(found)
}

/// Of lines with prompts and output, what is typed.
fn typed(lines: &[&str]) -> String {
    let mut typed = Vec::new();
    let mut continues = false;
    for line in lines {
        if let Some(command) = line.strip_prefix("$ ").or(continues.then_some(*line)) {
            typed.push(command);
            continues = command.ends_with('\\');
        }
    }
    typed.join("\n")
}

#[test]
fn comment_before_a_block_decides() {
    let page = "Text:\n\n```sh\na \\\n  b\n```\n<!-- runs until stopped -->\n```console\n$ c \\\n  d\noutput\n```\n\
                <!-- not run: needs Kubernetes; tested by make test -->\n\n```sh\ne\n```\n```json\n$ f\n```\n";
    let found = blocks("p.md", page).unwrap();
    let found: Vec<_> = found.iter().map(|it| (it.line, &it.kind, it.commands.as_str())).collect();
    let not_run =
        Kind::NotRun { needs: "Kubernetes".to_owned(), test: Some("make test".to_owned()) };
    let expected =
        [(3, &Kind::Once, "a \\\n  b"), (8, &Kind::UntilStopped, "c \\\n  d"), (15, &not_run, "e")];
    assert_eq!(found, expected);
}

#[test]
fn block_that_is_neither_run_nor_explained_is_an_error() {
    for (page, problem) in [
        ("<!-- not run: too slow -->\n```sh\na\n```\n", "p.md:2: unknown comment"),
        ("```\n$ a\n```\n", "p.md:1: commands without a language"),
        ("```bash\na\n```\n", "p.md:1: the language of commands is sh"),
    ] {
        let found = blocks("p.md", page).unwrap_err();
        assert!(found.starts_with(problem), "{found}");
    }
}
