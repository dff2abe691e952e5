//! The page of exercises: each of its commands is run, in order, and prints what the page shows.
//!
//! Blocks of `console` have commands after `$`, continued after a backslash, and their output. Output
//! goes to a file after `>`. `make generate` writes the page.

use std::fs;
use std::path::{Path, PathBuf};

use crate::phasemeter::Phasemeter;

/// A part of the page.
#[derive(Debug)]
enum Part {
    Text(String),
    Command { lines: Vec<String>, output: String },
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn parts(page: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        if line.starts_with("```") {
            inside = line == "```console";
            parts.push(Part::Text(line.to_owned()));
        } else if !inside {
            parts.push(Part::Text(line.to_owned()));
        } else {
            match parts.last_mut() {
                Some(Part::Command { lines, output })
                    if output.is_empty() && lines.last().unwrap().ends_with('\\') =>
                {
                    lines.push(line.to_owned());
                }
                _ if line.starts_with("$ ") => {
                    parts.push(Part::Command {
                        lines: vec![line.to_owned()],
                        output: String::new(),
                    });
                }
                Some(Part::Command { output, .. }) => *output += &format!("{line}\n"),
                _ => panic!("output without a command: {line}"),
            }
        }
    }
    parts
}

/// Words between blanks; single quotes keep blanks.
fn words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            _ => words.last_mut().unwrap().push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What a command prints: standard output, which may go to a file, then standard error and its status.
fn run(lines: &[String], dir: &Path) -> String {
    let lines: Vec<_> = lines.iter().map(|line| line.trim_end_matches('\\').trim()).collect();
    let command = lines.join(" ");
    let (command, file) = command
        .split_once(" > ")
        .map_or((command.as_str(), None), |(command, file)| (command, Some(file)));
    let words = words(command);
    assert_eq!(words[..2], ["$", "phasemeter"], "{command}");
    let outcome = Phasemeter::new(&words[2]).within(dir).args(&words[3..]).run();
    let mut shown = match file {
        None => outcome.out,
        Some(file) => {
            fs::write(dir.join(file), outcome.out).unwrap();
            String::new()
        }
    };
    shown += &outcome.err;
    if outcome.status != 0 {
        shown += &format!("(exit status {})\n", outcome.status);
    }
    shown
}

#[test]
fn commands_of_exercises_print_what_the_page_shows() {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root().join("tests/fixtures/exercises")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, dir.path().join(path.file_name().unwrap())).unwrap();
    }
    let file = root().join("docs/exercises.md");
    let page = fs::read_to_string(&file).unwrap();
    let (mut written, mut commands) = (String::new(), 0);
    for part in parts(&page) {
        match part {
            Part::Text(line) => written += &format!("{line}\n"),
            Part::Command { lines, .. } => {
                commands += 1;
                written += &format!("{}\n{}", lines.join("\n"), run(&lines, dir.path()));
            }
        }
    }
    assert!(commands >= 15, "only {commands} commands");
    if std::env::var_os("PHASEMETER_UPDATE").is_some() {
        fs::write(&file, &written).unwrap();
    }
    let differs = page.lines().zip(written.lines()).position(|(old, new)| old != new);
    let differs = differs.map(|at| (at + 1, written.lines().nth(at).unwrap().to_owned()));
    assert!(page == written, "docs/exercises.md:{differs:?}; run make generate");
}
