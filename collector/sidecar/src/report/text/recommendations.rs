//! Recommendations: the best one per target in full, the others on one line each.
//!
//! The JSON report has all in full. Must not depend on the combined savings.

use crate::report::model::{Gpu, Report};
use crate::report::policies::{Need, Range, Recommendation};
use crate::report::value::Usd;

use super::format::{self, Dollars};
use super::gpus::{by_name, names_of};
use super::layout::{Page, SEPARATOR};

/// Maximum number of recommendations on one line each.
const BRIEF: usize = 5;

/// Maximum lines of rationale and action, and of evidence.
const LINES: usize = 4;
const EVIDENCE_LINES: usize = 2;

/// Maximum number of GPUs listed by name.
const GPUS: usize = 8;

/// Maximum number of missing pieces of information.
const NEEDS: usize = 4;

pub(super) fn write(page: &mut Page, report: &Report) {
    write_recommendations(page, report);
    write_needs(page, report);
}

/// What is missing for other recommendations, and for which GPUs.
fn write_needs(page: &mut Page, report: &Report) {
    if report.needs.is_empty() {
        return;
    }
    page.end_line();
    let need = |it: &Need| {
        let gpus = which(&report.gpus, &it.gpus);
        vec![format!("{} ({gpus}): {}", it.missing, it.reason)]
    };
    let mut lines: Vec<_> = report.needs.iter().take(NEEDS).map(need).collect();
    match report.needs.len().saturating_sub(NEEDS) {
        0 => {}
        more => lines.push(vec![format!("{more} more in --format json")]),
    }
    page.facts("Missing", lines);
}

fn write_recommendations(page: &mut Page, report: &Report) {
    let all = &report.recommendations;
    let is_best = |it: &&Recommendation| {
        let best = best(all, it.target);
        it.kind == "risk" || best.is_some_and(|best| std::ptr::eq(best, *it))
    };
    let (full, rest): (Vec<_>, Vec<_>) = all.iter().partition(is_best);
    for it in full {
        page.end_line();
        write_full(page, report, it);
    }
    if rest.is_empty() {
        return;
    }
    page.end_line();
    let lines = rest.iter().take(BRIEF);
    let mut lines: Vec<_> = lines.map(|it| vec![brief(&report.gpus, it)]).collect();
    match rest.len().saturating_sub(BRIEF) {
        0 => {}
        more => lines.push(vec![format!("{more} more in --format json")]),
    }
    page.facts("Also", lines);
}

/// The best recommendation for a target: the first that counts, else the first.
fn best<'a>(all: &'a [Recommendation], target: &str) -> Option<&'a Recommendation> {
    let mut own = all.iter().filter(|it| it.target == target && it.kind != "risk");
    own.clone().find(|it| it.counted).or_else(|| own.next())
}

fn write_full(page: &mut Page, report: &Report, it: &Recommendation) {
    page.titled("Recommended", &it.title);
    let confidence = format!("confidence {:.0}%", it.confidence * 100.0);
    let lever = format!("lever {}", it.lever);
    let policy = format!("policy {}", it.policy);
    let excluded = report.savings.is_some() && !it.counted && it.kind == "saving";
    let excluded = excluded.then(|| "not in the total below".to_owned());
    let effect = match it.kind {
        "risk" => "a risk".to_owned(),
        "capacity" => capacity(it),
        _ => saves(it),
    };
    let facts = [which(&report.gpus, &it.gpus), effect, confidence, lever, policy];
    page.fact("", &facts.into_iter().chain(excluded).collect::<Vec<_>>(), SEPARATOR);
    page.passage("Why", &by_name(&report.gpus, &it.rationale), LINES);
    page.passage("Action", &by_name(&report.gpus, &it.action), LINES);
    let number = |(name, value): (&String, &f64)| {
        format!("{} {}", name.replace(['_', '.'], " "), format::number(*value))
    };
    let numbers: Vec<_> = it.evidence.iter().map(number).collect();
    page.at_most("Evidence", &numbers, EVIDENCE_LINES);
}

fn brief(gpus: &[Gpu], it: &Recommendation) -> String {
    let expected = match it.saving_usd.filter(|_| it.kind == "saving") {
        _ if it.kind == "risk" => "risk".to_owned(),
        Some(usd) => Dollars::of(usd.expected.0).short(),
        None => format::percent(it.saving_fraction.expected),
    };
    format!("{expected}: {} ({})", it.title, which(gpus, &it.gpus))
}

/// `GPU 0, 1`.
fn which(gpus: &[Gpu], ids: &[String]) -> String {
    let names = names_of(gpus, ids);
    match names.len() {
        all if all == gpus.len() && all > 1 => format!("all {all} GPUs"),
        some if some > GPUS => {
            let first = names.get(..GPUS).unwrap_or_default();
            format!("{} and {} more", listed(first), some - GPUS)
        }
        _ => listed(&names),
    }
}

/// A list of names, with a common prefix only once: `GPU 0, 1, 7`.
fn listed(names: &[String]) -> String {
    let indices = names.iter().map(|name| name.strip_prefix("GPU "));
    match indices.collect::<Option<Vec<_>>>() {
        Some(indices) => format!("GPU {}", indices.join(", ")),
        None => names.join(", "),
    }
}

/// The share of these GPUs that others can use.
fn capacity(it: &Recommendation) -> String {
    let Range { low, expected, high } = it.saving_fraction;
    let [low, high] = [low, high].map(|fraction| format!("{:.0}", fraction * 100.0));
    format!("frees {} of them for other work, {low}–{high}%", format::percent(expected))
}

/// The saving in dollars, if these GPUs have a price, and as a fraction of their bill.
fn saves(it: &Recommendation) -> String {
    let Range { low, expected, high } = it.saving_fraction;
    let [low, high] = [low, high].map(|fraction| format!("{:.0}", fraction * 100.0));
    let whose = if it.gpus.len() == 1 { "its" } else { "their" };
    let fractions = format!("{} of {whose} bill, {low}–{high}%", format::percent(expected));
    match it.saving_usd {
        Some(Range { low: Usd(low), expected: Usd(expected), high: Usd(high) }) => {
            let [low, expected, high] = Dollars::alike([low, expected, high]).map(Dollars::short);
            format!("saves {expected} ({low}–{high}), {fractions}")
        }
        None => format!("saves {fractions}"),
    }
}
