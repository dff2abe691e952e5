//! Conversations with the metadata services of clouds, as files: `>` is a request, `<` an answer, `=` a
//! notice and `!` an error. The answers are those that the clouds document, and malformed ones.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use phasemeter_meter::instant::Instant;
use phasemeter_work::interruption::{Cloud, Method, Response, Watch};
use proptest::prelude::*;

fn conversations(cloud: Cloud) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interruptions").join(cloud.name());
    let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = files.collect();
    files.sort();
    assert!(files.len() >= 3, "{}: {files:?}", cloud.name());
    files
}

/// The next request, as in a file.
fn request(watch: &Watch) -> String {
    let request = watch.request();
    let mut text = String::new();
    if request.after > Duration::ZERO {
        writeln!(text, "> after {} s", request.after.as_secs()).unwrap();
    }
    let method = match request.method {
        Method::Get => "GET",
        Method::Put => "PUT",
    };
    writeln!(text, "> {method} {}", request.path).unwrap();
    for (name, value) in request.headers {
        writeln!(text, "> {name}: {value}").unwrap();
    }
    text
}

/// The answers of a file: status, tag and body. No status: there was no answer.
fn answers(text: &str) -> Vec<(Option<u16>, Option<String>, Vec<u8>)> {
    let mut answers: Vec<(Option<u16>, Option<String>, Vec<u8>)> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match line.strip_prefix('<') {
            None => is_inside = false,
            Some(head) if !is_inside => {
                is_inside = true;
                let mut words = head.split_whitespace();
                let status = words.next().and_then(|status| status.parse().ok());
                answers.push((status, words.next().map(str::to_owned), Vec::new()));
            }
            Some(line) => {
                let body = &mut answers.last_mut().unwrap().2;
                body.extend(line.strip_prefix(' ').unwrap_or(line).bytes());
                body.push(b'\n');
            }
        }
    }
    answers
}

/// What follows from the answers of a file, as in a file.
fn replayed(cloud: Cloud, text: &str) -> String {
    let mut watch = Watch::new(cloud);
    let mut replayed: String = text
        .lines()
        .take_while(|line| line.starts_with('#'))
        .map(|line| format!("{line}\n"))
        .collect();
    for (status, etag, body) in answers(text) {
        replayed += &request(&watch);
        let Some(status) = status else {
            watch.unanswered();
            replayed += "< none\n";
            continue;
        };
        let etag = etag.as_deref();
        let tag = etag.map(|etag| format!(" {etag}")).unwrap_or_default();
        writeln!(replayed, "< {status}{tag}").unwrap();
        for line in String::from_utf8_lossy(&body).lines() {
            writeln!(replayed, "< {line}").unwrap();
        }
        for notice in watch.answer(Response { status, etag, body: &body }) {
            match notice {
                Ok(notice) => {
                    let due = notice.due.map(|due| format!(", due {}", Instant(due)));
                    let (name, due) = (notice.action.name(), due.unwrap_or_default());
                    writeln!(replayed, "= {name}{due}").unwrap();
                }
                Err(error) => writeln!(replayed, "! {error}").unwrap(),
            }
        }
    }
    replayed
}

#[test]
fn conversations_are_as_documented() {
    for cloud in Cloud::ALL {
        for file in conversations(cloud) {
            let text = fs::read_to_string(&file).unwrap();
            assert_eq!(replayed(cloud, &text), text, "{}", file.display());
        }
    }
}

proptest! {
    /// Guarantee: no answer ends the conversation, makes it busy, or repeats a notice.
    #[test]
    fn any_answers_leave_a_conversation_that_goes_on(
        cloud in prop::sample::select(Cloud::ALL.to_vec()),
        answers in prop::collection::vec(
            (
                prop_oneof![Just(200_u16), Just(404), Just(401), 100..600_u16],
                prop::option::of("[ -~]{0,80}"),
                prop_oneof![
                    Just(br#"{"action": "stop", "time": "2017-09-18T08:22:00Z"}"#.to_vec()),
                    Just(br#"{"Events": [{"EventType": "Preempt", "Resources": ["vm"]}]}"#.to_vec()),
                    Just(b"vm".to_vec()),
                    Just(b"TRUE".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..200),
                ],
            ),
            0..40,
        ),
    ) {
        let mut watch = Watch::new(cloud);
        let mut found = Vec::new();
        let mut waited = Duration::ZERO;
        for (status, etag, body) in &answers {
            let request = watch.request();
            waited += request.after;
            prop_assert!(request.path.starts_with('/') && request.path.is_ascii());
            prop_assert!(request.headers.iter().all(|(_, value)| !value.contains(['\r', '\n'])));
            let notices = watch.answer(Response { status: *status, etag: etag.as_deref(), body });
            found.extend(notices.into_iter().flatten());
        }
        let rounds = u32::try_from(answers.len().saturating_sub(1) / 3).unwrap();
        prop_assert!(waited >= Duration::from_secs(1) * rounds, "{waited:?}");
        for (index, notice) in found.iter().enumerate() {
            prop_assert!(!found[..index].contains(notice), "{notice:?}");
        }
    }
}
