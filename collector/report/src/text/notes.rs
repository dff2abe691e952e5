//! Notes of policies, and policies without a result.

use phasemeter_terminal::page::Page;

use crate::model::Report;

use super::first;
use super::gpus::by_name;

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
    page.facts("Policy notes", first(NOTES, merged.into_iter()));
    page.facts("Failed", first(NOTES, failed.into_iter()));
}
