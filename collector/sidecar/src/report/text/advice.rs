//! What could be done: of each pool of waste, and of the rate, the advice that saves most in full,
//! the rest in a line each.
//!
//! The JSON report has all of it. This room must not know what advice saves together.

use crate::report::{Gpu, Range, Recommendation, Report, Usd};

use super::gpus::{by_name, names_of};
use super::layout::{Page, SEPARATOR};
use super::words::{self, Dollars};

/// How much advice is shown in a line each.
const IN_A_LINE: usize = 5;

/// The most lines of what a policy explains, and of the numbers it rests on.
const LINES: usize = 4;
const NUMBERS: usize = 2;

/// GPUs that are named; more are counted.
const GPUS: usize = 8;

pub(super) fn write(page: &mut Page, report: &Report) {
    let all = &report.recommendations;
    let is_best = |advice: &&Recommendation| {
        let best = best(all, advice.pool);
        best.is_some_and(|best| std::ptr::eq(best, *advice))
    };
    let (full, rest): (Vec<_>, Vec<_>) = all.iter().partition(is_best);
    for advice in full {
        page.end_line();
        in_full(page, report, advice);
    }
    if rest.is_empty() {
        return;
    }
    page.end_line();
    let lines = rest.iter().take(IN_A_LINE);
    let mut lines: Vec<_> = lines.map(|advice| vec![in_a_line(&report.gpus, advice)]).collect();
    match rest.len().saturating_sub(IN_A_LINE) {
        0 => {}
        more => lines.push(vec![format!("and {more} more, with --format json")]),
    }
    page.facts("Also", lines);
}

/// Of the advice on one pool or axis what saves most: what counts, where any does.
fn best<'a>(all: &'a [Recommendation], pool: &str) -> Option<&'a Recommendation> {
    let mut own = all.iter().filter(|advice| advice.pool == pool);
    own.clone().find(|advice| advice.counted).or_else(|| own.next())
}

fn in_full(page: &mut Page, report: &Report, advice: &Recommendation) {
    page.titled("Advice", &advice.title);
    let sure = format!("{:.0} % sure", advice.confidence * 100.0);
    let by = format!("{}, by {}", advice.lever, advice.policy);
    let aside = report.savings.is_some() && !advice.counted;
    let aside = aside.then(|| "not in the sum below".to_owned());
    let facts = [which(&report.gpus, advice), saves(advice), sure, by];
    page.fact("", &facts.into_iter().chain(aside).collect::<Vec<_>>(), SEPARATOR);
    page.passage("Why", &by_name(&report.gpus, &advice.rationale), LINES);
    page.passage("Do", &by_name(&report.gpus, &advice.action), LINES);
    let number = |(name, value): (&String, &f64)| {
        format!("{} {}", name.replace(['_', '.'], " "), words::number(*value))
    };
    let numbers: Vec<_> = advice.evidence.iter().map(number).collect();
    page.at_most("Seen", &numbers, NUMBERS);
}

fn in_a_line(gpus: &[Gpu], advice: &Recommendation) -> String {
    let expected = match advice.saving_usd {
        Some(usd) => Dollars::of(usd.expected.0).short(),
        None => words::percent(advice.saving_fraction.expected),
    };
    format!("{expected}: {} ({})", advice.title, which(gpus, advice))
}

/// `GPU 0, 1`.
fn which(gpus: &[Gpu], advice: &Recommendation) -> String {
    let names = names_of(gpus, &advice.gpus);
    match names.len() {
        all if all == gpus.len() && all > 1 => format!("all {all} GPUs"),
        some if some > GPUS => {
            let first = names.get(..GPUS).unwrap_or_default();
            format!("{} and {} more", listed(first), some - GPUS)
        }
        _ => listed(&names),
    }
}

/// Names that begin alike say so once: `GPU 0, 1, 7`.
fn listed(names: &[String]) -> String {
    let indices = names.iter().map(|name| name.strip_prefix("GPU "));
    match indices.collect::<Option<Vec<_>>>() {
        Some(indices) => format!("GPU {}", indices.join(", ")),
        None => names.join(", "),
    }
}

/// What it promises, in dollars where these GPUs have a price, and of what they cost.
fn saves(advice: &Recommendation) -> String {
    let Range { low, expected, high } = advice.saving_fraction;
    let [low, high] = [low, high].map(|fraction| format!("{:.0}", fraction * 100.0));
    let whose = if advice.gpus.len() == 1 { "its" } else { "their" };
    let fractions = format!("{} of {whose} bill, {low}–{high} %", words::percent(expected));
    match advice.saving_usd {
        Some(Range { low: Usd(low), expected: Usd(expected), high: Usd(high) }) => {
            let [low, expected, high] = Dollars::alike([low, expected, high]).map(Dollars::short);
            format!("saves {expected} ({low}–{high}), {fractions}")
        }
        None => format!("saves {fractions}"),
    }
}
