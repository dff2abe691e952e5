//! Parts of a run, which reports of periods have: on generated timelines they sum to the run.

use std::collections::BTreeMap;

use phasemeter_meter::accounts::{Accounts, Balance};
use phasemeter_meter::gpu::{GpuMeter, GpuPart, MeterConfig};
use phasemeter_meter::holder::{Holder, HolderAccount};
use phasemeter_meter::holders::Holders;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::Nanos;
use proptest::prelude::*;

use crate::timeline::{LATENESS, Timeline, any_timeline, at, config, reading};

const TICKS_PER_SECOND: u64 = 20;

/// Meters a timeline in parts. A part ends this many seconds after the one before, or, if the number is zero, with what
/// is posted when the next reading arrives.
fn meter(
    config: MeterConfig,
    timeline: &Timeline,
    late: u64,
    lengths: &[u64],
) -> (GpuMeter, Vec<GpuPart>) {
    let mut meter = GpuMeter::new(config, Some(timeline.rates.0), None);
    let mut parts = Vec::new();
    let mut changes = timeline.changes();
    changes.sort_by_key(|(at, _)| *at);
    let mut changes = changes.into_iter().peekable();
    let mut lengths = lengths.iter().cycle();
    let mut second = 0;
    let mut plan = |meter: &mut GpuMeter, parts: &mut Vec<_>| match lengths.next() {
        Some(0) => parts.extend(meter.take_part()),
        Some(length) => {
            second += length;
            meter.end_part_at(at(second * TICKS_PER_SECOND));
        }
        None => {}
    };
    plan(&mut meter, &mut parts);
    for (index, (time, (_, ppm))) in timeline.times().iter().zip(&timeline.readings).enumerate() {
        while let Some((_, change)) = changes.next_if(|(at, _)| at + late.min(LATENESS) < *time) {
            meter.change_holders(change);
        }
        meter.push(reading(*time, *ppm), &mut ()).unwrap();
        if index == 0 {
            for (at_ticks, rate) in &timeline.rates.1 {
                meter.change_rate(at(*at_ticks), *rate).unwrap();
            }
        }
        if meter.has_ended_part() || index % 7 == 0 {
            parts.extend(meter.has_ended_part().then(|| meter.take_part()).flatten());
            plan(&mut meter, &mut parts);
        }
    }
    changes.for_each(|(_, change)| meter.change_holders(change));
    match timeline.times().last() {
        Some(last) if timeline.end > 0 => meter.finish_at(at(last + timeline.end), &mut ()),
        _ => meter.finish(&mut ()),
    }
    parts.extend(meter.has_ended_part().then(|| meter.take_part()).flatten());
    parts.extend(meter.part_so_far());
    (meter, parts)
}

/// Time, Σ utilization × time, and cost: what sums exactly.
fn exact(balance: Balance) -> (Nanos, u128, NanoUsd) {
    (balance.time, balance.weighted, balance.cost)
}

/// All accounts by holder; those that are not kept apart have no name.
fn by_holder(holders: &Holders) -> BTreeMap<Option<Holder>, [Balance; 3]> {
    let kept = holders.iter().map(|(holder, accounts)| (Some(holder.clone()), accounts));
    let all = kept.chain(holders.earlier().map(|it| (None, it.accounts)));
    all.map(|(holder, accounts)| (holder, HolderAccount::ALL.map(|of| accounts.total(of))))
        .collect()
}

fn assert_part_tiles(part: &GpuPart) {
    let accounts = part.summary.accounts;
    let (from, to) = part.summary.span.unwrap();
    assert_eq!(accounts.all().time, to.since(from));
    let mut end = from;
    for period in part.periods.to_vec() {
        assert_eq!(period.from, end);
        end = end + period.length();
    }
    assert_eq!(end, to);
    for account in Account::ALL {
        let periods = part.periods.to_vec();
        let time: Nanos = periods.iter().map(|period| period.time(account)).sum();
        let cost: NanoUsd = periods.iter().map(|period| period.cost(account)).sum();
        assert_eq!((time, cost), (accounts[account].time, accounts[account].cost));
        if !part.holders.is_empty() {
            let mut sum = part.holders.nobody(account);
            let earlier = part.holders.earlier().map(|it| it.accounts);
            for holder in part.holders.iter().map(|(_, accounts)| accounts).chain(earlier) {
                HolderAccount::ALL.into_iter().for_each(|of| sum += holder.balance(of, account));
            }
            assert_eq!(exact(sum), exact(accounts[account]), "{account:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whenever parts end, they tile the run, and sum to its accounts and to those of each holder.
    #[test]
    fn parts_sum_to_run_and_to_each_holder(
        timeline in any_timeline(),
        late in 0..=LATENESS,
        lengths in prop::collection::vec(0_u64..7, 1..8),
        folds in any::<bool>(),
    ) {
        let config = MeterConfig { ended_holders: if folds { 1 } else { 64 }, ..config() };
        let (meter, parts) = meter(config, &timeline, late, &lengths);
        parts.iter().for_each(assert_part_tiles);
        let spans: Vec<_> = parts.iter().map(|part| part.summary.span.unwrap()).collect();
        prop_assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{:?}", spans);
        let (from, to) = meter.span().unwrap();
        if from < to {
            prop_assert_eq!((spans[0].0, spans[spans.len() - 1].1), (from, to));
        }
        let mut sum = Accounts::default();
        parts.iter().for_each(|part| sum += &part.summary.accounts);
        for account in Account::ALL {
            prop_assert_eq!(exact(sum[account]), exact(meter.accounts()[account]), "{:?}", account);
        }
        let mut holders = BTreeMap::<Option<Holder>, [Balance; 3]>::new();
        for (holder, balances) in parts.iter().flat_map(|part| by_holder(&part.holders)) {
            // Those that are not kept apart in the end may have been in a part.
            let kept = holder.filter(|holder| !folds || meter.holders().get(holder).is_some());
            let sums = holders.entry(kept).or_default();
            sums.iter_mut().zip(balances).for_each(|(sum, balance)| *sum += balance);
        }
        let whole = by_holder(meter.holders());
        if !folds {
            for (holder, balances) in whole {
                let found = holders.remove(&holder).unwrap_or_default();
                prop_assert_eq!(found.map(exact), balances.map(exact), "{:?}", holder);
            }
            prop_assert!(holders.is_empty());
        } else {
            let all = |of: &BTreeMap<_, [Balance; 3]>| {
                let mut all = Balance::default();
                of.values().flatten().for_each(|balance| all += *balance);
                exact(all)
            };
            prop_assert_eq!(all(&holders), all(&whole));
        }
    }
}
