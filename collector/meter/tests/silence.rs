//! Time after the last reading of a GPU against the oracle: whenever it is posted, it is the same.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "pipeline/support.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod support;

use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::presence::MissingTime;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_oracle::{ORACLE_ACCOUNTS, Oracle, Row, stale_after};
use proptest::prelude::*;
use support::{Received, any_rate, any_rows, at, labeled, reading, sum, total};

fn config(rows: &[Row]) -> MeterConfig {
    MeterConfig {
        allowed_lateness: Nanos::ZERO,
        stale_after: StaleAfter::Fixed(Nanos::from_millis(stale_after(rows))),
        boundary_every: Nanos::from_secs(10),
        session_every: Nanos::from_secs(60),
        ..MeterConfig::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Scenario: a GPU ends before its run. The silence after any reading is posted at any instants.
    /// Guarantee: accounts, spans and reasons are those of the oracle; sums never fall; the bill is rate × time.
    #[test]
    fn silence_is_unobserved_whenever_it_is_posted(
        rows in any_rows(),
        rate in any_rate(),
        after in 0_u64..200_000,
        posted in prop::collection::vec((0_usize..700, 0_u64..1_000), 0..12),
    ) {
        let config = config(&rows);
        let mut meter = GpuMeter::new(config, Some(rate), total());
        let mut received = Received::default();
        let end = rows[rows.len() - 1].at + after;
        for (index, row) in rows.iter().enumerate() {
            meter.push(reading(row), &mut received).unwrap();
            let next = rows.get(index + 1).map_or(end, |next| next.at);
            for (_, part) in posted.iter().filter(|(at, _)| *at == index % 700) {
                meter.advance_silent(at(row.at + (next - row.at) * part / 1_000), &mut received);
            }
        }
        meter.finish_unlisted_at(at(end), &mut received);

        let oracle = Oracle::until(&rows, end);
        let summary = meter.summary();
        for (account, oracle_account) in Account::ALL.into_iter().zip(ORACLE_ACCOUNTS) {
            let time = Nanos::from_millis(oracle.millis_in(oracle_account));
            prop_assert_eq!(summary.accounts[account].time, time, "{:?}", account);
        }
        let exact = i128::from(rate.nano_usd_per_hour()) * i128::from(summary.length().0);
        prop_assert_eq!(summary.accounts.all().cost, NanoUsd(exact / i128::from(NANOS_PER_HOUR)));
        prop_assert_eq!(sum(&received.spans), summary.accounts);
        let bills: Vec<_> = received.boundaries.iter().map(|(_, it)| it.all().cost).collect();
        prop_assert!(bills.is_sorted());

        let vanished = after.saturating_sub(stale_after(&rows));
        let reasons = summary.unobserved;
        prop_assert_eq!(reasons.missing[MissingReason::Vanished as usize], Nanos::from_millis(vanished));
        let all = reasons.missing.into_iter().sum::<Nanos>() + reasons.no_reading;
        prop_assert_eq!(all, summary.accounts[Account::Unobserved].time);
    }

    /// Guarantee: if missing time is absent, it costs nothing, and the rest costs what it did.
    #[test]
    fn absent_time_costs_nothing(rows in any_rows(), rate in any_rate()) {
        let config = MeterConfig { missing: MissingTime::Absent, ..config(&rows) };
        let mut meter = GpuMeter::new(config, Some(rate), total());
        for row in &rows {
            meter.push(reading(row), &mut ()).unwrap();
        }
        meter.finish_unlisted_at(at(rows[rows.len() - 1].at), &mut ());
        let summary = meter.summary();
        prop_assert_eq!(meter.absent(), summary.unobserved.no_reading);
        let billed = summary.length() - meter.absent();
        let exact = i128::from(rate.nano_usd_per_hour()) * i128::from(billed.0);
        prop_assert_eq!(summary.accounts.all().cost, NanoUsd(exact / i128::from(NANOS_PER_HOUR)));
    }
}

/// Idle time, the other phases, and unobserved time. Whether a GPU is held is carried from one reading to the next.
fn phases(meter: &GpuMeter) -> [Nanos; 5] {
    let of = |accounts: &[Account]| accounts.iter().map(|it| meter.accounts()[*it].time).sum();
    [
        of(&[Account::IdleHeld, Account::IdleFree, Account::IdleUnknown]),
        of(&[Account::Underutilized]),
        of(&[Account::Productive]),
        of(&[Account::ComputeBound]),
        of(&[Account::Unobserved]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Scenario: between some readings another meter may have had the GPU.
    /// Guarantee: but for that time, which costs nothing, the accounts are those of a meter per stretch of readings. No
    /// account falls on the way.
    #[test]
    fn time_of_another_meter_is_left_out(
        rows in any_rows(),
        rate in any_rate(),
        is_away in prop::collection::vec(any::<bool>(), 700),
    ) {
        let config = config(&rows);
        let new = || GpuMeter::new(config, Some(rate), total());
        let (mut meter, mut received) = (new(), Received::default());
        let (mut stretches, mut left_out) = (vec![new()], Nanos::ZERO);
        let mut billed = Nanos::ZERO;
        for (index, (row, is_away)) in rows.iter().zip(is_away).enumerate() {
            let last = index.checked_sub(1).map(|last| rows[last].at);
            // A second that has readings of both stretches has one phase here.
            if let Some(last) = last.filter(|last| is_away && row.at >= last + 2_000) {
                let away = (at(last), at(row.at));
                prop_assert_eq!(meter.leave_out(away.0, away.1, &mut received), Some(away));
                prop_assert_eq!(meter.leave_out(at(0), at(last), &mut received), None);
                left_out += away.1.since(away.0);
                stretches.last_mut().unwrap().finish(&mut ());
                stretches.push(new());
            }
            meter.push(reading(row), &mut received).unwrap();
            let before = std::mem::replace(&mut billed, phases(&meter)[4] - meter.left_out());
            prop_assert!(before <= billed && meter.left_out() <= phases(&meter)[4]);
            stretches.last_mut().unwrap().push(reading(row), &mut ()).unwrap();
        }
        let end = at(rows[rows.len().min(700) - 1].at);
        meter.finish_unlisted_at(end, &mut received);
        stretches.last_mut().unwrap().finish(&mut ());

        prop_assert_eq!((meter.left_out(), meter.absent()), (left_out, left_out));
        let mut found = phases(&meter);
        found[4] = found[4] - meter.left_out();
        let each: Vec<_> = stretches.iter().map(phases).collect();
        let expected: [Nanos; 5] = std::array::from_fn(|phase| each.iter().map(|it| it[phase]).sum());
        prop_assert_eq!(found, expected);
        let billed = meter.summary().length() - left_out;
        let exact = i128::from(rate.nano_usd_per_hour()) * i128::from(billed.0);
        prop_assert_eq!(meter.accounts().all().cost, NanoUsd(exact / i128::from(NANOS_PER_HOUR)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Scenario: some readings are the first of another instance of the host.
    /// Guarantee: what no reading covers before them is absent and costs nothing, unless all missing time is billed.
    #[test]
    fn time_before_another_instance_costs_nothing(
        rows in any_rows(),
        rate in any_rate(),
        begins in prop::collection::vec(any::<bool>(), 700),
        is_overridden: bool,
    ) {
        let missing = if is_overridden { MissingTime::Unobserved } else { MissingTime::ByEvidence };
        let mut meter = GpuMeter::new(MeterConfig { missing, ..config(&rows) }, Some(rate), total());
        let mut absent = 0;
        for (index, row) in rows.iter().enumerate() {
            let begins_instance = begins[index % begins.len()];
            meter.push(Reading { begins_instance, ..reading(row) }, &mut ()).unwrap();
            let before = index.checked_sub(1).map_or(row.at, |before| rows[before].at);
            if begins_instance && !is_overridden {
                absent += (row.at - before).saturating_sub(stale_after(&rows));
            }
        }
        let end = rows[rows.len() - 1].at;
        meter.finish_unlisted_at(at(end), &mut ());
        prop_assert_eq!(meter.absent(), Nanos::from_millis(absent));
        let summary = meter.summary();
        prop_assert_eq!(summary.length(), Nanos::from_millis(end - rows[0].at));
        let billed = summary.length() - meter.absent();
        let exact = i128::from(rate.nano_usd_per_hour()) * i128::from(billed.0);
        prop_assert_eq!(summary.accounts.all().cost, NanoUsd(exact / i128::from(NANOS_PER_HOUR)));
    }
}

#[test]
fn reading_before_posted_silence_is_late() {
    let rows: Vec<_> =
        (0..3).map(|tick| Row { at: 1_000 * tick, ppm: Some(500_000), held: None }).collect();
    let mut meter = GpuMeter::new(config(&rows), Rate::new(1), None);
    let mut received = Received::default();
    for row in &rows {
        meter.push(reading(row), &mut received).unwrap();
    }
    meter.advance_silent(at(5_000), &mut received);
    assert_eq!(received.readings, 2, "the last one still covers that time");
    meter.advance_silent(at(65_000), &mut received);
    assert_eq!(received.readings, 3);
    let row = |millis| reading(&Row { at: millis, ppm: Some(1_000_000), held: None });
    assert!(meter.push(row(64_999), &mut received).is_err());
    meter.push(row(70_000), &mut received).unwrap();
    meter.finish_unlisted_at(at(76_000), &mut received);
    let expected = [
        ("underutilized", 0, 5_000),
        ("unobserved", 5_000, 60_000),
        ("unobserved", 60_000, 70_000),
        ("mixed", 70_000, 76_000),
    ];
    assert_eq!(labeled(&received.spans), expected);
}
