//! Periods against the accounts and the oracle, on generated readings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::periods::{PERIODS, Period};
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Bytes, NANOS_PER_HOUR, Nanos, Timestamp, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_oracle::{ORACLE_ACCOUNTS, Oracle, Row};
use proptest::prelude::*;

/// 2026-07-26T23:10:00Z.
const START: u64 = 1_785_107_400_000;

/// 2255.
const LAST: u64 = 9_000_000_000_000;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

fn rate(nanos: u64) -> Rate {
    Rate::new(nanos).unwrap()
}

fn reading(row: &Row) -> Reading {
    let utilization = row.ppm.map(|ppm| u32::try_from(ppm).unwrap());
    Reading {
        utilization: utilization.and_then(Utilization::from_ppm).ok_or(MissingReason::Unreadable),
        memory_used: row.held.and_then(|held| Bytes::from_mebibytes(if held { 11 } else { 10 })),
        ..Reading::at(at(row.at))
    }
}

fn any_rate() -> impl Strategy<Value = Rate> {
    prop_oneof![0_u64..10_000_000_000, 0_u64..=Rate::MAX].prop_map(rate)
}

fn any_utilization() -> impl Strategy<Value = Option<u64>> {
    let levels = [0, 95_000, 100_000, 650_000, 700_000, 899_999, 1_000_000];
    prop_oneof![
        4 => prop::sample::select(levels.to_vec()).prop_map(Some),
        3 => (0_u64..=1_000_000).prop_map(Some),
        1 => Just(None),
    ]
}

/// Rows with these intervals in milliseconds.
fn rows(step: impl Strategy<Value = u64>, most: usize) -> impl Strategy<Value = Vec<Row>> {
    let held = prop_oneof![3 => Just(None), 1 => Just(Some(true)), 1 => Just(Some(false))];
    prop::collection::vec((step, any_utilization(), held), 1..most).prop_map(|rows| {
        let mut next = START + 123;
        let each = rows.into_iter().map(|(step, ppm, held)| {
            let at = next;
            next = (next + step).min(LAST);
            Row { at, ppm, held }
        });
        each.collect()
    })
}

/// Periods tile the span of the meter and sum to its accounts.
fn check_sums(meter: &GpuMeter) -> Result<Vec<Period>, TestCaseError> {
    let periods = meter.periods().to_vec();
    let (from, to) = meter.span().unwrap();
    let mut end = from;
    for period in &periods {
        prop_assert_eq!(period.from, end);
        end = end + period.length();
        let observed: NanoUsd =
            Account::OBSERVED.map(|account| period.cost(account)).into_iter().sum();
        prop_assert!(period.utilized() <= observed, "{:?} of {:?}", period.utilized(), observed);
        prop_assert!(period.effective <= period.length());
    }
    prop_assert_eq!(end, to);
    prop_assert!(periods.len() <= PERIODS + 1);
    let accounts = meter.accounts();
    for account in Account::ALL {
        let time: Nanos = periods.iter().map(|period| period.time(account)).sum();
        let cost: NanoUsd = periods.iter().map(|period| period.cost(account)).sum();
        prop_assert_eq!(
            (time, cost),
            (accounts[account].time, accounts[account].cost),
            "{:?}",
            account
        );
    }
    let utilized: NanoUsd = periods.iter().map(Period::utilized).sum();
    prop_assert_eq!(utilized, accounts.utilized_cost());
    let effective: Nanos = periods.iter().map(|period| period.effective).sum();
    prop_assert_eq!(u128::from(effective.0), accounts.observed().weighted / 1_000_000);
    Ok(periods)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// Each period is a UTC hour with the time of the oracle and its exact cost.
    #[test]
    fn periods_match_oracle(
        rows in rows(prop_oneof![500_u64..20_000, 20_000_u64..600_000], 90),
        rate in any_rate(),
    ) {
        let mut meter = GpuMeter::new(MeterConfig::default(), Some(rate), Bytes::from_mebibytes(1_000));
        for row in &rows {
            meter.push(reading(row), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        let oracle = Oracle::of(&rows);
        let cost = |end: u64| {
            let time = i128::from(at(end).since(at(rows[0].at)).0);
            i128::from(rate.nano_usd_per_hour()) * time / i128::from(NANOS_PER_HOUR)
        };
        for period in check_sums(&meter)? {
            let from = period.from.as_nanos() / 1_000_000;
            let to = from + period.length().0 / 1_000_000;
            prop_assert_eq!(from / 3_600_000, (to - 1) / 3_600_000, "one hour");
            let part = oracle.part(from, to);
            for (account, oracle_account) in Account::ALL.into_iter().zip(ORACLE_ACCOUNTS) {
                let expected = Nanos::from_millis(part.millis_in(oracle_account));
                prop_assert_eq!(period.time(account), expected, "{:?}", account);
            }
            let all: NanoUsd = Account::ALL.map(|account| period.cost(account)).into_iter().sum();
            prop_assert_eq!(all, NanoUsd(cost(to) - cost(from)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Scenario: hours to centuries, with rates that change or come late, and a clock that is set.
    /// Guarantee: periods sum to the accounts, and there is a limited number of them.
    #[test]
    fn periods_sum_to_accounts(
        rows in rows(
            prop_oneof![
                6 => 1_000_u64..100_000,
                4 => 600_000_u64..10_000_000,
                2 => 3_600_000_u64..400_000_000,
                1 => 0_u64..40_000_000_000,
                1 => 0_u64..600_000_000_000,
            ],
            200,
        ),
        first in prop::option::of(any_rate()),
        changes in prop::collection::btree_map(0_usize..200, any_rate(), 0..4),
        steps in prop::collection::btree_map(0_usize..200, -90_000_i64..90_000, 0..4),
        stale_after in prop_oneof![Just(1_u64), Just(3_600), Just(1_000_000), Just(10_000_000_000)],
    ) {
        let config = MeterConfig {
            stale_after: StaleAfter::Fixed(Nanos::from_secs(stale_after)),
            session_every: MeterConfig::SESSION,
            ..MeterConfig::default()
        };
        let mut meter = GpuMeter::new(config, first, Bytes::from_mebibytes(1_000));
        for (index, row) in rows.iter().enumerate() {
            if let Some(seconds) = steps.get(&index) {
                let step = row.at.div_ceil(1_000) * 1_000;
                let wall = at(step.saturating_add_signed(seconds * 1_000));
                meter.step_wall_clock(at(step), WallOffset::between(at(step), wall));
            }
            if let Some(rate) = changes.get(&index) {
                // Before the first session ends, a late price holds from the start.
                let _late = meter.price_from_start(*rate).or_else(|_| meter.change_rate(at(row.at), *rate));
            }
            meter.push(reading(row), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        check_sums(&meter)?;
    }

    /// Scenario: a price that comes after hours of readings.
    /// Guarantee: periods cost what they would have cost with the price from the start.
    #[test]
    fn late_price_applies_to_all_periods(
        rows in rows(prop_oneof![1_000_u64..100_000, 600_000_u64..10_000_000], 120),
        rate in any_rate(),
        known in 0_usize..120,
    ) {
        let config = MeterConfig {
            stale_after: StaleAfter::Fixed(Nanos::from_secs(3_600)),
            ..MeterConfig::default()
        };
        let mut late = GpuMeter::new(config, None, None);
        let mut early = GpuMeter::new(config, Some(rate), None);
        for (index, row) in rows.iter().enumerate() {
            if index == known.min(rows.len() - 1) {
                late.price_from_start(rate).unwrap();
            }
            late.push(reading(row), &mut ()).unwrap();
            early.push(reading(row), &mut ()).unwrap();
        }
        late.finish(&mut ());
        early.finish(&mut ());
        let all = |period: &Period| -> NanoUsd {
            Account::ALL.map(|account| period.cost(account)).into_iter().sum()
        };
        let (late, early) = (check_sums(&late)?, check_sums(&early)?);
        prop_assert_eq!(
            late.iter().map(all).collect::<Vec<_>>(),
            early.iter().map(all).collect::<Vec<_>>()
        );
    }
}

#[test]
fn periods_become_days_in_a_long_run() {
    let config = MeterConfig {
        stale_after: StaleAfter::Fixed(Nanos::from_secs(3_600)),
        ..MeterConfig::default()
    };
    let mut meter = GpuMeter::new(config, Some(rate(3_000_000_000)), None);
    let hour = |hour: u64| Row { at: START + hour * 3_600_000, ppm: Some(500_000), held: None };
    let lengths = |meter: &GpuMeter| {
        let periods = meter.periods().to_vec();
        periods[periods.len() / 2].length().0 / NANOS_PER_HOUR
    };
    let mut found = Vec::new();
    for tick in 0..24 * 80 {
        meter.push(reading(&hour(tick)), &mut ()).unwrap();
        if [24 * 3, 24 * 5, 24 * 20, 24 * 79].contains(&tick) {
            found.push(lengths(&meter));
        }
    }
    assert_eq!(found, [1, 2, 8, 24]);
    meter.finish(&mut ());
    let days = meter.periods().to_vec();
    assert!(days[1..].iter().all(|day| day.from.as_nanos() % (24 * NANOS_PER_HOUR) == 0));
    check_sums(&meter).unwrap();
}
