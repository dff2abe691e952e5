//! Findings by what is at stake: the first recommendations in some lines each, the others on one line each, or on
//! two with those who have the GPUs, and all uncovered waste.
//!
//! The number comes first, then what it is, why, and the action. `explanation.rs` has all of it.

use phasemeter_rules::lever::Lever;
use phasemeter_rules::recommendation::RecommendationKind;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, Style, WIDTH, WIDTH_OF_FACTS, first_clauses, lines};

use crate::findings::Finding;
use crate::model::{Gpu, Report};
use crate::policies::{Range, Recommendation, Stake};
use crate::value::Usd;

use super::amounts::Bill;
use super::format::{self, Dollars};
use super::gpus::{by_name, has_many, share_lines, which};
use super::owners::owners;
use super::uncovered;

/// How much of a page recommendations take.
struct Limits {
    /// Maximum number of recommendations with reason and action.
    full: usize,
    /// Maximum lines of one of them, and of its action, whatever that limit: its first sentence may be cut.
    lines: usize,
    action: usize,
    /// Maximum number of recommendations without a reason.
    brief: usize,
}

/// Lines that a title may take, whatever the limit.
const LINES_OF_TITLE: usize = 2;

const LIMITS: Limits = Limits { full: 3, lines: 5, action: 3, brief: 3 };
const LIMITS_BESIDE_MANY_GPUS: Limits = Limits { full: 2, lines: 3, action: 2, brief: 4 };

pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    let limits = match has_many(&report.gpus) {
        // Alike GPUs share a line, but there may be up to sixteen.
        true if share_lines(&report.gpus) => Limits { brief: 2, ..LIMITS_BESIDE_MANY_GPUS },
        true => LIMITS_BESIDE_MANY_GPUS,
        false => LIMITS,
    };
    let findings = report.findings();
    let advice = || {
        findings.iter().filter_map(|finding| match finding {
            Finding::Advice(it) => Some(*it),
            Finding::Uncovered(_) => None,
        })
    };
    let is_first = |it: &Recommendation| {
        let before = advice().take_while(|other| !std::ptr::eq(*other, it));
        before.filter(|other| is_alternative(it, other)).count() == 0
    };
    // What else may be done about the same waste gets the lines that other waste leaves.
    let of_other_waste = advice().filter(|it| is_first(it)).skip(limits.full).count();
    let mut for_alternatives = limits.brief.saturating_sub(of_other_waste);
    let (mut full, mut brief, mut more) = (0, 0, 0);
    if !findings.is_empty() {
        page.end_line();
    }
    for finding in &findings {
        let it = match finding {
            Finding::Advice(it) => *it,
            Finding::Uncovered(wastes) => {
                uncovered::write(page, &report.gpus, bill, wastes);
                continue;
            }
        };
        let is_first = is_first(it);
        if is_first && full < limits.full {
            short(page, &report.gpus, bill, it, &limits);
            full += 1;
        } else if brief < limits.brief && (is_first || for_alternatives > 0) {
            // Whose GPUs they are, and where, gets a line if it is known and would take that of the title.
            let is_known = !owners(&report.gpus, &it.gpus).is_empty();
            let fits = title(&report.gpus, bill, it, 1).starts_with(&it.title);
            let limit = if fits || !is_known { 1 } else { LINES_OF_TITLE };
            let title = title(&report.gpus, bill, it, limit);
            page.passage(&amount(&report.gpus, bill, it), Style::Plain, &title, limit);
            brief += 1;
            for_alternatives -= usize::from(!is_first);
        } else {
            more += 1;
        }
    }
    if more > 0 {
        page.sentences("", [format!("{more} more with --explain")]);
    }
}

/// Whether both are about the same waste of the same GPUs, so that they have one reason.
fn is_alternative(it: &Recommendation, other: &Recommendation) -> bool {
    it.target == other.target && it.gpus == other.gpus && it.kind == other.kind
}

/// Title, first sentence of the reason, and the sentences of the action that fit. The action comes first: the reason gets the
/// lines that are left.
fn short(page: &mut Page, gpus: &[Gpu], bill: Option<&Bill>, it: &Recommendation, limits: &Limits) {
    let title = title(gpus, bill, it, LINES_OF_TITLE);
    let title = page.passage(&amount(gpus, bill, it), Style::Bold, &title, LINES_OF_TITLE);
    let why = by_name(gpus, first_sentence(&it.rationale));
    // What any other means supposes is its reason.
    let known = it.open_trial().filter(|_| it.lever != Lever::Other);
    let condition = known.map(|trial| format!("If {}: ", trial.supposes));
    let action = condition.unwrap_or_default() + &by_name(gpus, &it.action);
    let action = whole_sentences(&action, limits.action);
    let left = limits.lines.saturating_sub(title);
    let for_why = left.saturating_sub(lines(action).clamp(1, limits.action));
    page.passage("", Style::Plain, &first_clauses(&why, for_why), for_why);
    page.passage("", Style::Plain, action, limits.action);
}

/// `Release the instance ($12–$21.48, 80% confident): GPU 0–1 of 8 (vision/train-0)`, or `Use more loader workers
/// ($21.48 at stake, try first): GPU 0–1 of 8`, in at most `limit` lines if possible: first without its range, which is
/// beside the amount that is expected, then without the last words of the title.
pub(super) fn title(
    gpus: &[Gpu],
    bill: Option<&Bill>,
    it: &Recommendation,
    limit: usize,
) -> String {
    // How probable the cause of a trial is, is known from simulated fleets: good for an order.
    let confidence = match it.open_trial() {
        Some(trial) => {
            trial.order.map(|place| if place == 1 { "try first" } else { "try next" }.to_owned())
        }
        None => {
            it.settlement().is_none().then(|| format!("{:.0}% confident", it.confidence * 100.0))
        }
    };
    let range = match (it.kind, it.saving_usd) {
        (RecommendationKind::Risk, _) => None,
        _ if it.open_trial().is_some() => at_stake(bill, it),
        _ if it.is_refuted() => None,
        _ if saves_nothing(it) => at_stake(bill, it),
        (RecommendationKind::Saving, Some(usd)) => Some(dollars(bill, usd)),
        (RecommendationKind::Saving, None) => Some(percents(it.saving_fraction)),
        _ => Some(freed(gpus, it)),
    };
    let which = which(gpus, &it.gpus) + &owners(gpus, &it.gpus);
    let fits = |text: &str| lines(text) <= limit;
    let named = |title: &str, facts: [Option<&str>; 2]| {
        let facts: Vec<_> = facts.into_iter().flatten().collect();
        let facts =
            if facts.is_empty() { String::new() } else { format!(" ({})", facts.join(", ")) };
        format!("{title}{facts}: {which}")
    };
    let confidence = confidence.as_deref();
    let with_range = named(&it.title, [range.as_deref(), confidence]);
    if fits(&with_range) {
        return with_range;
    }
    let mut title = it.title.clone();
    loop {
        let text = named(&title, [None, confidence]);
        match title.trim_end_matches('…').rsplit_once(' ') {
            Some((shorter, _)) if !fits(&text) => title = format!("{shorter}…"),
            _ => return text,
        }
    }
}

/// `$154.13 at stake`: the waste that something is about which promises no part of it.
pub(super) fn at_stake(bill: Option<&Bill>, it: &Recommendation) -> Option<String> {
    let Stake { usd, gpu_hours } = it.at_stake;
    let amount = match usd {
        Some(Usd(usd)) => Bill::printed(bill, usd).brief(),
        None => format::gpu_time(gpu_hours),
    };
    (gpu_hours > 0.0).then(|| format!("{amount} at stake"))
}

fn dollars(
    bill: Option<&Bill>,
    Range { low: Usd(low), expected: Usd(expected), high: Usd(high) }: Range<Usd>,
) -> String {
    let [low, _, high] = Bill::alike(bill, [low, expected, high]).map(Dollars::brief);
    format!("{low}–{high}")
}

fn percents(Range { low, high, .. }: Range<f64>) -> String {
    format!("{:.0}–{:.0}%", low * 100.0, high * 100.0)
}

/// `0–33.6 of 48.0 GPU-hours`: what others may use.
fn freed(gpus: &[Gpu], it: &Recommendation) -> String {
    let all = gpu_hours(gpus, it);
    let Range { low, high, .. } = it.saving_fraction;
    let [low, high, all] = [low * all, high * all, all].map(format::tenths);
    format!("{low}–{high} of {all} GPU-hours")
}

/// The time of its GPUs.
fn gpu_hours(gpus: &[Gpu], it: &Recommendation) -> f64 {
    let of = gpus.iter().filter(|gpu| it.gpus.contains(&gpu.id));
    of.map(|gpu| gpu.span_seconds.0.as_secs_f64() / 3_600.0).sum()
}

/// What it is worth, in the column of labels.
pub(super) fn amount(gpus: &[Gpu], bill: Option<&Bill>, it: &Recommendation) -> String {
    match (it.kind, it.saving_usd) {
        (RecommendationKind::Risk, _) => "Risk".to_owned(),
        _ if it.open_trial().is_some() => "Try".to_owned(),
        _ if it.is_refuted() => "Tried".to_owned(),
        (RecommendationKind::Saving, _) if saves_nothing(it) => {
            if it.lever.is_diagnosis() { "Measure" } else { "Try" }.to_owned()
        }
        (RecommendationKind::Saving, Some(usd)) => saves(Bill::printed(bill, usd.expected.0)),
        (RecommendationKind::Saving, None) => {
            fitting("Saves", &[number::percent(it.saving_fraction.expected)])
        }
        _ if saves_nothing(it) => "Capacity".to_owned(),
        _ => {
            let hours = it.saving_fraction.expected * gpu_hours(gpus, it);
            fitting("Frees", &[format!("{} h", format::tenths(hours))])
        }
    }
}

/// Whether it promises no saving: it gives the GPUs more to do instead of giving back any of them, or
/// finds out what to do.
pub(super) fn saves_nothing(it: &Recommendation) -> bool {
    it.saving_fraction.high <= 0.0
}

fn saves(expected: Dollars) -> String {
    fitting("Saves", &[expected.short(), expected.whole()])
}

/// The first of these amounts that fits the column of labels, or the last one without the verb.
fn fitting(verb: &str, amounts: &[String]) -> String {
    let with_verb = amounts.iter().map(|amount| format!("{verb} {amount}"));
    let mut candidates = with_verb.chain(amounts.last().cloned());
    let fits = |text: &String| text.chars().count() < WIDTH - WIDTH_OF_FACTS;
    candidates.find(fits).unwrap_or_else(|| verb.to_owned())
}

/// The first sentence of a text, and those after it that fit so many lines with it.
fn whole_sentences(text: &str, limit: usize) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at + 1).chain([text.len()]);
    let of = ends.map(|end| text.get(..end).unwrap_or(text));
    let fits = |part: &&str| lines(part) <= limit;
    of.take_while(fits).last().unwrap_or_else(|| first_sentence(text))
}

/// A text up to its first full stop before a blank.
fn first_sentence(text: &str) -> &str {
    text.find(". ").and_then(|end| text.get(..=end)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::NanoUsd;

    use super::*;

    #[test]
    fn amounts_without_cents_are_rounded() {
        let saves = |millis: i128| saves(Dollars::of(NanoUsd(millis * 1_000_000)));
        assert_eq!(saves(4_230), "Saves $4.23");
        assert_eq!(saves(420_990), "Saves $421");
        assert_eq!(saves(99_999_990), "$100,000");
    }
}
