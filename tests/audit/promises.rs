//! What a recommendation may promise, checked on every one of a report, and that no large waste is silent.
//!
//! The low saving is 0 for whatever needs a trial, another tenant or a quote. It is above 0 only for time
//! without work on whole instances that can be given back, and for a price with its source for the same
//! provider, region and model.

use serde_json::Value;

use crate::consistency;
use crate::report::{list, nanos};

/// Levers that give instances back while nothing runs on them.
const RELEASE: [&str; 5] = ["autoscale", "schedule", "consolidate", "release_memory", "replicas"];

/// Levers of another price for the same instance, and the evidence of that price.
const PRICES: [(&str, &str); 3] = [
    ("spot", "spot.price"),
    ("reserved_1y", "committed.price"),
    ("reserved_3y", "committed.price"),
];

/// A row of the built-in price book.
struct Instance<'a> {
    place: [&'a str; 3],
    model: &'a str,
    gpus: usize,
    spot: Option<f64>,
}

fn instances() -> impl Iterator<Item = Instance<'static>> {
    let book = include_str!("../../collector/meter/data/gpu-instances.csv");
    book.lines().skip(1).map(|line| {
        let cells: Vec<_> = line.split(',').collect();
        Instance {
            place: [cells[0], cells[1], cells[2]],
            model: cells[3],
            gpus: cells[4].parse().unwrap(),
            spot: cells[7].parse().ok(),
        }
    })
}

/// Checks a report. `id` names it.
pub(crate) fn check(report: &Value, id: &str) {
    consistency::check(report, id);
    for category in ["starvation", "idle", "underload"] {
        assert!(is_said(report, category), "{id}: {category} above 5% of the bill is silent");
    }
    for it in list(&report["recommendations"]) {
        let code = it["code"].as_str().unwrap();
        if let Err(problem) = promise(report, it) {
            panic!("{id}: {code}: {problem}: {it:#}");
        }
    }
}

/// Levers that return GPUs, or share them, as far as the load allows: their idle time ends too.
const END_IDLE_TIME: [&str; 8] =
    ["autoscale", "bin_pack", "consolidate", "mig", "mps", "replicas", "schedule", "time_slicing"];

/// Whether waste of a category above 5% of the bill that recommendations leave is named, with its GPUs and with what
/// is missing, or with a risk that comes first.
fn is_said(report: &Value, category: &str) -> bool {
    let ends_idle_time = |it: &Value| {
        let lever = it["lever"].as_str().unwrap();
        it["target"] == "underload" && END_IDLE_TIME.contains(&lever)
    };
    let on_it = |it: &&Value| it["target"] == category || category == "idle" && ends_idle_time(it);
    let recommendations: Vec<&Value> =
        list(&report["recommendations"]).iter().filter(on_it).collect();
    let cost = |value: &Value| nanos(value).unwrap_or_default();
    let gpus = list(&report["gpus"]).iter();
    let bill: i128 = gpus.clone().map(|gpu| cost(&gpu["cost_usd"])).sum();
    let left = gpus.filter(|gpu| !gpu["cost_usd"].is_null()).map(|gpu| {
        let lost = |category: &str| cost(&gpu["waste_by_category_usd"][category]) as f64;
        let (waste, bill) = (lost(category), cost(&gpu["cost_usd"]) as f64);
        let own = recommendations.iter().filter(|it| list(&it["gpus"]).contains(&gpu["id"]));
        let covered = own.map(|it| {
            let before = if it["target"] == category { 0.0 } else { lost("underload") };
            covered(it, before, waste, bill)
        });
        waste - covered.fold(0.0, f64::max)
    });
    let left: f64 = left.filter(|left| *left > 0.0).sum();
    let is_named = list(&report["uncovered_waste"]).iter().any(|it| {
        it["category"] == category
            && !(list(&it["missing"]).is_empty() && list(&it["risks"]).is_empty())
            && !list(&it["gpus"]).is_empty()
            && (it["usd"].is_null() || cost(&it["usd"]) as f64 >= 0.999 * left)
    });
    let all = list(&report["recommendations"]).iter().filter(on_it);
    let all = all.filter(|it| it["kind"] != "risk");
    let covered: Vec<&Value> = all.flat_map(|it| list(&it["gpus"])).collect();
    let is_small = left <= 0.05 * bill as f64 + 1.0
        && (category != "idle" || idle_without_price(report, &covered) <= 0.05);
    is_small || is_named
}

/// The waste that a recommendation is about, beyond other waste `before` it: time that is certainly free is only that
/// time, what needs a trial is all of it if it may save a third, and a cause without a number all of it. A risk
/// returns nothing.
fn covered(it: &Value, before: f64, waste: f64, bill: f64) -> f64 {
    let [low, high] = ["low", "high"].map(|name| it["saving_fraction"][name].as_f64().unwrap());
    let is_trial = low == 0.0 && 3.0 * high * bill >= 0.999 * (before + waste);
    match it["kind"].as_str().unwrap() {
        "risk" => 0.0,
        "capacity" if high == 0.0 => 0.0,
        _ if high > 0.0 && !is_trial => (high * bill - before).max(0.0),
        _ => waste,
    }
}

/// Share of the time of GPUs without a price that those without a recommendation are idle. Below 10% of
/// utilization almost all of it is lost.
fn idle_without_price(report: &Value, covered: &[&Value]) -> f64 {
    let seconds = |value: &Value| value.as_f64().unwrap_or_default();
    let gpus = || list(&report["gpus"]).iter().filter(|gpu| gpu["cost_usd"].is_null());
    let all: f64 = gpus().map(|gpu| seconds(&gpu["span_seconds"])).sum();
    let idle = gpus().filter(|gpu| {
        let bounces = gpu["pattern"]["kind"] == "bouncing";
        !covered.contains(&&gpu["id"]) && !bounces
    });
    let idle: f64 = idle.map(|gpu| seconds(&gpu["phases"]["idle"]["seconds"])).sum();
    if all > 0.0 { 0.9 * idle / all } else { 0.0 }
}

fn promise(report: &Value, it: &Value) -> Result<(), &'static str> {
    let remediation = &it["remediation"];
    if !remediation.is_null() && remediation["parameters"]["unless"].as_str().is_none() {
        return Err("automation does not say when it is wrong");
    }
    let saving =
        ["low", "expected", "high"].map(|name| it["saving_fraction"][name].as_f64().unwrap());
    let [low, expected, high] = saving;
    let (lever, target) = (it["lever"].as_str().unwrap(), it["target"].as_str().unwrap());
    if !(0.0 <= low && low <= expected && expected <= high && high <= 1.0) {
        return Err("savings are out of order");
    }
    if it["kind"] == "saving" && high == 0.0 && lever != "measure" && !is_conditional(it) {
        return Err("it saves nothing, and is neither a condition nor a trial");
    }
    if low == 0.0 {
        return Ok(());
    }
    if it["kind"] != "saving" {
        return Err("only a saving has a low saving");
    }
    let ids: Vec<_> = list(&it["gpus"]).iter().collect();
    let gpus = list(&report["gpus"]).iter().filter(|gpu| ids.contains(&&gpu["id"]));
    let gpus: Vec<_> = gpus.collect();
    if gpus.iter().any(|gpu| is_committed(&gpu["price"])) {
        return Err("committed GPUs free capacity only");
    }
    if !is_of_lowest_price(&gpus, it) {
        return Err("more than at the lowest price of its estimate");
    }
    if target == "idle" && RELEASE.contains(&lever) {
        return release(&gpus, low);
    }
    match PRICES.iter().find(|(name, _)| *name == lever) {
        Some((_, evidence)) => gpus.iter().try_for_each(|gpu| price(gpu, it, evidence)),
        None => Err("it needs a trial, a tenant or a quote"),
    }
}

/// Whether it depends on what the work is, or on a trial: nothing is counted for it, and nothing automates it.
fn is_conditional(it: &Value) -> bool {
    let code = it["code"].as_str().unwrap();
    let is_named = code.ends_with(".conditional") || code.ends_with(".trial");
    is_named && it["counted"] == false && it["remediation"].is_null()
}

fn is_committed(price: &Value) -> bool {
    ["owned", "reserved_1y", "reserved_3y"].iter().any(|plan| price["plan"] == *plan)
}

fn at(price: &Value) -> [&str; 3] {
    ["provider", "region", "instance_type"].map(|part| price[part].as_str().unwrap_or_default())
}

/// Whole instances, and no more than the time in which they were idle.
fn release(gpus: &[&Value], low: f64) -> Result<(), &'static str> {
    let place = at(&gpus[0]["price"]);
    let size = instances().find(|row| row.place[0] == place[0] && row.place[2] == place[2]);
    if size.is_some_and(|row| !gpus.len().is_multiple_of(row.gpus)) {
        return Err("only whole instances can be given back");
    }
    let sum = |value: &dyn Fn(&Value) -> f64| gpus.iter().map(|gpu| value(gpu)).sum::<f64>();
    let idle = sum(&|gpu| gpu["phases"]["idle"]["seconds"].as_f64().unwrap());
    let span = sum(&|gpu| gpu["span_seconds"].as_f64().unwrap());
    if low * span > idle + 1.0 {
        return Err("more than the time that was idle");
    }
    Ok(())
}

/// The low saving in dollars is of a bill at the lowest price that an estimate was selected from.
fn is_of_lowest_price(gpus: &[&Value], it: &Value) -> bool {
    let rate = |value: &Value| nanos(value).unwrap_or_default() as f64;
    let lowest = gpus.iter().map(|gpu| {
        let paid = rate(&gpu["rate_usd_per_gpu_hour"]).max(1.0);
        let share = match &gpu["price"]["estimate"] {
            Value::Null => 1.0,
            estimate => (rate(&estimate["low_usd_per_gpu_hour"]) / paid).min(1.0),
        };
        rate(&gpu["cost_usd"]) * share
    });
    let low = it["saving_fraction"]["low"].as_f64().unwrap();
    let most = low * lowest.sum::<f64>();
    nanos(&it["saving_usd"]["low"]).is_none_or(|usd| usd as f64 <= most * 1.000_001 + 100.0)
}

/// The price that the book lists, for the same provider, region, instance type and model.
fn price(gpu: &Value, it: &Value, evidence: &str) -> Result<(), &'static str> {
    let paid = &gpu["price"];
    if !paid["estimate"].is_null() {
        return Err("an estimated price promises nothing");
    }
    let claimed =
        it["evidence"][evidence]["value"].as_f64().ok_or("without the price as evidence")?;
    let listed = instances().find(|row| row.place == at(paid) && gpu["model"] == row.model);
    // Without a price book of the user, only spot prices are listed.
    let listed = listed.and_then(|row| Some(row.spot? / row.gpus as f64));
    let paid = nanos(&gpu["rate_usd_per_gpu_hour"]).ok_or("without a price")? as f64 / 1e9;
    match listed {
        Some(listed) if (listed - claimed).abs() < 1e-6 && claimed < paid => Ok(()),
        _ => Err("the price is not listed for this instance"),
    }
}
