//! The whole pipeline of one GPU against the oracle, on generated readings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "pipeline/support.rs"]
mod support;

use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_oracle::{ORACLE_ACCOUNTS, Oracle, Row, session_ends};
use proptest::prelude::*;
use support::{
    Received, START, any_rate, any_rows, at, labeled, meter, meter_with, millis, reading, sum,
    total,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Time and effective time of every account match the oracle to the millisecond.
    #[test]
    fn accounts_match_oracle(rows in any_rows()) {
        let oracle = Oracle::of(&rows);
        let summary = meter(&rows, Rate::new(0).unwrap()).0.summary();
        for (account, oracle_account) in Account::ALL.into_iter().zip(ORACLE_ACCOUNTS) {
            let balance = summary.accounts[account];
            prop_assert_eq!(balance.time.0, oracle.millis_in(oracle_account) * 1_000_000, "{:?}", account);
            prop_assert_eq!(balance.weighted, u128::from(oracle.weight_in(oracle_account)) * 1_000_000);
        }
        let reasons: Nanos = summary.unobserved.missing.into_iter().sum();
        let unobserved = summary.accounts[Account::Unobserved].time;
        prop_assert_eq!(reasons + summary.unobserved.no_reading, unobserved);
    }

    /// Spans match the oracle, tile the session, and sum to the bill.
    #[test]
    fn spans_tile_session_and_sum_to_bill(rows in any_rows(), rate in any_rate()) {
        let (meter, received) = meter(&rows, rate);
        prop_assert!(received.sessions.is_empty(), "one session");
        prop_assert_eq!(labeled(&received.spans), Oracle::of(&rows).spans(5_000));
        prop_assert_eq!(sum(&received.spans), meter.summary().accounts);
    }

    /// With session ends, each session is cut as if alone and costs what its time costs.
    #[test]
    fn spans_tile_each_session_and_sum_to_its_bill(
        rows in any_rows(), rate in any_rate(), session in 1_u64..100, boundary in 0_u64..30,
    ) {
        let config = MeterConfig {
            session_every: Nanos::from_secs(session),
            boundary_every: Nanos::from_secs(boundary),
            ..MeterConfig::default()
        };
        let (meter, received) = meter_with(config, &rows, rate);
        let oracle = Oracle::of(&rows);
        let ends: Vec<_> = received.sessions.iter().map(|(at, _)| millis(*at)).collect();
        prop_assert_eq!(&ends, &session_ends(&rows, session * 1_000));

        let first = rows[0].at;
        let last = (at(rows[rows.len() - 1].at), received.spans.len());
        let cost = |end| {
            let time = i128::from(at(end).since(at(first)).0);
            i128::from(rate.nano_usd_per_hour()) * time / i128::from(NANOS_PER_HOUR)
        };
        let (mut from, mut seen, mut total) = (first, 0, Accounts::default());
        for (to, spans) in received.sessions.iter().copied().chain([last]) {
            let (mine, to) = (&received.spans[seen..spans], millis(to));
            prop_assert_eq!(labeled(mine), oracle.part(from, to).spans(5_000));
            prop_assert_eq!(sum(mine).all().cost, NanoUsd(cost(to) - cost(from)));
            total += &sum(mine);
            let boundary = received.boundaries.iter().find(|(at, _)| millis(*at) == to);
            prop_assert!(boundary.is_none_or(|(_, accounts)| *accounts == total));
            (from, seen) = (to, spans);
        }
        prop_assert_eq!(total, meter.summary().accounts);
    }

    /// A requested boundary shows the state at its instant, and changes no account. It changes no span, unless sessions end
    /// in a gap without readings, which it divides.
    #[test]
    fn requested_boundary_changes_no_account(
        rows in any_rows(), rate in any_rate(), session in 0_u64..100, boundary in 0_u64..30,
        requests in prop::collection::btree_map(1_usize..700, 0_u64..20, 0..8),
    ) {
        let config = MeterConfig {
            allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
            stale_after: StaleAfter::Fixed(Nanos::from_secs(2)),
            session_every: Nanos::from_secs(session),
            boundary_every: Nanos::from_secs(boundary),
            ..MeterConfig::default()
        };
        let (plain, expected) = meter_with(config, &rows, rate);
        let mut meter = GpuMeter::new(config, Some(rate), total());
        let (mut received, mut requested) = (Received::default(), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            if let Some(ahead) = requests.get(&index) {
                let instant = at(row.at).ceil_second() + Nanos::from_secs(*ahead);
                requested.extend(meter.request_boundary(instant).then_some(instant));
            }
            meter.push(reading(row), &mut received).unwrap();
        }
        meter.finish(&mut received);
        prop_assert_eq!(sum(&received.spans), sum(&expected.spans));
        if session == 0 {
            prop_assert_eq!(labeled(&received.spans), labeled(&expected.spans));
        }
        prop_assert_eq!(meter.summary().accounts, plain.summary().accounts);
        let ends: Vec<_> = received.sessions.iter().map(|(at, _)| *at).collect();
        prop_assert!(expected.sessions.iter().all(|(at, _)| ends.contains(at)));
        let (start, end) = meter.span().unwrap();
        for instant in requested.into_iter().filter(|at| *at < end) {
            let shown = received.boundaries.iter().find(|(at, _)| *at == instant);
            let (_, accounts) = shown.unwrap();
            prop_assert_eq!(accounts.all().time, instant.since(start));
        }
        for regular in &expected.boundaries {
            prop_assert!(received.boundaries.contains(regular));
        }
    }

    /// Steps of the wall clock end sessions and move boundaries, and change no account. What is buffered
    /// at the end is drained boundary by boundary, even if the clock stepped just before.
    #[test]
    fn steps_of_wall_clock_change_no_account(
        rows in any_rows(), rate in any_rate(), session in 1_u64..100, boundary in 0_u64..30,
        steps in prop::collection::btree_map(1_usize..700, -7_200_i64..7_200, 0..6),
    ) {
        let config = MeterConfig {
            allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
            session_every: Nanos::from_secs(session),
            boundary_every: Nanos::from_secs(boundary),
            ..MeterConfig::default()
        };
        let mut meter = GpuMeter::new(config, Some(rate), total());
        let (mut received, mut stepped) = (Received::default(), Vec::new());
        for (index, row) in rows.iter().enumerate() {
            if let Some(seconds) = steps.get(&index) {
                let step = row.at.div_ceil(1_000) * 1_000;
                let wall = at(step.strict_add_signed(seconds * 1_000));
                meter.step_wall_clock(at(step), WallOffset::between(at(step), wall));
                stepped.push(at(step));
            }
            meter.push(reading(row), &mut received).unwrap();
        }
        while let Some(until) = meter.next_boundary() {
            meter.drain(until, &mut received);
            prop_assert!(meter.next_boundary() > Some(until) || meter.next_boundary().is_none());
        }
        meter.finish(&mut received);

        prop_assert_eq!(sum(&received.spans), meter_with(config, &rows, rate).0.summary().accounts);
        prop_assert_eq!(sum(&received.spans), meter.summary().accounts);
        prop_assert!(received.spans.windows(2).all(|pair| pair[0].to == pair[1].from));
        prop_assert!(received.boundaries.is_sorted_by(|a, b| a.0 <= b.0));
        let ends: Vec<_> = received.sessions.iter().map(|(at, _)| *at).collect();
        stepped.retain(|step| *step <= at(rows[rows.len() - 1].at));
        prop_assert!(stepped.iter().all(|step| ends.contains(step)), "{stepped:?}: {ends:?}");
    }

    /// Phases + unobserved = rate × time, to the nano-dollar; waste categories sum to the waste.
    #[test]
    fn accounts_sum_to_bill(rows in any_rows(), rate in any_rate()) {
        let summary = meter(&rows, rate).0.summary();
        let time = i128::from(summary.length().0);
        let exact = i128::from(rate.nano_usd_per_hour()) * time / i128::from(NANOS_PER_HOUR);
        let accounts = summary.accounts;
        prop_assert_eq!(accounts.all().cost, NanoUsd(exact));
        prop_assert_eq!(accounts.utilized_cost() + accounts.waste(), accounts.observed().cost);
        let waste = summary.waste;
        prop_assert_eq!(waste.starvation + waste.idle + waste.underload, accounts.waste());
        for account in Account::ALL {
            prop_assert!(accounts[account].waste() >= NanoUsd::ZERO);
        }
    }

    /// The bill is the sum of the cost at each rate, and a GPU at 100% wastes nothing.
    #[test]
    fn accounts_sum_to_bill_over_rate_changes(
        seconds in 1_u64..100,
        rates in prop::collection::vec((0_u64..100_000, any_rate()), 1..5),
        first in any_rate(),
    ) {
        let mut meter = GpuMeter::new(MeterConfig::default(), Some(first), None);
        let mut changes: Vec<(u64, Rate)> = vec![(0, first)];
        let row = |millis| Row { at: START + millis, ppm: Some(1_000_000), held: None };
        meter.push(reading(&row(0)), &mut ()).unwrap();
        meter.push(reading(&row(3_000)), &mut ()).unwrap();
        for (millis, rate) in rates {
            meter.change_rate(at(START + millis), rate).unwrap();
            changes.retain(|(known, _)| *known != millis);
            changes.push((millis, rate));
        }
        for second in 4..seconds + 4 {
            meter.push(reading(&row(second * 1_000)), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        let end = (seconds + 3) * 1_000;
        changes.sort_unstable_by_key(|(millis, _)| *millis);
        let mut exact = 0_i128;
        for (index, (from, rate)) in changes.iter().enumerate() {
            let to = changes.get(index + 1).map_or(end, |next| next.0).min(end);
            exact += i128::from(rate.nano_usd_per_hour()) * i128::from(to.saturating_sub(*from)) * 1_000_000;
        }
        let accounts = meter.summary().accounts;
        prop_assert_eq!(accounts.all().cost, NanoUsd(exact / i128::from(NANOS_PER_HOUR)));
        prop_assert_eq!(accounts.waste(), NanoUsd::ZERO);
    }

    /// Scenario: rates change at any instant, also where an interval within a second ends.
    /// Guarantee: utilized cost is Σ utilization × rate × time, but for rounding.
    #[test]
    fn utilized_cost_has_the_rate_of_its_instant(
        steps in prop::collection::vec((1_u64..8, 0_u64..=100), 2..60),
        changes in prop::collection::vec((0_u64..400, any_rate()), 1..5),
        first in any_rate(),
    ) {
        const STEP: u64 = 125;
        let mut meter = GpuMeter::new(MeterConfig::default(), Some(first), None);
        let mut rates = std::collections::BTreeMap::from([(START, first)]);
        let mut row = Row { at: START, ppm: Some(0), held: None };
        meter.push(reading(&row), &mut ()).unwrap();
        for (step, rate) in changes {
            let millis = START + step * STEP;
            meter.change_rate(at(millis), rate).unwrap();
            rates.insert(millis, rate);
        }
        let mut exact = 0_i128;
        for (length, percent) in steps {
            let before = row;
            row = Row { at: row.at + length * STEP, ppm: Some(percent * 10_000), held: None };
            meter.push(reading(&row), &mut ()).unwrap();
            for millis in (before.at..row.at).step_by(125) {
                let (_, rate) = rates.range(..=millis).next_back().unwrap();
                let weight = i128::from(before.ppm.unwrap()) * i128::from(STEP * 1_000_000);
                exact += weight * i128::from(rate.nano_usd_per_hour());
            }
        }
        meter.finish(&mut ());
        let utilized = meter.summary().accounts.utilized_cost().0;
        let exact = exact / (i128::from(NANOS_PER_HOUR) * 1_000_000);
        // At most one nano-dollar per time slice.
        prop_assert!((exact - 500..=exact).contains(&utilized), "{} of {}", utilized, exact);
    }

    /// Scenario: the price is known only after some of the readings.
    /// Guarantee: accounts, waste and all later spans cost what they would have cost with a price
    /// from the start, and sum to the same bill.
    #[test]
    fn late_price_applies_from_the_start(rows in any_rows(), rate in any_rate(), known in 0_usize..700) {
        let (expected, with_price) = meter(&rows, rate);
        let config = MeterConfig { boundary_every: Nanos::from_secs(10), ..MeterConfig::default() };
        let mut late = GpuMeter::new(config, None, total());
        let mut received = Received::default();
        let mut without_price = 0;
        for (index, row) in rows.iter().enumerate() {
            if index == known.min(rows.len() - 1) {
                late.price_from_start(rate).unwrap();
                without_price = received.spans.len();
            }
            late.push(reading(row), &mut received).unwrap();
        }
        prop_assert!(late.price_from_start(rate).is_err(), "priced already");
        late.finish(&mut received);
        let (expected, summary) = (expected.summary(), late.summary());
        prop_assert_eq!(summary.accounts.all(), expected.accounts.all());
        let slices = i128::try_from(4 * rows.len() + 100).unwrap();
        for account in Account::ALL {
            let (late, known) = (summary.accounts[account], expected.accounts[account]);
            prop_assert_eq!((late.time, late.weighted), (known.time, known.weighted));
            prop_assert!((late.cost.0 - known.cost.0).abs() <= slices, "{:?}", account);
        }
        let waste = summary.waste;
        prop_assert_eq!(waste.starvation + waste.idle + waste.underload, summary.accounts.waste());
        let costs = |spans: &[PhaseSpan]| -> Vec<_> {
            spans.iter().map(|span| span.accounts.all().cost).collect()
        };
        let (late, known) = (costs(&received.spans), costs(&with_price.spans));
        prop_assert_eq!(&late[without_price..], &known[without_price..]);
        prop_assert!(late[..without_price].iter().all(|cost| *cost == NanoUsd::ZERO));
    }

    /// Any order within the allowed lateness changes nothing.
    #[test]
    fn arrival_order_changes_nothing(rows in any_rows(), swaps in prop::collection::vec(0_usize..600, 0..80)) {
        let mut distinct = rows;
        distinct.dedup_by_key(|row| row.at);
        let expected = meter(&distinct, Rate::new(3_000_000_000).unwrap());
        let mut shuffled = distinct.clone();
        for swap in swaps {
            let (a, b) = (swap % shuffled.len(), (swap + 1) % shuffled.len());
            if shuffled[a].at.abs_diff(shuffled[b].at) < 500 {
                shuffled.swap(a, b);
            }
        }
        let behind = |index: usize| {
            let newest = shuffled[..index].iter().map(|row| row.at).max().unwrap_or(0);
            newest.saturating_sub(shuffled[index].at)
        };
        prop_assume!((0..shuffled.len()).all(|index| behind(index) <= 2_000));
        let found = meter(&shuffled, Rate::new(3_000_000_000).unwrap());
        prop_assert_eq!(found.0.summary(), expected.0.summary());
        prop_assert_eq!(found.1.spans, expected.1.spans);
        prop_assert_eq!(found.1.boundaries, expected.1.boundaries);
    }

    /// At a boundary the meter contains everything before it and nothing after it. Totals never
    /// fall, and the last boundary is the end.
    #[test]
    fn boundary_contains_exactly_what_precedes_it(rows in any_rows()) {
        let oracle = Oracle::of(&rows);
        let (meter, received) = meter(&rows, Rate::new(3_000_000_000).unwrap());
        prop_assert_eq!(received.readings, rows.len());
        let mut before = NanoUsd::ZERO;
        for (at, accounts) in &received.boundaries {
            let millis = usize::try_from(at.as_nanos() / 1_000_000 - oracle.start).unwrap();
            for (account, oracle_account) in Account::ALL.into_iter().zip(ORACLE_ACCOUNTS) {
                let expected = oracle.millis[..millis].iter().filter(|(b, _)| *b == oracle_account).count();
                prop_assert_eq!(accounts[account].time, Nanos::from_millis(expected as u64));
            }
            prop_assert!(accounts.all().cost >= before);
            before = accounts.all().cost;
        }
        let last = received.boundaries.last().unwrap();
        prop_assert_eq!(last.1, meter.summary().accounts);
    }

    /// A span start reported as final is the start of an emitted span.
    #[test]
    fn final_span_start_is_start_of_emitted_span(rows in any_rows()) {
        let mut meter = GpuMeter::new(MeterConfig::default(), None, total());
        let mut received = Received::default();
        let mut starts = Vec::new();
        for row in &rows {
            meter.push(reading(row), &mut received).unwrap();
            let instant = at(row.at.saturating_sub(3_000));
            starts.extend(meter.final_span_start(instant).map(|start| (instant, start)));
        }
        meter.finish(&mut received);
        for (instant, start) in starts {
            let span = received.spans.iter().find(|span| span.from <= instant && instant < span.to).unwrap();
            prop_assert_eq!(span.from, start);
        }
    }
}
