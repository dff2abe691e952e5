//! Recommendations: the most valuable ones in at most four lines each, the others on one line each.
//!
//! The number comes first, then what it is, why, and the action. `explanation.rs` has all of it. Must
//! not depend on the combined savings.

use phasemeter_meter::money::NanoUsd;

use crate::report::model::{Gpu, Report};
use crate::report::policies::{Range, Recommendation};
use crate::report::value::Usd;

use super::format::{self, Dollars};
use super::gpus::{by_name, which};
use super::layout::{Page, Style, WIDTH, WIDTH_OF_FACTS};

/// Maximum number of recommendations with reason and action.
const FULL: usize = 3;

/// Maximum number of recommendations on one line each.
const BRIEF: usize = 3;

/// Maximum lines of one recommendation.
const LINES: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    let (full, rest) = best_first(&report.recommendations);
    if !full.is_empty() {
        page.end_line();
    }
    for it in full {
        short(page, &report.gpus, it);
    }
    for it in rest.iter().take(BRIEF) {
        page.passage(&amount(it), Style::Plain, &title(&report.gpus, it), 1);
    }
    match rest.len().saturating_sub(BRIEF) {
        0 => {}
        more => page.facts("", [vec![format!("{more} more with --explain")]]),
    }
}

/// Those that are written in full, then the others: risks, then the best one of each target, both in
/// order.
fn best_first(all: &[Recommendation]) -> (Vec<&Recommendation>, Vec<&Recommendation>) {
    let is_first = |(index, it): &(usize, &Recommendation)| {
        let before = all.get(..*index).unwrap_or_default();
        it.kind == "risk"
            || !before.iter().any(|other| other.kind != "risk" && other.target == it.target)
    };
    let chosen: Vec<usize> =
        all.iter().enumerate().filter(is_first).map(|(index, _)| index).take(FULL).collect();
    let (full, rest): (Vec<_>, Vec<_>) =
        all.iter().enumerate().partition(|(index, _)| chosen.contains(index));
    let alone = |each: Vec<(usize, _)>| each.into_iter().map(|(_, it)| it).collect();
    (alone(full), alone(rest))
}

/// Title, first sentence of the reason, first sentence of the action.
fn short(page: &mut Page, gpus: &[Gpu], it: &Recommendation) {
    let title = page.passage(&amount(it), Style::Bold, &title(gpus, it), 2);
    let why = first_sentence(&it.rationale);
    let why = page.passage("", Style::Plain, &by_name(gpus, why), LINES - title - 1);
    let action = first_sentence(&it.action);
    page.passage("", Style::Plain, &by_name(gpus, action), LINES - title - why);
}

/// `Use more loader workers: GPU 0–1 of 8 ($0–$21.48, 80% confident)`.
fn title(gpus: &[Gpu], it: &Recommendation) -> String {
    let confidence = format!("{:.0}% confident", it.confidence * 100.0);
    let range = match (it.kind, it.saving_usd) {
        ("risk", _) => None,
        _ if saves_nothing(it) => None,
        ("saving", Some(usd)) => Some(dollars(usd)),
        _ => Some(percents(it.saving_fraction)),
    };
    let doubt: Vec<String> = range.into_iter().chain([confidence]).collect();
    format!("{}: {} ({})", it.title, which(gpus, &it.gpus), doubt.join(", "))
}

fn dollars(
    Range { low: Usd(low), expected: Usd(expected), high: Usd(high) }: Range<Usd>,
) -> String {
    let [low, _, high] = Dollars::alike([low, expected, high]).map(Dollars::brief);
    format!("{low}–{high}")
}

fn percents(Range { low, high, .. }: Range<f64>) -> String {
    format!("{:.0}–{:.0}%", low * 100.0, high * 100.0)
}

/// What it is worth, in the column of labels.
pub(super) fn amount(it: &Recommendation) -> String {
    let fraction = || format::percent(it.saving_fraction.expected);
    match (it.kind, it.saving_usd) {
        ("risk", _) => "Risk".to_owned(),
        ("saving", _) if saves_nothing(it) => "Measure".to_owned(),
        ("saving", Some(usd)) => saves(usd.expected.0),
        ("saving", None) => fitting("Saves", &[fraction()]),
        _ if saves_nothing(it) => "Capacity".to_owned(),
        _ => fitting("Frees", &[fraction()]),
    }
}

/// Whether it promises no saving: it gives the GPUs more to do instead of giving back any of them, or
/// finds out what to do.
pub(super) fn saves_nothing(it: &Recommendation) -> bool {
    it.saving_fraction.high <= 0.0
}

fn saves(expected: NanoUsd) -> String {
    let expected = Dollars::of(expected);
    fitting("Saves", &[expected.short(), expected.whole()])
}

/// The first of these amounts that fits the column of labels, or the last one without the verb.
fn fitting(verb: &str, amounts: &[String]) -> String {
    let with_verb = amounts.iter().map(|amount| format!("{verb} {amount}"));
    let mut candidates = with_verb.chain(amounts.last().cloned());
    let fits = |text: &String| text.chars().count() < WIDTH - WIDTH_OF_FACTS;
    candidates.find(fits).unwrap_or_else(|| verb.to_owned())
}

/// A text up to its first full stop before a blank.
fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_without_cents_are_rounded() {
        let saves = |millis: i128| saves(NanoUsd(millis * 1_000_000));
        assert_eq!(saves(4_230), "Saves $4.23");
        assert_eq!(saves(420_990), "Saves $421");
        assert_eq!(saves(99_999_990), "$100,000");
    }
}
