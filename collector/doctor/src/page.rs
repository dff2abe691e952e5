//! The page of findings, and the same as JSON.

use phasemeter_terminal::escape::clean;
use phasemeter_terminal::json_escape::Escaped;
use phasemeter_terminal::number::counted;
use phasemeter_terminal::page::{Page, SEPARATOR, Style};
use serde::Serialize;

use super::findings::Findings;

/// The value of `schema`; changes with the meaning of any field.
const SCHEMA: &str = "phasemeter.doctor/0.1";

/// The findings as JSON.
#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    /// Whether metering and delivery would work.
    works: bool,
    #[serde(flatten)]
    findings: &'a Findings,
}

/// The page about this host.
#[must_use]
pub fn render(findings: &Findings, host: &str, color: bool) -> String {
    let mut page = Page::new(color);
    let title = [format!("Phasemeter {}", env!("CARGO_PKG_VERSION")), clean(host)];
    page.items(Style::Bold, &title, SEPARATOR);
    let (style, verdict) = match findings.problems.len() as u64 {
        0 => (Style::Green, "metering and delivery would work".to_owned()),
        problems => (Style::Red, counted(problems, "problem")),
    };
    page.paragraph(style, 0, &verdict);
    // A line each, however long: they may be searched for.
    findings.problems.iter().for_each(|problem| page.verbatim(2, problem));
    page.end_line();
    for (topic, facts) in &findings.facts {
        page.sentences(topic.label(), facts);
    }
    if !findings.notes.is_empty() {
        page.end_line();
        page.paragraph(Style::Yellow, 0, &counted(findings.notes.len() as u64, "note"));
        findings.notes.iter().for_each(|note| page.verbatim(2, note));
    }
    page.into_text()
}

/// The findings as JSON, in one line.
///
/// # Errors
/// Returns an error if a text cannot be encoded.
pub fn json(findings: &Findings) -> serde_json::Result<Vec<u8>> {
    let mut text = Vec::new();
    let document = Document { schema: SCHEMA, works: findings.works(), findings };
    serde_json::to_writer(Escaped(&mut text), &document)?;
    text.push(b'\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Topic;

    #[test]
    fn problems_stand_first_each_in_one_line() {
        let mut findings = Findings::default();
        assert_eq!(
            render(&findings, "h", false).lines().nth(1),
            Some("metering and delivery would work")
        );
        findings.fact(Topic::Clock, "synchronized");
        findings.fact(Topic::Driver, "version 575.57.08");
        findings.fact(
            Topic::Driver,
            "library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 of a driver with a long name",
        );
        let problem = format!("endpoint: {}\u{1b}[2J; check", "refused ".repeat(12));
        findings.problem(&*problem);
        findings.note("clock: no");
        let page = render(&findings, "node-1", false);
        let lines: Vec<_> = page.lines().collect();
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(
            lines,
            [
                &*format!("Phasemeter {version} · node-1"),
                "1 problem",
                &*format!("  {}", clean(&problem)),
                "",
                "Driver       version 575.57.08",
                "             library /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 of a driver",
                "             with a long name",
                "Clock        synchronized",
                "",
                "1 note",
                "  clock: no",
            ]
        );
        assert!(!page.contains('\u{1b}'), "no control characters");
        let json: serde_json::Value = serde_json::from_slice(&json(&findings).unwrap()).unwrap();
        assert_eq!(json["works"], false);
        assert_eq!(json["facts"]["clock"][0], "synchronized");
        assert_eq!(json["problems"][0], *problem);
    }
}
