//! That a report does not contradict itself, checked on every one that situations and fleets give.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::{list, nanos};

/// Checks a report. `id` names it.
pub(crate) fn check(report: &Value, id: &str) {
    check_alternatives(report, id);
    check_missing(report, id);
    check_order(report, id);
}

/// Checks the text of a report: a saving that rounds to nothing is not printed as one.
pub(crate) fn check_text(text: &str, id: &str) {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for nothing in
        ["saves 0%", "Saves 0%", "Saves 0.0%", "Saves $0 ", "($0–$0,", "(0–0%", "Frees 0 h"]
    {
        assert!(!words.contains(nothing), "{id}: {nothing} in\n{text}");
    }
}

/// Of recommendations with one target on one GPU, the best alone counts: what is saved in all is no more than if
/// each target of each GPU were saved at its best.
fn check_alternatives(report: &Value, id: &str) {
    let most: f64 = list(&report["gpus"]).iter().map(|gpu| most_saved(report, gpu)).sum();
    let expected = nanos(&report["savings"]["total_usd"]["expected"]).unwrap_or_default() as f64;
    assert!(expected <= most * 1.000_001 + 1_000.0, "{id}: {expected} of {most} nano-dollars");
}

/// The most that recommendations may save of the bill of a GPU, in nano-dollars.
fn most_saved(report: &Value, gpu: &Value) -> f64 {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for it in list(&report["recommendations"]) {
        if it["counted"] == true && list(&it["gpus"]).contains(&gpu["id"]) {
            let saved = best.entry(it["target"].as_str().unwrap()).or_default();
            *saved = saved.max(it["saving_fraction"]["expected"].as_f64().unwrap());
        }
    }
    let left: f64 = best.values().map(|saved| 1.0 - saved).product();
    nanos(&gpu["cost_usd"]).unwrap_or_default() as f64 * (1.0 - left)
}

/// What a recommendation has as evidence is not missing for one of its GPUs, and what is advised is not called too
/// doubtful to advise.
fn check_missing(report: &Value, id: &str) {
    for need in list(&report["needs"]) {
        let is_of =
            |it: &&Value| list(&it["gpus"]).iter().any(|gpu| list(&need["gpus"]).contains(gpu));
        for it in list(&report["recommendations"]).iter().filter(is_of) {
            let (missing, title) =
                (need["missing"].as_str().unwrap(), it["title"].as_str().unwrap());
            assert!(it["evidence"].get(missing).is_none(), "{id}: \"{title}\" has {missing}");
            let is_denied = need["reason"].as_str().unwrap().contains(title);
            assert!(!is_denied, "{id}: \"{title}\" is advised, and {missing} is missing for it");
        }
        assert!(!need["reason"].as_str().unwrap().contains("saves 0%"), "{id}: {need}");
    }
}

/// Risks come first, then what is about the most waste, then lower rates.
fn check_order(report: &Value, id: &str) {
    let place = |it: &Value| match (it["kind"].as_str().unwrap(), it["target"].as_str().unwrap()) {
        ("risk", _) => 0,
        (_, "rate") => 2,
        _ => 1,
    };
    let stake = |it: &Value| {
        let at_stake = &it["at_stake"];
        (nanos(&at_stake["usd"]).unwrap_or(-1), at_stake["gpu_hours"].as_f64().unwrap())
    };
    for pair in list(&report["recommendations"]).windows(2) {
        let [before, after] = [&pair[0], &pair[1]];
        let is_ordered = match (place(before), place(after)) {
            // A smaller GPU is about its waste, and so may be anywhere among these.
            (1, 1) => stake(before) >= stake(after),
            (0, _) | (_, 2) | (2, 1) => true,
            _ => false,
        };
        assert!(is_ordered, "{id}: {} is before {}", before["code"], after["code"]);
    }
}
