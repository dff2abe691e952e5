//! Single properties of accounts by holder: what is hidden, a late price, energy, silence, many holders.

use std::sync::Arc;

use phasemeter_meter::accounts::Balance;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::holder::{
    AllocationMethod, Container, Grant, Holder, HolderAccount, HolderChange, HolderUse, Share,
};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::holders::{EarlierHolders, Holders};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::{Millijoules, Nanos, Utilization};
use proptest::prelude::*;

use super::timeline::{
    any_timeline, assert_tiles, assigned, at, config, holder, meter, meter_with, reading, used,
};

const SECOND: u64 = 20;
const NEVER: HolderAccount = HolderAccount::NeverTouched;
const UNUSED: HolderAccount = HolderAccount::GrantedUnused;

fn rate(text: &str) -> Rate {
    Rate::parse(text).unwrap()
}

/// A meter at 3.6 USD per hour: a second costs a millidollar.
fn priced() -> GpuMeter {
    GpuMeter::new(config(), Some(rate("3.6")), None)
}

/// Readings of one value each half second, up to `seconds`.
fn push(meter: &mut GpuMeter, from: u64, seconds: u64, ppm: u64) {
    for ticks in (from * SECOND..seconds * SECOND).step_by(10) {
        meter.push(reading(ticks, Some(ppm)), &mut ()).unwrap();
    }
}

fn cost(meter: &GpuMeter, number: usize) -> Vec<NanoUsd> {
    let accounts = meter.holders().get(&holder(number)).unwrap();
    HolderAccount::ALL.map(|of| accounts.total(of).cost).to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Two holders use what they use, whether a hidden one uses the GPU beside them or not: its use is nobody's, and
    /// takes from them only what they do not use.
    #[test]
    fn hidden_use_is_nobodys_and_never_a_neighbors(
        shares in (0_u32..=4, 0_u32..=3), uses in (0_u64..400_000, 0_u64..300_000), hidden in 1_u64..300_000,
    ) {
        let metered = |hidden: u64| {
            let mut meter = priced();
            let grants = [(0, Some((shares.0, 7))), (1, Some((shares.1, 7)))];
            meter.change_holders(assigned(0, &grants));
            meter.change_holders(used(0, 0, 30 * SECOND, uses.0));
            meter.change_holders(used(1, 0, 30 * SECOND, uses.1));
            push(&mut meter, 0, 30, uses.0 + uses.1 + hidden);
            meter.finish_at(at(30 * SECOND), &mut ());
            assert_tiles(&meter);
            meter
        };
        let (alone, beside) = (metered(0), metered(hidden));
        for number in [0, 1] {
            let [alone, beside] = [&alone, &beside].map(|it| it.holders().get(&holder(number)));
            let used = HolderAccount::Used;
            let weighted = |all: &phasemeter_meter::holders::HolderAccounts| all.total(used).weighted;
            prop_assert_eq!(alone.map(weighted), beside.map(weighted));
            if let (Some(alone), Some(beside)) = (alone, beside) {
                prop_assert!(beside.all().cost.0 <= alone.all().cost.0 + 2);
            }
        }
        let sum = |meter: &GpuMeter| Account::ALL.map(|it| meter.holders().nobody(it).weighted).iter().sum::<u128>();
        prop_assert_eq!(sum(&alone), 0);
        prop_assert_eq!(sum(&beside), u128::from(hidden) * 30 * 1_000_000_000);
    }

    /// However few holders that have ended are kept apart, all that they paid is kept, and others pay the same.
    #[test]
    fn folding_changes_no_sum(timeline in any_timeline(), ended_holders in 0_usize..3) {
        let apart = meter(&timeline, &[]).0;
        let folded = meter_with(MeterConfig { ended_holders, ..config() }, &timeline, &[]).0;
        assert_tiles(&folded);
        let used = |meter: &GpuMeter| {
            let holders = meter.holders();
            let all = holders.iter().map(|(_, it)| it).chain(holders.earlier().map(|it| it.accounts));
            all.fold(Balance::default(), |mut sum, accounts| {
                sum += accounts.total(HolderAccount::Used);
                sum
            })
        };
        prop_assert_eq!(used(&apart), used(&folded));
        for account in Account::ALL {
            prop_assert_eq!(apart.holders().nobody(account), folded.holders().nobody(account));
        }
    }

    /// A GPU that is priced late has the accounts by holder that it would have had, but for rounding.
    #[test]
    fn late_price_prices_holders_from_the_start(mut timeline in any_timeline()) {
        timeline.rates.1.clear();
        let early = meter(&timeline, &[]).0;
        let rate = timeline.rates.0;
        let mut late = GpuMeter::new(config(), None, None);
        timeline.changes().into_iter().for_each(|(_, change)| late.change_holders(change));
        let half = timeline.readings.len() / 2;
        for (index, (time, (_, ppm))) in timeline.times().iter().zip(&timeline.readings).enumerate() {
            if index == half {
                late.price_from_start(rate).unwrap();
                assert_tiles(&late);
            }
            late.push(reading(*time, *ppm), &mut ()).unwrap();
        }
        match timeline.times().last() {
            Some(last) if timeline.end > 0 => late.finish_at(at(last + timeline.end), &mut ()),
            _ => late.finish(&mut ()),
        }
        assert_tiles(&late);
        for (holder, early) in early.holders().iter() {
            let late = late.holders().get(holder).unwrap();
            for of in HolderAccount::ALL {
                let (early, late) = (early.total(of), late.total(of));
                prop_assert_eq!((early.time, early.weighted), (late.time, late.weighted));
                // A nano-dollar per slice, at most.
                prop_assert!((early.cost.0 - late.cost.0).abs() < 1_000);
            }
        }
    }
}

/// A pod has the GPU to itself for ten seconds, never touches it for ten, and its successor uses half of it.
/// Granted time follows from grants alone, not from use.
/// Guarantee: a holder touches by the utilization of what it has, of its MIG instance or of the GPU; an estimate of what
/// it uses does not touch.
#[test]
fn holder_touches_by_its_own_utilization() {
    let seventh = Some((1, 7));
    let mut meter = priced();
    meter.change_holders(assigned(0, &[(0, seventh), (1, seventh), (2, seventh)]));
    let own = |number, of: Option<u64>, ppm| match used(number, 0, 20 * SECOND, ppm) {
        HolderChange::Used(used) => HolderChange::Used(HolderUse {
            own: of.map(|ppm| Utilization::from_ppm(ppm.try_into().unwrap()).unwrap()),
            ..used
        }),
        other => other,
    };
    // At and below the threshold of ten percent, and an estimate above it.
    meter.change_holders(own(0, Some(100_000), 14_286));
    meter.change_holders(own(1, Some(99_999), 14_286));
    meter.change_holders(own(2, None, 140_000));
    push(&mut meter, 0, 20, 200_000);
    meter.finish(&mut ());
    let is_never =
        |number| meter.holders().get(&holder(number)).unwrap().total(NEVER).time > Nanos::ZERO;
    assert_eq!([0, 1, 2].map(is_never), [false, true, true]);
}

#[test]
fn granted_is_the_part_of_each_over_time() {
    let mut meter = priced();
    meter.change_holders(assigned(SECOND, &[(0, Some((1, 4))), (1, Some((1, 2)))]));
    meter.change_holders(assigned(21 * SECOND, &[(1, None)]));
    meter.change_holders(used(0, SECOND, 40 * SECOND, 900_000));
    push(&mut meter, 0, 41, 900_000);
    meter.finish_at(at(41 * SECOND), &mut ());
    let granted = |number| meter.holders().get(&holder(number)).unwrap().granted();
    assert_eq!([granted(0), granted(1)], [5, 10 + 20].map(Nanos::from_secs));
}

#[test]
fn pod_pays_for_its_time_to_the_nano_dollar() {
    let mut meter = priced();
    meter.change_holders(assigned(0, &[(0, Some((1, 1)))]));
    meter.change_holders(assigned(10 * SECOND + 7, &[(1, Some((1, 1)))]));
    meter.change_holders(assigned(20 * SECOND, &[(2, Some((1, 1)))]));
    meter.change_holders(assigned(30 * SECOND, &[]));
    push(&mut meter, 0, 10, 800_000);
    meter.push(reading(10 * SECOND, Some(800_000)), &mut ()).unwrap();
    meter.push(reading(10 * SECOND + 7, Some(0)), &mut ()).unwrap();
    push(&mut meter, 11, 20, 20_000);
    push(&mut meter, 20, 32, 500_000);
    meter.finish_at(at(32 * SECOND), &mut ());
    assert_tiles(&meter);
    let nanos = |amounts: [i128; 3]| amounts.map(NanoUsd).to_vec();
    assert_eq!(cost(&meter, 0), nanos([8_280_000, 2_070_000, 0]));
    // 2% of nine seconds.
    assert_eq!(cost(&meter, 1), nanos([180_000, 0, 9_470_000]));
    assert_eq!(cost(&meter, 2), nanos([5_000_000, 5_000_000, 0]));
    let nobody: NanoUsd =
        Account::ALL.map(|account| meter.holders().nobody(account).cost).into_iter().sum();
    assert_eq!(nobody, NanoUsd(2_000_000));
    let first = meter.holders().get(&holder(0)).unwrap();
    assert_eq!((first.from(), first.to()), (at(0), Some(at(10 * SECOND + 7))));
    assert_eq!(
        first.methods().collect::<Vec<_>>(),
        [(AllocationMethod::Exclusive, Nanos(10_350_000_000))]
    );
}

/// A grant pays for time that is not observed, whose account says so, and for none in which the GPU is absent.
#[test]
fn grants_hold_over_unobserved_and_silent_time() {
    let mut meter = priced();
    meter.change_holders(assigned(0, &[(0, Some((1, 4))), (1, None)]));
    push(&mut meter, 0, 10, 0);
    meter.advance_silent(at(40 * SECOND), &mut ());
    meter.change_holders(assigned(30 * SECOND, &[(1, Some((1, 1)))]));
    meter.exempt(at(50 * SECOND), at(60 * SECOND));
    meter.finish_unlisted_at(at(60 * SECOND), &mut ());
    assert_tiles(&meter);
    let unobserved = |number: usize| {
        meter.holders().get(&holder(number)).unwrap().balance(NEVER, Account::Unobserved)
    };
    // The last reading, at 9.5 s, covers a second. An assignment of silent time that is posted applies after it.
    assert_eq!(unobserved(0).time, Nanos(29_500_000_000 / 4));
    assert_eq!(unobserved(0).cost, NanoUsd(29_500_000 / 4));
    assert_eq!(unobserved(1).time, Nanos(29_500_000_000 / 4 * 3 + 20_000_000_000));
    assert_eq!(unobserved(1).cost, NanoUsd(29_500_000 / 4 * 3 + 10_000_000));
}

/// 100 W for ten seconds are divided like the time that is paid for, and the sum is that of the GPU.
#[test]
fn energy_is_divided_like_time() {
    let mut meter = priced();
    meter.change_holders(assigned(0, &[(0, Some((1, 4))), (1, Some((1, 2)))]));
    meter.change_holders(assigned(10 * SECOND, &[(1, Some((1, 1)))]));
    for ticks in (0..=20 * SECOND).step_by(10) {
        let energy = Some(Millijoules(5_000 * ticks));
        meter.push(Reading { energy, ..reading(ticks, Some(0)) }, &mut ()).unwrap();
    }
    meter.finish_at(at(20 * SECOND), &mut ());
    assert_tiles(&meter);
    let joules = [0, 1].map(|number| meter.holders().get(&holder(number)).unwrap().joules());
    assert_eq!((joules, meter.holders().nobody_joules()), ([250.0, 1_500.0], 250.0));
    assert_eq!(meter.energy().joules(), Some(2_000.0));
}

/// What more pods than are kept apart have paid is kept in one row.
#[test]
fn pods_that_ended_first_are_one_row() {
    let mut meter =
        GpuMeter::new(MeterConfig { ended_holders: 8, ..config() }, Some(rate("3.6")), None);
    for second in 0..100 {
        let number = usize::try_from(second).unwrap();
        meter.change_holders(assigned(second * SECOND, &[(number, Some((1, 1)))]));
        push(&mut meter, second, second + 1, 0);
    }
    meter.finish_at(at(100 * SECOND), &mut ());
    assert_tiles(&meter);
    let kept: Vec<_> = meter.holders().iter().map(|(holder, _)| holder.clone()).collect();
    assert_eq!(kept, (91..100).map(holder).collect::<Vec<_>>());
    let [earlier] = meter.holders().earlier().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((earlier.count, earlier.accounts.all().cost), (91, NanoUsd(91_000_000)));
    assert_eq!(earlier.accounts.total(UNUSED).cost, NanoUsd::ZERO, "none has touched it");
}

/// Pods of long runs still pay by namespace and workload once they are not kept apart.
#[test]
fn earlier_pods_are_rows_by_who_pays() {
    let mut meter =
        GpuMeter::new(MeterConfig { ended_holders: 4, ..config() }, Some(rate("3.6")), None);
    let pod = |number: u64| {
        let namespace = if number.is_multiple_of(3) { "web" } else { "ml" };
        let pod = format!("pod-{number}");
        Holder::Container(Container { namespace: namespace.into(), pod, ..Container::default() })
    };
    for number in 0..60 {
        let (at, holder) = (at(number * SECOND), pod(number));
        let grants = vec![Grant { holder: holder.clone(), share: Share::new(1, 1) }];
        meter.change_holders(HolderChange::Assigned { at, grants });
        if number % 2 == 0 {
            let details = HolderDetails { queue: Some("night".into()), ..HolderDetails::default() };
            meter.change_holders(HolderChange::Described { holder, details: Arc::new(details) });
        }
        push(&mut meter, number, number + 1, 0);
    }
    meter.finish_at(at(60 * SECOND), &mut ());
    assert_tiles(&meter);
    let kept: Vec<u64> =
        (0..60).filter(|number| meter.holders().get(&pod(*number)).is_some()).collect();
    let earlier = |namespace: &str, is_described: bool| {
        let is_one = |number: &u64| {
            number.is_multiple_of(3) == (namespace == "web")
                && number.is_multiple_of(2) == is_described
        };
        let all = (0..60).filter(|number| !kept.contains(number));
        u64::try_from(all.filter(is_one).count()).unwrap()
    };
    let rows: Vec<_> = meter.holders().earlier().collect();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let expected = earlier(row.namespace.unwrap(), row.details.is_some());
        assert_eq!(row.count, expected, "{row:?}");
        assert_eq!(row.accounts.all().cost, NanoUsd(i128::from(expected) * 1_000_000));
    }
}

/// However many payers there are, their rows are bounded, and no cost is lost.
#[test]
fn rows_of_earlier_payers_are_bounded() {
    let config = MeterConfig { ended_holders: 2, ..config() };
    let mut meter = GpuMeter::new(config, Some(rate("3.6")), None);
    for number in 0..50 {
        let (namespace, pod) = (format!("team-{number}"), "job-0".to_owned());
        let holder = Holder::Container(Container { namespace, pod, ..Container::default() });
        let grants = vec![Grant { holder, share: Share::new(1, 1) }];
        meter.change_holders(HolderChange::Assigned { at: at(number * SECOND), grants });
        push(&mut meter, number, number + 1, 0);
    }
    meter.finish_at(at(50 * SECOND), &mut ());
    assert_tiles(&meter);
    let rows: Vec<_> = meter.holders().earlier().map(|row| (row.namespace, row.count)).collect();
    assert_eq!(rows.len(), 5, "{rows:?}");
    assert_eq!(rows[0].0, None, "all others");
    let kept = u64::try_from(meter.holders().iter().count()).unwrap();
    assert_eq!(rows.iter().map(|(_, count)| count).sum::<u64>() + kept, 50);
}

/// A gateway keeps few apart; more may end at one instant, and go on to use the GPU.
#[test]
fn holders_that_end_at_once_are_folded_with_what_they_paid() {
    let config = MeterConfig { ended_holders: 8, ..config() };
    let mut meter = GpuMeter::new(config, Some(rate("3.6")), None);
    let many: Vec<_> = (0..20).map(|number| (number, Some((1, 40)))).collect();
    meter.change_holders(assigned(0, &many));
    meter.change_holders(assigned(10 * SECOND, &[(30, Some((1, 2))), (5, Some((1, 4)))]));
    meter.change_holders(used(3, 9 * SECOND, 12 * SECOND, 200_000));
    push(&mut meter, 0, 20, 400_000);
    meter.finish_at(at(20 * SECOND), &mut ());
    assert_tiles(&meter);
    let EarlierHolders { count, accounts, .. } = meter.holders().earlier().next().unwrap();
    assert_eq!(count + u64::try_from(meter.holders().iter().count()).unwrap(), 21);
    // Eleven of them, or twelve, have had a fortieth of ten seconds.
    assert_eq!(count, 11);
    assert!((accounts.all().cost.0 - 11 * 250_000).abs() < 300_000, "{:?}", accounts.all());
    let paid = |number| cost(&meter, number).into_iter().sum::<NanoUsd>();
    assert!(paid(3) > NanoUsd(500_000), "it used a fifth for three seconds");
    assert!(paid(30) < NanoUsd(5_000_001));
}

/// Guarantee: of more holders than have accounts, those in order that have none leave the others' parts as they are;
/// what they were granted and used is nobody's.
#[test]
fn grants_over_the_limit_are_nobodys() {
    let max = Holders::MAX_GRANTS;
    let [equal, stated] = [None, Some((1, 320))].map(|share| {
        let mut meter = priced();
        let all: Vec<_> = (0..max + 64).map(|number| (number, share)).collect();
        meter.change_holders(assigned(0, &all));
        push(&mut meter, 0, 32, 500_000);
        meter.finish_at(at(32 * SECOND), &mut ());
        assert_tiles(&meter);
        meter
    });
    for meter in [equal, stated] {
        assert_eq!(meter.holders().iter().count(), max);
        let part = NanoUsd(32_000_000 / 320);
        let paid = |number| cost(&meter, number).into_iter().sum::<NanoUsd>();
        assert!((0..max).all(|number| (paid(number) - part).0.abs() <= 1));
        let nobody = Account::ALL.map(|it| meter.holders().nobody(it).cost).into_iter();
        let nobody = nobody.sum::<NanoUsd>();
        assert!((nobody.0 - 64 * part.0).abs() <= 320, "{nobody:?}");
        assert_eq!(meter.holders().dropped(), 64);
    }
}

/// Guarantee: while uses are missing that were known, who has touched nothing is not charged for use: that part is
/// nobody's.
#[test]
fn holder_that_touched_nothing_uses_nothing_while_uses_are_missing() {
    let mut meter = priced();
    meter.change_holders(assigned(0, &[(0, Some((1, 2))), (1, Some((1, 2)))]));
    meter.change_holders(used(0, 0, 10 * SECOND, 600_000));
    meter.change_holders(used(1, 0, 10 * SECOND, 0));
    push(&mut meter, 0, 20, 600_000);
    meter.finish_at(at(20 * SECOND), &mut ());
    assert_tiles(&meter);
    let used = |number: usize| {
        let accounts = meter.holders().get(&holder(number)).unwrap();
        accounts.total(HolderAccount::Used).weighted / 1_000_000_000
    };
    assert_eq!((used(0), used(1)), (6_000_000 + 3_000_000, 0));
    assert_eq!(cost(&meter, 1)[HolderAccount::GrantedUnused as usize], NanoUsd(0));
}

/// Details of a holder change no account; the latest ones count, also after its end.
#[test]
fn details_change_no_account() {
    let describe = |queue: &str| {
        let details = HolderDetails { queue: Some(queue.to_owned()), ..HolderDetails::default() };
        HolderChange::Described { holder: holder(0), details: Arc::new(details) }
    };
    let metered = |is_described: bool| {
        let mut meter = priced();
        if is_described {
            meter.change_holders(describe("too early"));
        }
        meter.change_holders(assigned(0, &[(0, Some((1, 2)))]));
        if is_described {
            assert_eq!(meter.holders().details(&holder(0)), None);
            meter.change_holders(describe("first"));
        }
        push(&mut meter, 0, 10, 300_000);
        meter.change_holders(assigned(10 * SECOND, &[]));
        push(&mut meter, 10, 20, 300_000);
        if is_described {
            meter.change_holders(describe("last"));
        }
        meter.finish_at(at(20 * SECOND), &mut ());
        assert_tiles(&meter);
        meter
    };
    let (plain, described) = (metered(false), metered(true));
    assert_eq!(plain.holders().get(&holder(0)), described.holders().get(&holder(0)));
    assert_eq!(plain.holders().details(&holder(0)), None);
    let queue = described.holders().details(&holder(0)).and_then(|it| it.queue.as_deref());
    assert_eq!(queue, Some("last"));
}
