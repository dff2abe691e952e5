//! Patterns of synthetic loads, and waste categories against an independent classification.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::series::{POINTS, Recorded};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_oracle::{ORACLE_ACCOUNTS, Oracle, OracleAccount, Row};
use proptest::prelude::*;

const START: u64 = 1_785_110_400_000;

/// $3.60 per hour is 1,000 nano-USD per millisecond, so charges of whole milliseconds are not
/// rounded.
const RATE: u64 = 3_600_000_000;

fn summary(rows: &[Row]) -> Summary {
    meter(MeterConfig::default(), rows).summary()
}

fn meter(config: MeterConfig, rows: &[Row]) -> GpuMeter {
    let mut meter = GpuMeter::new(config, Rate::new(RATE), None);
    for row in rows {
        let ppm = row.ppm.map(|ppm| u32::try_from(ppm).unwrap());
        let utilization = ppm.and_then(Utilization::from_ppm).ok_or(MissingReason::Unreadable);
        let at = Timestamp::from_millis(row.at).unwrap();
        meter.push(Reading { utilization, ..Reading::at(at) }, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    meter
}

/// Readings every 100 ms of a load in percent, a function of the milliseconds since the start.
fn load(seconds: u64, percent: impl Fn(u64) -> u64) -> Vec<Row> {
    (0..=seconds * 10)
        .map(|tick| Row {
            at: START + tick * 100,
            ppm: Some(percent(tick * 100) * 10_000),
            held: None,
        })
        .collect()
}

fn kind(rows: &[Row]) -> Option<PatternKind> {
    summary(rows).pattern.map(|pattern| pattern.kind)
}

/// One mean of 50%, once bouncing and once steady.
#[test]
fn bouncing_and_steady_loads_with_equal_mean_differ() {
    let bouncing = load(600, |ms| if ms % 40_000 < 20_000 { 100 } else { 0 });
    let steady = load(600, |ms| 48 + ms / 100 % 5);
    let summary = summary(&bouncing);
    let pattern = summary.pattern.unwrap();
    assert_eq!(pattern.kind, PatternKind::Bouncing);
    assert_eq!(pattern.period, Some(Nanos::from_secs(40)));
    assert_eq!(pattern.duty_cycle, Some(500_000));
    assert_eq!(kind(&steady), Some(PatternKind::Steady));
}

/// The mean of a second hides it; the readings do not.
#[test]
fn bouncing_within_a_second_is_detected() {
    let rows = load(60, |ms| if ms % 400 < 200 { 100 } else { 0 });
    let pattern = summary(&rows).pattern.unwrap();
    assert_eq!(pattern.kind, PatternKind::Bouncing);
    assert_eq!(pattern.period, Some(Nanos::from_millis(400)));
}

#[test]
fn bouncing_requires_ten_cycles() {
    // A cycle ends when the next begins: n rises are n - 1 cycles.
    let rises = |n: u64| {
        load(n * 10 + 5, move |ms| if ms < n * 10_000 && ms % 10_000 >= 5_000 { 100 } else { 0 })
    };
    assert_eq!(kind(&rises(10)), Some(PatternKind::Mixed));
    assert_eq!(kind(&rises(11)), Some(PatternKind::Bouncing));
}

/// Waste of a GPU with bursts is idle, since it waits for work and not for input.
#[test]
fn bursts_of_less_than_a_tenth_are_idle() {
    let bursts = |high: u64| load(600, move |ms| if ms % 20_000 < high { 100 } else { 0 });
    assert_eq!(kind(&bursts(2_000)), Some(PatternKind::Bouncing));
    let summary = summary(&bursts(600));
    assert_eq!(summary.pattern.map(|pattern| pattern.kind), Some(PatternKind::Idle));
    assert_eq!(summary.waste.starvation, NanoUsd::ZERO);
}

#[test]
fn idle_mixed_steady_and_insufficient_data() {
    assert_eq!(
        kind(&load(600, |ms| if ms % 300_000 < 3_000 { 60 } else { 2 })),
        Some(PatternKind::Idle)
    );
    assert_eq!(kind(&load(600, |ms| if ms < 300_000 { 0 } else { 97 })), Some(PatternKind::Mixed));
    assert_eq!(kind(&load(29, |_| 97)), None);
    assert_eq!(kind(&load(30, |_| 97)), Some(PatternKind::Steady));
}

/// Bouncing stretches found with all rows at hand: (from, to) in milliseconds, of at least ten
/// cycles.
fn stretches(rows: &[Row]) -> Vec<(u64, u64)> {
    let stale_after = phasemeter_oracle::stale_after(rows);
    let (mut low, mut rise, mut fall) = (false, None::<u64>, None::<u64>);
    let mut cycles: Vec<(u64, u64)> = Vec::new();
    // The last reading covers no time.
    for (index, row) in rows.iter().enumerate().take(rows.len() - 1) {
        let unknown = index > 0 && row.at > rows[index - 1].at + stale_after;
        if unknown || row.ppm.is_none() {
            (low, rise, fall) = (false, None, None);
        }
        match row.ppm {
            Some(ppm) if ppm < 100_000 => {
                low = true;
                fall = fall.or(Some(row.at));
            }
            Some(ppm) if ppm >= 700_000 && low => {
                low = false;
                // A cycle is busy for at least a tenth of its length.
                if let Some(before) = rise.replace(row.at)
                    && row.at - before <= 120_000
                    && fall.is_some_and(|fall| (fall - before) * 10 >= row.at - before)
                {
                    cycles.push((before, row.at));
                }
                fall = None;
            }
            _ => {}
        }
    }
    let mut found: Vec<Vec<(u64, u64)>> = Vec::new();
    for cycle in cycles {
        match found.last_mut() {
            Some(stretch) if cycle.0 - stretch[stretch.len() - 1].1 <= 120_000 => {
                stretch.push(cycle);
            }
            _ => found.push(vec![cycle]),
        }
    }
    found
        .iter()
        .filter(|stretch| stretch.len() >= 10)
        .map(|stretch| (stretch[0].0, stretch[stretch.len() - 1].1))
        .collect()
}

/// Square waves of any period, steps and gaps in sequence.
fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let wave = (200_u64..30_000, 1_u64..18, 1_u64..16)
        .prop_map(|(period, duty_cycle, cycles)| (period, period * duty_cycle / 20, cycles));
    let pause = prop_oneof![Just(0_u64), 0_u64..5_000, 100_000_u64..140_000];
    let steady = (0_u64..=100, 1_u64..80);
    prop::collection::vec((wave, pause, steady), 1..5).prop_map(|parts| {
        let (mut rows, mut now) = (Vec::new(), START);
        let mut push = |now: u64, percent: u64| {
            rows.push(Row { at: now, ppm: Some(percent * 10_000), held: None });
        };
        for ((period, high, cycles), pause, (percent, count)) in parts {
            let end = now + period * cycles;
            let begin = now;
            while now < end {
                push(now, if (now - begin) % period < high { 95 } else { 3 });
                now += 100;
            }
            now += pause;
            for _ in 0..count {
                push(now, percent);
                now += 100;
            }
        }
        rows
    })
}

/// Waste by category: starvation inside `stretches`, idle in idle seconds elsewhere, underload the
/// rest.
fn reference_waste(rows: &[Row], oracle: &Oracle) -> [i128; 3] {
    let stretches = stretches(rows);
    let starved = |ms: u64| {
        let second = ms / 1_000 * 1_000;
        stretches.iter().any(|(from, to)| *from <= second && second < *to)
    };
    let (mut starvation, mut idle, mut underload) = (0, 0, 0);
    for oracle_account in ORACLE_ACCOUNTS
        .into_iter()
        .filter(|oracle_account| *oracle_account != OracleAccount::Unobserved)
    {
        let of = |inside: Option<bool>| {
            let mine = (oracle.start..).zip(&oracle.millis).filter(|(ms, (b, _))| {
                *b == oracle_account && inside.is_none_or(|inside| starved(*ms) == inside)
            });
            let (time, weight) = mine.fold((0, 0), |(n, w), (_, (_, ppm))| (n + 1, w + ppm));
            time * 1_000 - weight * 1_000 / 1_000_000
        };
        let (all, inside) = (of(None), of(Some(true)));
        starvation += inside;
        if oracle_account.label() == "idle" {
            idle += all - inside;
        } else {
            underload += all - inside;
        }
    }
    [starvation, idle, underload].map(i128::from)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Each second's waste is in exactly one category.
    #[test]
    fn waste_categories_match_reference(rows in any_rows()) {
        let found = summary(&rows).waste;
        let found = [found.starvation, found.idle, found.underload].map(|waste| waste.0);
        prop_assert_eq!(found, reference_waste(&rows, &Oracle::of(&rows)));
    }

    /// The recent window has the accounts and waste of its time, even if a bouncing stretch began
    /// before it.
    #[test]
    fn recent_window_matches_reference(
        rows in any_rows(), session in 1_u64..60, window in 0_u64..60,
    ) {
        let config = MeterConfig {
            session_every: Nanos::from_secs(session),
            window: Nanos::from_secs(window),
            ..MeterConfig::default()
        };
        let (start, end) = (rows[0].at, rows[rows.len() - 1].at);
        let recent = meter(config, &rows).window_totals(Timestamp::from_millis(end).unwrap());
        let session = session * 1_000;
        let from = (end / session * session).saturating_sub(window * 1_000);
        let ends = phasemeter_oracle::session_ends(&rows, session);
        let from = if start < from { ends.into_iter().find(|at| from <= *at).unwrap() } else { start };
        let oracle = Oracle::of(&rows).part(from, end);

        let [from, end] = [from, end].map(|at| Timestamp::from_millis(at).unwrap());
        prop_assert_eq!(recent.span, Some((from, end)));
        for (account, oracle_account) in Account::ALL.into_iter().zip(ORACLE_ACCOUNTS) {
            let balance = recent.accounts[account];
            prop_assert_eq!(balance.time, Nanos::from_millis(oracle.millis_in(oracle_account)));
            prop_assert_eq!(balance.weighted, u128::from(oracle.weight_in(oracle_account)) * 1_000_000);
            prop_assert_eq!(balance.cost.0, i128::from(oracle.millis_in(oracle_account)) * 1_000);
        }
        let found = recent.waste;
        let found = [found.starvation, found.idle, found.underload].map(|waste| waste.0);
        prop_assert_eq!(found, reference_waste(&rows, &oracle));
    }
}

/// Scenario: a process runs out of memory on the first of three days, and the monitor of another stands still then.
/// Guarantee: the run tells both, and its last day neither.
#[test]
fn ends_and_stillness_of_a_window_are_those_of_its_time() {
    const HOUR: u64 = 3_600_000;
    let config = MeterConfig { session_every: MeterConfig::SESSION, ..MeterConfig::default() };
    let mut meter = GpuMeter::new(config, Rate::new(RATE), Bytes::from_mebibytes(16_384));
    let at = |ms| Timestamp::from_millis(START + ms).unwrap();
    for ms in (0..=72 * HOUR).step_by(10_000) {
        let (percent, mebibytes, milliwatts) = match ms {
            ms if ms < 2 * HOUR => (80, 8_000, 200_000 + ms / 10_000 % 11),
            ms if ms < 2 * HOUR + 60_000 => (80, 16_000, 200_000),
            ms if ms < 3 * HOUR => (0, 0, 40_000),
            ms if ms < 4 * HOUR => (55, 8_000, 151_250),
            ms => (80, 8_000, 200_000 + ms / 10_000 % 11),
        };
        let reading = Reading {
            utilization: Ok(Utilization::from_percent(percent).unwrap()),
            memory_used: Bytes::from_mebibytes(mebibytes),
            power: Milliwatts::new(u32::try_from(milliwatts).unwrap()),
            ..Reading::at(at(ms))
        };
        meter.push(reading, &mut ()).unwrap();
        if ms == 12 * HOUR {
            let first = meter.window_totals(at(ms));
            assert_eq!((first.ends.full, first.still), (1, Nanos::from_secs(3_590)));
        }
    }
    let last = meter.window_totals(at(72 * HOUR));
    assert_eq!((last.ends.full, last.still), (0, Nanos::ZERO));
}

/// A run of several days: the recent window is the last day, and its size is bounded.
#[test]
fn recent_window_of_endless_run_is_last_day() {
    const HOUR: u64 = 3_600_000;
    let config = MeterConfig { session_every: MeterConfig::SESSION, ..MeterConfig::default() };
    // Two days of 40 s cycles between 0% and 100%, then two at 60%; the last hour is in progress.
    let (change, end) = (START + 48 * HOUR, START + 96 * HOUR + HOUR / 2);
    let bouncing = |ms: u64| if ms % 40_000 < 20_000 { 0 } else { 1_000_000 };
    let row =
        |at| Row { at, ppm: Some(if at < change { bouncing(at) } else { 600_000 }), held: None };
    let rows: Vec<_> = (START..=end).step_by(2_000).map(row).collect();
    let meter = meter(config, &rows);

    let kind = |pattern: Option<Pattern>| pattern.map(|pattern| pattern.kind);
    assert_eq!(kind(meter.summary().pattern), Some(PatternKind::Bouncing));
    let at = |ms| Timestamp::from_millis(ms).unwrap();
    let recent = meter.window_totals(at(end));
    assert_eq!(recent.span, Some((at(START + 72 * HOUR), at(end))));
    assert_eq!(kind(recent.pattern), Some(PatternKind::Steady));
    assert_eq!(recent.accounts.all().cost.0, i128::from(24 * HOUR + HOUR / 2) * 1_000);
    assert_eq!(recent.waste.starvation, NanoUsd::ZERO);
    assert_eq!(recent.waste.sum(), recent.accounts.waste());

    let series = meter.window_series();
    assert_eq!(series.step(), Nanos::from_secs(256));
    let points: Vec<_> = series.points(Recorded::Utilization).collect();
    assert!(points[0].0 <= at(START + 72 * HOUR) && points.len() <= POINTS);
    assert!(meter.series().points(Recorded::Utilization).next().unwrap().0 <= at(START));

    // Two days later the recent window is empty.
    let empty = meter.window_totals(at(end + 48 * HOUR));
    assert_eq!((empty.span, empty.accounts), (None, Accounts::default()));
}
