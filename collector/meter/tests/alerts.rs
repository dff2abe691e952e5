//! Alerts: the evaluator against a naive computation from its definition, and rules of the
//! documentation through a meter.

#![allow(
    clippy::unwrap_used,
    clippy::cast_precision_loss,
    clippy::float_cmp,
    reason = "a test may fail, and both sides compute the same"
)]

use std::collections::BTreeSet;
use std::sync::Arc;

use phasemeter_meter::alert::{
    Alert, AlertChange, AlertEvaluator, AlertLog, Condition, MAX_ALERTS, Metric, Rule, RuleCounts,
    RuleError,
};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Bytes, Celsius, Milliwatts, Nanos, Timestamp, Utilization};
use proptest::prelude::*;

const MINUTE: u64 = 60_000;

fn millis(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn minutes(minutes: u64) -> Nanos {
    Nanos::from_secs(60 * minutes)
}

/// What rules can be about.
const METRICS: [Quantity; 6] = [
    Quantity::Utilization,
    Quantity::MemoryUsed,
    Quantity::Power,
    Quantity::Temperature,
    Quantity::SmActivity,
    Quantity::DramActivity,
];

/// The place of a metric among them.
fn place(metric: Metric) -> usize {
    METRICS.iter().position(|quantity| *quantity == metric.quantity()).unwrap()
}

fn rule(quantity: Quantity, condition: Condition, window: u64, hold: u64) -> Rule {
    let metric = Metric::of(quantity).unwrap();
    let id = format!("{}-{window}-{hold}", metric.name());
    Rule::new(id, metric, condition, minutes(window), minutes(hold)).unwrap()
}

/// A change: rule, end of the minute, since when, whether it opened, and the mean.
type Change = (usize, u64, u64, bool, f64);

/// A time range: from, to, and a value for each metric.
type Range = (u64, u64, [Option<u32>; METRICS.len()]);

/// All changes by the definition: for each minute, everything in the window is added up again.
fn naive(rules: &[Rule], ranges: &[Range]) -> Vec<Change> {
    let (start, end) = (ranges[0].0, ranges[ranges.len() - 1].1);
    let mut changes = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let window = rule.window().0 / 1_000_000;
        let (mut since, mut held, mut open) = (None, 0, false);
        let mut at = (start / MINUTE + 1) * MINUTE;
        while at <= end {
            let (mut time, mut weighted) = (0_u64, 0_u128);
            for (from, to, values) in ranges {
                let covered = (*to).min(at).saturating_sub((*from).max(at.saturating_sub(window)));
                if let Some(value) = values[place(rule.metric())] {
                    time += covered;
                    weighted += u128::from(value) * u128::from(covered);
                }
            }
            if time > 0 && 2 * time >= window {
                let limit = u128::from(rule.condition().threshold()) * u128::from(time);
                let holds = match rule.condition() {
                    Condition::Below(_) => weighted < limit,
                    Condition::Above(_) => weighted > limit,
                };
                let mean = (weighted * 1_000_000) as f64 / (u128::from(time) * 1_000_000) as f64;
                if holds {
                    held = if since.is_some() { held + MINUTE } else { 0 };
                    let first = *since.get_or_insert(at);
                    if !open && held >= rule.hold().0 / 1_000_000 {
                        open = true;
                        changes.push((index, at, first, true, mean));
                    }
                } else {
                    let first = since.take();
                    if std::mem::take(&mut open) {
                        changes.push((index, at, first.unwrap(), false, mean));
                    }
                }
            }
            at += MINUTE;
        }
    }
    changes.sort_by_key(|change| (change.1, change.0));
    changes
}

fn evaluated(rules: &[Rule], ranges: &[Range]) -> (Vec<Change>, AlertEvaluator) {
    let mut evaluator = AlertEvaluator::new(rules.into());
    evaluator.begin(millis(ranges[0].0));
    let mut changes = Vec::new();
    for (from, to, values) in ranges {
        let value = |metric| values[place(metric)];
        evaluator.post(millis(*from), millis(*to), value, &mut |change| {
            let AlertChange { rule, at, since, opened, mean } = *change;
            let index = rules.iter().position(|it| it == rule).unwrap();
            let millis = |at: Timestamp| at.as_nanos() / 1_000_000;
            changes.push((index, millis(at), millis(since), opened, mean));
        });
    }
    (changes, evaluator)
}

fn rules() -> impl Strategy<Value = Vec<Rule>> {
    let condition = prop_oneof![
        (0..1_000_000_u32).prop_map(Condition::Below),
        (0..1_000_000_u32).prop_map(Condition::Above),
    ];
    let metric = prop::sample::select(&METRICS[..3]);
    let window = prop_oneof![1..5_u64, 1..60_u64];
    let parts = (metric, condition, window, 0..5_u64);
    prop::collection::vec(parts.prop_map(|(m, c, window, hold)| rule(m, c, window, hold)), 1..5)
        .prop_filter("rules differ", |rules| {
            rules.iter().enumerate().all(|(at, rule)| !rules[..at].contains(rule))
        })
}

fn ranges() -> impl Strategy<Value = Vec<Range>> {
    let value = || prop_oneof![2 => Just(None), 3 => (0..1_000_000_u32).prop_map(Some)];
    let length = prop_oneof![
        4 => 1..90_000_u64,
        1 => Just(MINUTE),
        2 => 1..20 * MINUTE,
        1 => 30 * MINUTE..200 * MINUTE,
    ];
    let values = (value(), value(), value(), any::<bool>());
    let start = 1_785_110_400_000..1_785_110_500_000_u64;
    (start, prop::collection::vec((length, values), 1..60)).prop_map(|(mut at, ranges)| {
        let ranges = ranges.into_iter().map(|(length, (a, b, c, is_gap))| {
            let from = at;
            at += length;
            let values = if is_gap && length > MINUTE {
                [None; METRICS.len()]
            } else {
                [a, b, c, None, None, None]
            };
            (from, at, values)
        });
        ranges.collect()
    })
}

proptest! {
    #[test]
    fn alerts_match_naive_reference(rules in rules(), ranges in ranges()) {
        let (changes, evaluator) = evaluated(&rules, &ranges);
        prop_assert_eq!(&changes, &naive(&rules, &ranges));
        // The log has what was emitted.
        let log = evaluator.log();
        for (index, counts) in log.counts().iter().enumerate() {
            let opened = changes.iter().filter(|it| it.0 == index && it.3).count();
            let closed = changes.iter().filter(|it| it.0 == index && !it.3).count();
            prop_assert_eq!(counts.opened, opened as u64);
            prop_assert_eq!(counts.is_open, opened > closed);
        }
        prop_assert_eq!(log.alerts().len(), changes.iter().filter(|it| it.3).count().min(MAX_ALERTS));
    }

    /// Long ranges, of which most minutes are skipped, give what their minutes give.
    #[test]
    fn range_is_evaluated_as_its_parts(rules in rules(), ranges in ranges()) {
        let split = |(from, to, values): &Range| {
            let (from, to, values) = (*from, *to, *values);
            let part = 40_000;
            (from..to).step_by(part).map(move |at| (at, to.min(at + part as u64), values))
        };
        let parts: Vec<Range> = ranges.iter().flat_map(split).collect();
        let ((changes, whole), (of_parts, in_parts)) =
            (evaluated(&rules, &ranges), evaluated(&rules, &parts));
        prop_assert_eq!(changes, of_parts);
        prop_assert_eq!(whole.log().counts(), in_parts.log().counts());
        prop_assert_eq!(whole.log().alerts(), in_parts.log().alerts());
    }

    /// Wherever a run is divided: each alert opens in one part, and is open at the start of those after it until it
    /// closes; counts of parts sum to those of the run.
    #[test]
    fn alerts_of_parts_are_those_of_the_run(
        rules in rules(),
        ranges in ranges(),
        begins in prop::collection::vec(any::<bool>(), 60),
    ) {
        let mut evaluator = AlertEvaluator::new(rules.clone().into());
        evaluator.begin(millis(ranges[0].0));
        let mut parts = Vec::new();
        for ((from, to, values), begins) in ranges.iter().zip(begins) {
            if begins {
                parts.push(evaluator.part_log().clone());
                evaluator.begin_part();
            }
            let value = |metric| values[place(metric)];
            evaluator.post(millis(*from), millis(*to), value, &mut |_| {});
        }
        parts.push(evaluator.part_log().clone());
        let run = evaluator.log();
        for (index, counts) in run.counts().iter().enumerate() {
            let sum = |of: fn(&RuleCounts) -> u64| parts.iter().map(|it| of(&it.counts()[index])).sum();
            prop_assert_eq!(counts.opened, sum(|it| it.opened));
            prop_assert_eq!(counts.evaluated, sum(|it| it.evaluated));
            prop_assert_eq!(counts.is_open, parts[parts.len() - 1].counts()[index].is_open);
        }
        let opened: Vec<_> = parts.iter().flat_map(AlertLog::alerts).collect();
        let same = |a: &Alert, b: &Alert| (a.rule, a.opened) == (b.rule, b.opened);
        for (alert, in_part) in run.alerts().iter().zip(&opened) {
            prop_assert!(same(alert, in_part), "{:?} {:?}", alert, in_part);
            let mut listed = parts.iter().flat_map(|it| it.alerts().iter().chain(it.continued()));
            let last = listed.rfind(|it| same(it, alert)).unwrap();
            prop_assert_eq!(last.closed, alert.closed);
            prop_assert_eq!(last.extreme, alert.extreme);
        }
        for pair in parts.windows(2) {
            let open: Vec<_> =
                pair[0].continued().iter().chain(pair[0].alerts()).filter(|it| it.closed.is_none()).collect();
            let begun: Vec<_> = pair[1].continued().iter().collect();
            prop_assert_eq!(open.len(), begun.len());
            prop_assert!(open.iter().zip(&begun).all(|(a, b)| same(a, b)));
        }
    }

    /// Readings in any order within the allowed lateness, at any cadence, give the same alerts.
    #[test]
    fn arrival_order_changes_no_alert(
        values in prop::collection::vec((0..100_u32, any::<bool>()), 30..400),
        step in 1_u64..20,
    ) {
        let readings: Vec<Reading> = values.iter().enumerate().map(|(tick, (value, known))| {
            let utilization = Utilization::from_percent(*value).filter(|_| *known);
            let at = millis(1_785_110_400_000 + tick as u64 * step * 1_000);
            let utilization = utilization.ok_or(MissingReason::Unreadable);
            Reading { utilization, ..Reading::at(at) }
        }).collect();
        let mut swapped = readings.clone();
        swapped.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
        let rules = [rule(Quantity::Utilization, Condition::Below(500_000), 2, 1)];
        prop_assert_eq!(metered(&rules, &readings), metered(&rules, &swapped));
    }
}

/// Receives opened and closed alerts: the rule, minutes since the start, and whether it opened.
#[derive(Debug, Default, PartialEq)]
struct Recorder(Vec<(String, u64, bool)>);

impl Observer for Recorder {
    fn alert(&mut self, change: &AlertChange<'_>) {
        let minute = (change.at.as_nanos() / 1_000_000 - 1_785_110_400_000) / MINUTE;
        self.0.push((change.rule.id().to_owned(), minute, change.opened));
    }
}

fn metered(rules: &[Rule], readings: &[Reading]) -> Recorder {
    let config = MeterConfig {
        allowed_lateness: Nanos::from_secs(60),
        stale_after: StaleAfter::Fixed(Nanos::from_secs(90)),
        ..MeterConfig::default()
    };
    let mut meter = GpuMeter::new(config, None, Bytes::from_mebibytes(1_000));
    let mut recorder = Recorder::default();
    meter.change_alert_rules(rules.into(), &BTreeSet::new(), &mut recorder);
    meter.set_power_limit(Milliwatts::new(400_000));
    for reading in readings {
        meter.push(*reading, &mut recorder).unwrap();
    }
    meter.finish(&mut recorder);
    recorder
}

/// A reading each minute, from these values of the minute.
fn each_minute(count: u64, of: impl Fn(u64, Reading) -> Reading) -> Vec<Reading> {
    let at = |minute: u64| millis(1_785_110_400_000 + minute * MINUTE);
    (0..=count).map(|minute| of(minute, Reading::at(at(minute)))).collect()
}

fn changes(rule: Rule, readings: &[Reading]) -> Vec<(u64, bool)> {
    let recorder = metered(&[rule], readings);
    recorder.0.into_iter().map(|(_, minute, opened)| (minute, opened)).collect()
}

#[test]
fn power_at_98_percent_of_its_limit_opens_and_at_90_does_not() {
    let above = || rule(Quantity::Power, Condition::Above(900_000), 1, 0);
    let at = |watts: u32| {
        each_minute(5, |_, reading| Reading { power: Milliwatts::new(watts * 1_000), ..reading })
    };
    assert_eq!(changes(above(), &at(395)), [(1, true)]);
    assert_eq!(changes(above(), &at(360)), []);
    assert_eq!(changes(above(), &at(361)), [(1, true)]);
}

/// Rules that are replaced while a run goes on: one goes on, one ends with its alert, and one begins with the window that
/// is known.
#[test]
fn rules_change_without_losing_what_is_known() {
    let below = |threshold: u32, window| {
        rule(Quantity::Utilization, Condition::Below(threshold * 10_000), window, 0)
    };
    let (kept, ended, added) = (below(50, 10), below(60, 5), below(70, 8));
    let mut evaluator = AlertEvaluator::new([kept.clone(), ended.clone()].into());
    evaluator.begin(millis(0));
    let mut changes: Vec<(String, u64, bool)> = Vec::new();
    let mut emit = |change: &AlertChange<'_>| {
        let minute = change.at.as_nanos() / 1_000_000 / MINUTE;
        changes.push((change.rule.id().to_owned(), minute, change.opened));
    };
    let at = |minute: u64| millis(minute * MINUTE);
    let low = |_: Metric| Some(400_000);
    evaluator.post(at(0), at(20), low, &mut emit);
    let all = [kept.clone(), ended.clone(), added.clone()];
    evaluator.change_rules(all.into(), &[1].into(), &mut emit);
    evaluator.post(at(20), at(22), low, &mut emit);
    evaluator.post(at(22), at(60), |_| Some(900_000), &mut emit);
    let id = |rule: &Rule| rule.id().to_owned();
    let opened: Vec<_> =
        changes.iter().map(|(rule, at, opened)| (rule.clone(), *at, *opened)).collect();
    assert_eq!(
        opened,
        [
            // Half of a window is enough.
            (id(&ended), 3, true),
            (id(&kept), 5, true),
            (id(&ended), 20, false),
            // Its window is known.
            (id(&added), 21, true),
            // 40% for 8 of 10 minutes, and 90%: not below 50%.
            (id(&kept), 24, false),
            // The same for 3 of 8 minutes: not below 70%.
            (id(&added), 27, false),
        ]
    );
    let counts: Vec<_> = evaluator.log().counts().iter().map(|it| it.evaluated).collect();
    assert_eq!(counts, [56, 18, 40]);
}

#[test]
fn mean_over_an_hour_opens_once_half_of_it_is_observed_and_closes_above() {
    let below = || rule(Quantity::Utilization, Condition::Below(500_000), 60, 0);
    let busy = |percent: u32, reading: Reading| Reading {
        utilization: Ok(Utilization::from_percent(percent).unwrap()),
        ..reading
    };
    // 40% for an hour, then 80%: the mean over the hour reaches 50% after 15 minutes.
    let readings = each_minute(120, |minute, it| busy(if minute < 60 { 40 } else { 80 }, it));
    assert_eq!(changes(below(), &readings), [(30, true), (75, false)]);
    // 50% exactly is not below it.
    assert_eq!(changes(below(), &each_minute(120, |_, it| busy(50, it))), []);
}

#[test]
fn unobserved_time_neither_opens_nor_closes_and_pauses_the_timer() {
    let hot = || rule(Quantity::Temperature, Condition::Above(83_000_000), 2, 5);
    // Hot from the start, without temperature in minutes 3 to 9, and cool from minute 20 on.
    let readings = each_minute(30, |minute, reading| Reading {
        temperature: (!(3..10).contains(&minute)).then_some(Celsius(if minute < 20 {
            90
        } else {
            60
        })),
        ..reading
    });
    // Held at minutes 1, 2, 3 and, with half of the window, 4; then paused until 11.
    assert_eq!(changes(hot(), &readings), [(12, true), (21, false)]);
    let without_gap = each_minute(30, |minute, reading| Reading {
        temperature: Some(Celsius(if minute < 20 { 90 } else { 60 })),
        ..reading
    });
    assert_eq!(changes(hot(), &without_gap), [(6, true), (21, false)]);
    // 83 degrees are not above 83 degrees.
    let limit = each_minute(30, |_, it| Reading { temperature: Some(Celsius(83)), ..it });
    assert_eq!(changes(hot(), &limit), []);
}

#[test]
fn memory_is_a_share_of_the_memory_and_needs_no_utilization() {
    let above = rule(Quantity::MemoryUsed, Condition::Above(850_000), 1, 2);
    let readings = each_minute(10, |minute, reading| Reading {
        memory_used: Bytes::from_mebibytes(if minute < 6 { 851 } else { 850 }),
        ..reading
    });
    assert_eq!(changes(above, &readings), [(3, true), (7, false)]);
}

/// A gap of 200 years takes no longer than one of a day.
#[test]
fn long_gap_costs_no_time() {
    let rules = [rule(Quantity::Utilization, Condition::Below(500_000), 24 * 60, 0)];
    let mut values = [None; METRICS.len()];
    values[0] = Some(100_000);
    let (start, day) = (1_785_110_400_000, 24 * 60 * MINUTE);
    let later = 200 * 365 * day;
    let ranges = [
        (start, start + day, values),
        (start + day, start + later, [None; METRICS.len()]),
        (start + later, start + later + day, values),
    ];
    let (changes, evaluator) = evaluated(&rules, &ranges);
    assert_eq!(changes, [(0, start + day / 2, start + day / 2, true, 100_000.0)]);
    // Twice half a day and the minute at its end: while the window empties, and while it fills.
    assert_eq!(evaluator.log().counts()[0].evaluated, 2 * 720 + 720 + 2);
}

#[test]
fn number_of_kept_alerts_is_limited_and_all_are_counted() {
    let rules = [rule(Quantity::Utilization, Condition::Below(500_000), 1, 0)];
    let start = 1_785_110_400_000;
    let ranges: Vec<Range> = (0..1_000)
        .map(|minute| {
            let mut values = [None; METRICS.len()];
            values[0] = Some(if minute % 2 == 0 { 0 } else { 1_000_000 });
            (start + minute * MINUTE, start + (minute + 1) * MINUTE, values)
        })
        .collect();
    let (changes, evaluator) = evaluated(&rules, &ranges);
    assert_eq!(changes.len(), 1_000);
    assert_eq!(evaluator.log().alerts().len(), MAX_ALERTS);
    assert_eq!(evaluator.log().counts()[0].opened, 500);
}

#[test]
fn times_of_rules_are_whole_minutes_within_limits() {
    let rule = |window: u64, hold: u64| {
        let times = (Nanos::from_secs(window), Nanos::from_secs(hold));
        let metric = Metric::of(Quantity::MemoryUsed).unwrap();
        let rule = Rule::new("x".to_owned(), metric, Condition::Above(1), times.0, times.1);
        rule.map(|_| ())
    };
    assert_eq!(rule(60, 0), Ok(()));
    assert_eq!(rule(86_400, 7 * 86_400), Ok(()));
    for window in [0, 59, 61, 86_460] {
        assert_eq!(rule(window, 0), Err(RuleError::Window), "{window}");
    }
    for hold in [1, 90, 7 * 86_400 + 60] {
        assert_eq!(rule(60, hold), Err(RuleError::Hold), "{hold}");
    }
}

#[test]
fn last_instants_end_the_evaluation() {
    let rules: Arc<[Rule]> = [rule(Quantity::Utilization, Condition::Below(1), 1, 0)].into();
    let mut evaluator = AlertEvaluator::new(rules);
    let start = Timestamp::LAST.saturating_sub(minutes(2));
    evaluator.begin(start);
    evaluator.post(start, Timestamp::LAST, |_| Some(0), &mut |_| {});
    evaluator.post(Timestamp::LAST, Timestamp::LAST, |_| Some(0), &mut |_| {});
    assert!(evaluator.log().counts()[0].is_open);
}
