//! Time without work, pauses and hours of the week, against an independent computation.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::activity::{Activity, Quiet};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::lengths::Lengths;
use phasemeter_meter::pauses::{MemoryInUse, Pauses};
use phasemeter_meter::phase::Phase;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Celsius, Megahertz, Nanos, Timestamp, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_oracle::{Oracle, OracleAccount, Row};
use proptest::prelude::*;

/// Monday, 2026-07-27T00:00:00Z.
const MONDAY: u64 = 1_785_110_400_000;
const HOUR: u64 = 3_600_000;
const WEEK: u64 = 7 * 24 * HOUR;

fn meter(config: MeterConfig, rows: &[Row]) -> GpuMeter {
    let total = Bytes::from_mebibytes(1_000);
    let mut meter = GpuMeter::new(config, None, total);
    for row in rows {
        let ppm = row.ppm.map(|ppm| u32::try_from(ppm).unwrap());
        let utilization = ppm.and_then(Utilization::from_ppm).ok_or(MissingReason::Unreadable);
        let memory_used =
            row.held.and_then(|held| Bytes::from_mebibytes(if held { 500 } else { 0 }));
        let at = Timestamp::from_millis(row.at).unwrap();
        meter.push(Reading { utilization, memory_used, ..Reading::at(at) }, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    meter
}

/// What happened in a millisecond.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Unobserved,
    Work,
    Quiet { held: bool },
}

/// The state of each millisecond.
fn states(oracle: &Oracle) -> Vec<State> {
    let mut states = Vec::new();
    let mut from = 0;
    while from < oracle.millis.len() {
        let left = 1_000 - (oracle.start + from as u64) % 1_000;
        let to = oracle.millis.len().min(from + usize::try_from(left).unwrap());
        let second = &oracle.millis[from..to];
        let observed = second.iter().filter(|it| it.0 != OracleAccount::Unobserved);
        let (count, sum) = observed.fold((0, 0), |(count, sum), it| (count + 1, sum + it.1));
        states.extend(second.iter().map(|(account, _)| match account {
            OracleAccount::Unobserved => State::Unobserved,
            _ if sum >= count * 10_000 => State::Work,
            account => State::Quiet { held: *account == OracleAccount::IdleHeld },
        }));
        from = to;
    }
    states
}

fn quiet<'a>(states: impl IntoIterator<Item = &'a State>) -> Quiet {
    let (mut time, mut held) = (0, 0);
    for state in states {
        if let State::Quiet { held: is_held } = state {
            time += 1;
            held += u64::from(*is_held);
        }
    }
    Quiet { time: Nanos::from_millis(time), held: Nanos::from_millis(held) }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 65,536")]
fn lengths(millis: impl IntoIterator<Item = usize>) -> Lengths {
    let mut lengths = Lengths::default();
    for length in millis {
        let length = Nanos::from_millis(length as u64);
        let logarithm = ((length.0 as f64).log2() * 1_024.0).round() as u64;
        lengths.count += 1;
        lengths.total += length;
        lengths.logarithms += logarithm;
        lengths.squares += logarithm * logarithm;
    }
    lengths
}

/// Pauses, without their memory.
fn pauses(oracle: &Oracle) -> Pauses {
    // Runs of equal phase, each with its start.
    let kind = |account: OracleAccount| match account {
        OracleAccount::Unobserved => "unobserved",
        account if account.label() == "idle" => "idle",
        _ => "work",
    };
    let mut at = 0;
    let runs = oracle.millis.chunk_by(|a, b| kind(a.0) == kind(b.0));
    let runs: Vec<_> = runs
        .map(|run| {
            at += run.len();
            (kind(run[0].0), at - run.len(), run)
        })
        .collect();
    let first = runs.iter().position(|it| it.0 == "work").unwrap_or(runs.len());
    let is_pause = |run: usize| {
        let next = runs.get(run + 1).map(|it| it.0);
        runs[run].0 == "idle" && runs[run].2.len() >= 10_000 && next == Some("work")
    };
    let found: Vec<_> = (first..runs.len()).filter(|run| is_pause(*run)).collect();
    let held =
        |run: &usize| runs[*run].2.iter().filter(|it| it.0 == OracleAccount::IdleHeld).count();
    let starts: Vec<_> = found.iter().map(|run| runs[*run].1).collect();
    Pauses {
        lengths: lengths(found.iter().map(|run| runs[*run].2.len())),
        held: Nanos::from_millis(found.iter().map(held).sum::<usize>() as u64),
        after_unobserved: found.iter().filter(|run| runs[**run - 1].0 == "unobserved").count()
            as u64,
        periods: lengths(starts.windows(2).map(|pair| pair[1] - pair[0])),
        ..Pauses::default()
    }
}

fn reference(states: &[State]) -> Activity {
    // Runs of equal kind: (kind, states).
    let runs: Vec<_> =
        states.chunk_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b)).collect();
    let is_quiet = |run: &[State]| matches!(run[0], State::Quiet { .. });
    let length = |run: &[State]| Nanos::from_millis(run.len() as u64);
    let stretches: Vec<_> = runs.iter().copied().filter(|run| is_quiet(run)).collect();
    let first = states.iter().position(|it| *it == State::Work).unwrap_or(states.len());
    let last = states.iter().rposition(|it| *it == State::Work).map_or(0, |last| last + 1);
    let at_least = |seconds| {
        let long = stretches.iter().map(|run| length(run));
        long.filter(|it| *it >= Nanos::from_secs(seconds)).sum()
    };
    Activity {
        quiet: quiet(states),
        stretches: stretches.len() as u64,
        longest: stretches.iter().map(|run| length(run)).max().unwrap_or_default(),
        in_stretches: [at_least(60), at_least(600), at_least(3_600)],
        before_work: quiet(&states[..first]),
        after_work: quiet(&states[last..]),
        pauses: Pauses::default(),
    }
}

/// Stages of zero, little and much load, and gaps, anywhere in a week.
fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let percent =
        prop_oneof![3 => Just(Some(0)), 1 => Just(None), 3 => (0_u64..=100).prop_map(Some)];
    let held = prop_oneof![Just(None), any::<bool>().prop_map(Some)];
    let stage =
        (percent, held, 1_usize..300, prop_oneof![9 => Just(0_u64), 1 => 5_000_u64..90_000]);
    let stages = prop::collection::vec(stage, 1..8);
    (0..WEEK, prop_oneof![Just(500_u64), Just(1_000), 700_u64..3_000], stages).prop_map(
        |(from, every, stages)| {
            let (mut rows, mut at) = (Vec::new(), MONDAY + from);
            for (percent, held, count, gap) in stages {
                at += gap;
                for _ in 0..count {
                    rows.push(Row { at, ppm: percent.map(|percent| percent * 10_000), held });
                    at += every;
                }
            }
            rows
        },
    )
}

/// The clock of an idle GPU is low, which is not a fault.
#[test]
fn clock_counts_only_while_busy() {
    let mut meter = GpuMeter::new(MeterConfig::default(), None, None);
    for (second, percent, clock) in [(0, 95, 1_400), (1, 20, 300), (2, 90, 1_200), (3, 100, 1_300)]
    {
        let reading = Reading {
            utilization: Ok(Utilization::from_percent(percent).unwrap()),
            sm_clock: Some(Megahertz(clock)),
            temperature: (second < 2).then_some(Celsius(60 + second)),
            ..Reading::at(
                Timestamp::from_millis(MONDAY + u64::try_from(second).unwrap() * 1_000).unwrap(),
            )
        };
        meter.push(reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    let sensors = meter.window_totals(Timestamp::LAST).sensors;
    assert_eq!((sensors.sm_clock.mean(), sensors.sm_clock.max()), (Some(1_300.0), Some(1_400.0)));
    assert_eq!((sensors.temperature.mean(), sensors.temperature.max()), (Some(60.5), Some(61.0)));
    let none = GpuMeter::new(MeterConfig::default(), None, None);
    assert_eq!(none.window_totals(Timestamp::LAST).sensors.sm_clock.mean(), None);
}

/// An hour of readings, then another one after a change.
fn observed_hours(change: impl FnOnce(&mut GpuMeter)) -> Vec<(usize, f64)> {
    let config = MeterConfig { utc_offset: Some(3_600), ..MeterConfig::default() };
    let mut gpu = GpuMeter::new(config, None, None);
    let pass = |gpu: &mut GpuMeter, seconds: std::ops::RangeInclusive<u64>| {
        for second in seconds {
            let at = Timestamp::from_millis(MONDAY + second * 1_000).unwrap();
            let utilization = Ok(Utilization::from_percent(50).unwrap());
            gpu.push(Reading { utilization, ..Reading::at(at) }, &mut ()).unwrap();
        }
    };
    // A reading is metered once those of the next two seconds have arrived, so the change may come some
    // seconds early or late.
    pass(&mut gpu, 0..=3_602);
    change(&mut gpu);
    pass(&mut gpu, 3_603..=7_200);
    gpu.finish(&mut ());
    let hours = gpu.hours_of_week().iter().map(|hour| hour.observed().as_secs_f64()).enumerate();
    hours.filter(|(_, seconds)| *seconds > 0.0).collect()
}

/// Daylight saving time begins between two hours, or the wall clock is set forward: the hour between them
/// has no time.
#[test]
fn change_of_local_time_applies_from_then_on() {
    let is_hour_later = |observed: Vec<(usize, f64)>, hour: usize| {
        let of = |at: usize| observed.iter().find(|(hour, _)| *hour == at).map_or(0.0, |it| it.1);
        assert!((of(1) - 3_600.0).abs() < 5.0, "{observed:?}");
        assert!((of(hour) - 3_600.0).abs() < 5.0, "{observed:?}");
        assert!(of(2) < 5.0 && observed.len() <= 3, "{observed:?}");
    };
    is_hour_later(observed_hours(|gpu| gpu.set_utc_offset(Some(7_200))), 3);
    let step = Timestamp::from_millis(MONDAY + 3_604_000).unwrap();
    for hours in [1, 30] {
        let set = Timestamp::from_millis(MONDAY + 3_604_000 + hours * 3_600_000).unwrap();
        let offset = WallOffset::between(step, set);
        let hour = usize::try_from(hours).unwrap() + 2;
        is_hour_later(observed_hours(|gpu| gpu.step_wall_clock(step, offset)), hour);
    }
}

/// Work for 40 s with 500 MiB, then 20 s at 2% with 100 MiB; at last, dips of 3 s, which are no pauses.
#[test]
fn pauses_have_their_memory_and_their_period() {
    let mut meter = GpuMeter::new(MeterConfig::default(), None, Bytes::from_mebibytes(1_000));
    for second in 0..900 {
        let is_idle = if second < 600 { second % 60 >= 40 } else { second % 10 >= 7 };
        let (percent, mebibytes) = if is_idle { (2, 100) } else { (90, 500) };
        let reading = Reading {
            utilization: Ok(Utilization::from_percent(percent).unwrap()),
            memory_used: Bytes::from_mebibytes(mebibytes),
            ..Reading::at(Timestamp::from_millis(MONDAY + second * 1_000).unwrap())
        };
        meter.push(reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    let pauses = meter.window_totals(Timestamp::LAST).activity.pauses;
    assert_eq!((pauses.lengths.count, pauses.after_unobserved), (10, 0));
    assert_eq!(pauses.lengths.mean(), Some(Nanos::from_secs(20)));
    assert_eq!(pauses.periods.mean(), Some(Nanos::from_secs(60)));
    assert_eq!(pauses.held, pauses.lengths.total);
    let mebibytes = |memory: MemoryInUse| memory.mean().map(|bytes| bytes / 1_048_576.0);
    assert_eq!(mebibytes(pauses.memory), Some(100.0));
    assert_eq!(mebibytes(pauses.memory_at_work), Some(500.0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn activity_matches_reference(rows in any_rows()) {
        let found = meter(MeterConfig::default(), &rows).window_totals(Timestamp::LAST);
        let none = MemoryInUse::default();
        let without_memory = Pauses { memory: none, memory_at_work: none, ..found.activity.pauses };
        let oracle = Oracle::of(&rows);
        prop_assert_eq!(without_memory, pauses(&oracle));
        let without_pauses = Activity { pauses: Pauses::default(), ..found.activity };
        prop_assert_eq!(without_pauses, reference(&states(&oracle)));
    }

    /// Each hour has the observed and idle time of that hour in local time.
    #[test]
    fn hours_of_week_match_reference(rows in any_rows(), quarters in -48_i32..=56) {
        let utc_offset = quarters * 900;
        let config = MeterConfig { utc_offset: Some(utc_offset), ..MeterConfig::default() };
        let found = meter(config, &rows);
        let oracle = Oracle::of(&rows);
        let mut expected = vec![(0, 0); 168];
        for (ms, (account, _)) in (oracle.start..).zip(&oracle.millis) {
            let since_monday = ms + WEEK - MONDAY;
            let local = since_monday.checked_add_signed(i64::from(utc_offset) * 1_000).unwrap();
            let hour = &mut expected[usize::try_from(local % WEEK / HOUR).unwrap()];
            hour.0 += u64::from(*account != OracleAccount::Unobserved);
            hour.1 += u64::from(account.label() == "idle");
        }
        let found = found.hours_of_week().iter();
        let found: Vec<_> = found.map(|hour| (hour.observed(), hour.idle())).collect();
        let expected = expected.into_iter();
        let expected: Vec<_> =
            expected.map(|(a, b)| (Nanos::from_millis(a), Nanos::from_millis(b))).collect();
        prop_assert_eq!(found, expected);
    }

    /// In the recent window of a run without an end, no stretch is longer than all quiet time.
    #[test]
    fn recent_window_has_quiet_time_of_its_own(
        rows in any_rows(), session in 5_u64..120, window in 0_u64..240,
    ) {
        let config = MeterConfig {
            session_every: Nanos::from_secs(session),
            window: Nanos::from_secs(window),
            ..MeterConfig::default()
        };
        let end = rows[rows.len() - 1].at;
        let recent = meter(config, &rows).window_totals(Timestamp::from_millis(end).unwrap());
        let (from, to) = recent.span.unwrap();
        let [from, to] = [from, to].map(|at| at.as_nanos() / 1_000_000);
        let all = states(&Oracle::of(&rows));
        let index = |at: u64| usize::try_from(at - rows[0].at).unwrap();
        let expected = reference(&all[index(from)..index(to)]);
        let found = recent.activity;
        prop_assert_eq!(found.quiet, expected.quiet);
        prop_assert_eq!(found.after_work, expected.after_work);
        let idle = recent.accounts.phase(Phase::Idle).time;
        prop_assert!(found.pauses.held <= found.pauses.lengths.total);
        prop_assert!(found.pauses.lengths.total <= idle);
        let long = found.in_stretches.into_iter().zip(expected.in_stretches);
        prop_assert!(long.into_iter().all(|(found, least)| least <= found && found <= found.max(expected.quiet.time)));
        prop_assert!(expected.longest <= found.longest && found.longest <= expected.quiet.time);
    }
}
