//! Notes of policies, and policies without a result.

use crate::model::Report;

use super::gpus::by_name;
use super::layout::Page;

/// Maximum number of notes, and of policies without a result.
const NOTES: usize = 4;

/// Writes both.
pub(super) fn write(page: &mut Page, report: &Report) {
    // Equal notes of several policies are merged.
    let mut notes: Vec<(Vec<&str>, &str)> = Vec::new();
    for policy in &report.policies {
        for note in &policy.notes {
            match notes.iter_mut().find(|(_, known)| known == note) {
                Some((names, _)) => names.push(&policy.name),
                None => notes.push((vec![&policy.name], note)),
            }
        }
    }
    let note = |(names, note): (Vec<&str>, &str)| {
        vec![format!("{}: {}", names.join(", "), by_name(&report.gpus, note))]
    };
    let merged: Vec<_> = notes.into_iter().map(note).collect();
    let failed = report.policies.iter().filter_map(|policy| {
        let error = policy.error.as_ref()?;
        Some(vec![format!("{}: {}", policy.name, error.message)])
    });
    let failed: Vec<_> = failed.collect();
    if !(merged.is_empty() && failed.is_empty()) {
        page.end_line();
    }
    page.facts("Policy notes", first(merged));
    page.facts("Failed", first(failed));
}

/// The first of these facts, and the number of the others.
fn first(mut facts: Vec<Vec<String>>) -> Vec<Vec<String>> {
    if facts.len() > NOTES {
        let more = facts.len() - NOTES;
        facts.truncate(NOTES);
        facts.push(vec![format!("{more} more in --format json")]);
    }
    facts
}
