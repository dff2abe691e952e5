//! Recommendations in full, as `--explain` shows them, and uncovered waste.

use phasemeter_rules::recommendation::RecommendationKind;
use phasemeter_savings::trial::Outcome;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, SEPARATOR};
use phasemeter_terminal::quantity::quantity;

use crate::findings::Finding;
use crate::model::Report;
use crate::policies::{Evidence, Range, Recommendation, Settlement, Trial};
use crate::value::Usd;

use super::amounts::Bill;
use super::format::Dollars;
use super::gpus::{by_name, which};
use super::owners::owners;
use super::recommendations::{amount, at_stake, saves_nothing};
use super::uncovered;

/// Maximum lines of one fact: text of policies is not limited otherwise.
const LINES: usize = 12;

/// All recommendations, or those with this code, and all uncovered waste.
pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>, code: Option<&str>) {
    let is_chosen = |it: &Recommendation| code.is_none_or(|code| it.code == code);
    if let Some(code) = code.filter(|_| !report.recommendations.iter().any(is_chosen)) {
        let mut codes: Vec<&str> = report.recommendations.iter().map(|it| &*it.code).collect();
        codes.sort_unstable();
        codes.dedup();
        page.end_line();
        let known = if codes.is_empty() { "there are none".to_owned() } else { codes.join(", ") };
        page.sentences("Explain", [format!("no recommendation has the code '{code}': {known}")]);
    }
    for finding in report.findings() {
        match finding {
            Finding::Advice(it) if is_chosen(it) => {
                page.end_line();
                recommendation(page, report, bill, it);
            }
            Finding::Advice(_) => {}
            Finding::Uncovered(wastes) => {
                page.end_line();
                uncovered::write(page, &report.gpus, bill, &wastes);
            }
        }
    }
}

fn recommendation(page: &mut Page, report: &Report, bill: Option<&Bill>, it: &Recommendation) {
    page.titled(&amount(&report.gpus, bill, it), &it.title);
    let effect = match it.kind {
        RecommendationKind::Risk => None,
        _ if it.open_trial().is_some() => at_stake(bill, it),
        RecommendationKind::Saving if saves_nothing(it) => {
            let stake = at_stake(bill, it).map(|stake| format!(", {stake}"));
            Some(format!("saves nothing by itself{}", stake.unwrap_or_default()))
        }
        RecommendationKind::Saving => Some(saves(bill, it)),
        _ if saves_nothing(it) => None,
        RecommendationKind::Capacity => Some(format!("frees {} for other work", share(it))),
    };
    let excluded = report.savings.is_some()
        && !it.counted
        && it.kind == RecommendationKind::Saving
        && it.open_trial().is_none()
        && !saves_nothing(it);
    let confidence = match (it.open_trial(), it.settlement()) {
        (Some(trial), _) => trial.order.map(|place| format!("place {place} of those to try")),
        (None, Some(settled)) => Some(format!("settled: {}", shown(settled))),
        (None, None) => Some(format!("confidence {:.0}%", it.confidence * 100.0)),
    };
    let facts = [
        Some(which(&report.gpus, &it.gpus) + &owners(&report.gpus, &it.gpus)),
        effect,
        excluded.then(|| "not added to the total savings".to_owned()),
        confidence,
        Some(format!("effort {}", it.effort.name())),
        it.reversible.then(|| "can be undone".to_owned()),
    ];
    page.fact("", &facts.into_iter().flatten().collect::<Vec<_>>(), SEPARATOR);
    page.passage("Why", super::Style::Plain, &by_name(&report.gpus, &it.rationale), LINES);
    page.passage("Action", super::Style::Plain, &by_name(&report.gpus, &it.action), LINES);
    if let Some(Trial { supposes, hours, shows, command, .. }) = it.open_trial() {
        page.passage("Supposes", super::Style::Plain, &format!("that {supposes}"), LINES);
        let protocol = format!(
            "{hours} hours of the same work before and after, with --work-log: phasemeter compare must show {shows}. To \
             settle it: {command}"
        );
        page.passage("Trial", super::Style::Plain, &protocol, LINES);
    }
    let number = |(name, it): (&String, &Evidence)| {
        format!("{} {}", name.replace(['_', '.'], " "), quantity(it.value, &it.unit))
    };
    let numbers: Vec<_> = it.evidence.iter().map(number).collect();
    page.at_most("Evidence", &numbers, LINES);
    if let Some(remediation) = &it.remediation {
        let parameters = remediation.parameters.iter();
        let parameters = parameters.map(|(name, value)| format!("{name}={value}"));
        let parts: Vec<_> = [remediation.kind.clone()].into_iter().chain(parameters).collect();
        page.at_most("Automation", &parts, LINES);
    }
    let source = [format!("code {}", it.code), format!("lever {}", it.lever)];
    let source: Vec<_> = source.into_iter().chain([format!("policy {}", it.policy)]).collect();
    page.fact("Source", &source, SEPARATOR);
}

/// What a trial has shown.
fn shown(settled: &Settlement) -> String {
    let record = &settled.record;
    match settled.result {
        Outcome::Saves => format!("saves by {record}"),
        Outcome::Worse => format!("costs more by {record}"),
        Outcome::NoDifference | Outcome::NotComparable => format!("no difference by {record}"),
    }
}

/// The saving in dollars, if these GPUs have a price, and as a fraction of their bill.
fn saves(bill: Option<&Bill>, it: &Recommendation) -> String {
    match it.saving_usd {
        Some(Range { low: Usd(low), expected: Usd(expected), high: Usd(high) }) => {
            let [low, expected, high] =
                Bill::alike(bill, [low, expected, high]).map(Dollars::brief);
            format!("saves {expected} ({low}–{high}), {}", share(it))
        }
        None => format!("saves {}", share(it)),
    }
}

/// `23.0% of their bill, 0–42%`.
fn share(it: &Recommendation) -> String {
    let Range { low, expected, high } = it.saving_fraction;
    let [low, high] = [low, high].map(|fraction| format!("{:.0}", fraction * 100.0));
    let whose = if it.gpus.len() == 1 { "its" } else { "their" };
    format!("{} of {whose} bill, {low}–{high}%", number::percent(expected))
}
