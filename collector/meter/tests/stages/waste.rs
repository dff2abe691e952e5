//! Waste by category.

use super::*;

fn waste(classifier: &WasteClassifier, charges: &[Charge]) -> WasteByCategory {
    let mut accounts = Accounts::default();
    charges.iter().for_each(|charge| accounts.post(charge));
    classifier.by_category_since(&WasteClassifier::default(), &accounts, true)
}

/// The second of the last rise is starvation only if another cycle follows.
#[test]
fn starvation_ends_with_the_last_cycle() {
    let charges = [charge(10, 11, Account::IdleFree), charge(11, 12, Account::Underutilized)];
    let mut classifier = WasteClassifier::default();
    classifier.apply(CycleChange::StretchStarted(at(10_000)), false);
    charges.iter().for_each(|charge| classifier.post(charge));
    let outside =
        WasteByCategory { starvation: NanoUsd(0), idle: NanoUsd(1), underload: NanoUsd(1) };
    assert_eq!(waste(&classifier, &charges), outside);
    classifier.apply(CycleChange::StretchExtended(at(11_000)), false);
    let inside = WasteByCategory { starvation: NanoUsd(2), ..WasteByCategory::default() };
    assert_eq!(waste(&classifier, &charges), inside, "everything before the rise");
}

#[test]
fn phase_sums_its_accounts() {
    let mut accounts = Accounts::default();
    for (seconds, account) in (1_u64..).zip(Account::ALL) {
        accounts.post(&charge(0, seconds, account));
    }
    let time = |phase| accounts.phase(phase).time;
    assert_eq!(time(Phase::Idle), Nanos::from_secs(1 + 2 + 3));
    assert_eq!(time(Phase::Underutilized), Nanos::from_secs(4));
    assert_eq!(time(Phase::ComputeBound), Nanos::from_secs(6));
    assert_eq!(accounts.observed().time, Nanos::from_secs(21));
    assert_eq!(accounts.all().time, Nanos::from_secs(28));
}
