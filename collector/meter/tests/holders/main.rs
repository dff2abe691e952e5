//! Accounts by holder against the oracle, on generated timelines of grants, uses, processes and readings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod cases;
mod parts;
mod timeline;

use phasemeter_meter::accounts::Charge;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::holder::HolderAccount;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_oracle::holders::{Kind, Slice};
use proptest::prelude::*;
use timeline::{
    HOLDERS, LATENESS, any_timeline, assert_tiles, config, holder, meter, meter_with, rows,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// Each account of each holder is the oracle's: time within nanoseconds, cost within nano-dollars. Together they
    /// are exactly those of the GPU, in each phase and at each boundary.
    #[test]
    fn accounts_by_holder_match_oracle_and_tile_the_bill(timeline in any_timeline()) {
        let (meter, received) = meter(&timeline, &[]);
        assert_tiles(&meter);
        prop_assert!(received.boundaries > 0);
        // What is named late was nobody's before, and is in no share.
        for (holder, accounts) in meter.holders().iter() {
            let all = accounts.all();
            let of_holder = (all.time.0, all.weighted, all.cost.0);
            let shares = received.shares.get(&Some(holder.clone())).copied().unwrap_or_default();
            prop_assert_eq!(shares, of_holder, "{}", holder);
        }
        let slice = |Charge { slice, cost, .. }: &Charge| Slice {
            from: slice.from.as_nanos(),
            to: slice.to.as_nanos(),
            weighted: slice.weighted,
            account: slice.account as usize,
            is_observed: slice.account != Account::Unobserved,
            cost: cost.0 as f64,
        };
        let slices: Vec<_> = received.charges.iter().map(slice).collect();
        let expected = timeline.world().divide(&slices);
        prop_assume!(!meter.holders().is_empty());
        let numbers = (0..HOLDERS).map(Some).chain([None]);
        for (number, account) in numbers.flat_map(|it| Account::ALL.map(|account| (it, account))) {
            let accounts = number.and_then(|number| meter.holders().get(&holder(number)).cloned());
            let balance = |kind: Kind| match kind {
                Kind::Nobody => Some(meter.holders().nobody(account)),
                _ => Some(accounts.as_ref()?.balance(HolderAccount::ALL[kind as usize], account)),
            };
            let kinds = [Kind::Used, Kind::GrantedUnused, Kind::NeverTouched, Kind::Nobody];
            for kind in kinds.into_iter().filter(|kind| number.is_none() == (*kind == Kind::Nobody)) {
                let found = balance(kind).unwrap_or_default();
                let expected = expected.get(&(number, kind, account as usize)).copied().unwrap_or_default();
                let found = (found.time.0 as f64, found.weighted as f64, found.cost.0 as f64);
                let close = |found: f64, expected: f64, by: f64| (found - expected).abs() <= by;
                let what = format!("{number:?} {kind:?} {account:?}: {found:?}, expected {expected:?}");
                prop_assert!(close(found.0, expected.time, 16.0), "{}", what);
                prop_assert!(close(found.1, expected.weighted, 1e4), "{}", what);
                prop_assert!(close(found.2, expected.cost, 16.0), "{}", what);
            }
        }
    }

    /// If only holders are charged, charges and spans are what they pay, to the nano-dollar; accounts are the same.
    #[test]
    fn charges_and_spans_of_holders_are_their_accounts(timeline in any_timeline()) {
        let config = MeterConfig { charges_holders: true, ..config() };
        let (own, received) = meter_with(config, &timeline, &[]);
        prop_assert!(rows(&own) == rows(&meter(&timeline, &[]).0));
        for account in Account::ALL {
            let (all, nobody) = (own.accounts()[account], own.holders().nobody(account));
            let span = received.spans[account];
            prop_assert_eq!(span.time, all.time - nobody.time);
            prop_assert_eq!(span.weighted, all.weighted - nobody.weighted);
            prop_assert_eq!(span.cost, all.cost - nobody.cost);
        }
        let charges = received.charges.iter();
        prop_assert_eq!(charges.map(|charge| charge.cost).sum::<NanoUsd>(), own.charged());
        prop_assert_eq!(own.charged(), received.spans.all().cost);
    }

    /// Whether what is known of holders comes first, or late within the allowed lateness, changes nothing.
    #[test]
    fn order_of_arrival_changes_no_account_of_a_holder(
        timeline in any_timeline(), late in prop::collection::vec(0_u64..=LATENESS, 1..30),
    ) {
        let (first, late) = (meter(&timeline, &[]).0, meter(&timeline, &late).0);
        assert_tiles(&late);
        prop_assert!(rows(&first) == rows(&late));
    }
}
