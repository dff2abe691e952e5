//! Units, money, readings and names at their limits.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::float_cmp, reason = "these conversions are exact")]

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::{NanoUsd, ParseRateError, Rate};
use phasemeter_meter::phase::{Account, Holding, Phase, Thresholds};
use phasemeter_meter::reading::{Basis, MissingReason, Reading};
use phasemeter_meter::units::{
    Bytes, Millijoules, Milliwatts, NANOS_PER_HOUR, Nanos, PPM, Timestamp, Utilization,
};
use phasemeter_meter::waste::WasteCategory;

/// Whether all names are nonempty and different.
fn are_distinct(names: &[&str]) -> bool {
    let distinct: std::collections::BTreeSet<_> = names.iter().collect();
    distinct.len() == names.len() && names.iter().all(|name| !name.is_empty())
}

#[test]
fn money_converts_to_dollars() {
    assert_eq!(NanoUsd(1_500_000_000).as_f64(), 1.5);
    assert_eq!(NanoUsd(-250_000_000).as_f64(), -0.25);
    assert_eq!(NanoUsd(7).times(3), NanoUsd(21));
    assert_eq!(NanoUsd(10).ratio(1, 4), Some(NanoUsd(2)));
    assert_eq!(NanoUsd(10).ratio(3, 4), Some(NanoUsd(8)));
    assert_eq!(NanoUsd(10).ratio(1, 0), None);
}

#[test]
fn money_has_a_sign_only_below_zero() {
    assert_eq!(NanoUsd::ZERO.to_string(), "0.000000000");
    assert_eq!(NanoUsd(-2_000_000_001).to_string(), "-2.000000001");
}

#[test]
fn rate_is_at_most_ten_thousand_dollars() {
    assert_eq!(Rate::MAX, 10_000_000_000_000);
    assert_eq!(Rate::new(Rate::MAX).unwrap().hourly().to_string(), "10000.000000000");
    assert_eq!(Rate::new(Rate::MAX + 1), None);
    assert!(matches!(Rate::parse("10000.000000001"), Err(ParseRateError::AboveMaximum)));
    assert!(matches!(Rate::parse("0.0000000001"), Err(ParseRateError::TooManyDecimals)));
    assert!(matches!(Rate::parse("0.x"), Err(ParseRateError::InvalidNumber)));
    assert!(matches!(Rate::parse("x.5"), Err(ParseRateError::InvalidNumber)));
    assert_eq!(Rate::from_instance(Rate::MAX * 8, 8), Rate::new(Rate::MAX));
    assert_eq!(Rate::from_instance(Rate::MAX * 8 + 8, 8), None);
    assert_eq!(Rate::from_instance(1, 0), None);
}

#[test]
fn timestamp_range_ends_with_2261() {
    // `date -u -d 2262-01-01 +%s`
    assert_eq!(Timestamp::END, 9_214_646_400_000_000_000);
    assert_eq!(Timestamp::LAST.as_nanos(), Timestamp::END - 1);
    assert_eq!(Timestamp::from_nanos(Timestamp::END - 1), Some(Timestamp::LAST));
    assert_eq!(Timestamp::from_millis(Timestamp::END / 1_000_000), None);
    assert_eq!(Timestamp::from_millis(u64::MAX), None);
    assert_eq!(NANOS_PER_HOUR, 3_600_000_000_000);
}

#[test]
fn timestamp_arithmetic_saturates() {
    let at = |nanos| Timestamp::from_nanos(nanos).unwrap();
    assert_eq!(at(10) + Nanos(5), at(15));
    assert_eq!(Timestamp::LAST + Nanos(1), Timestamp::LAST);
    assert_eq!(at(10).saturating_sub(Nanos(3)), at(7));
    assert_eq!(at(10).saturating_sub(Nanos(11)), Timestamp::EPOCH);
    assert_eq!(at(10).since(at(4)), Nanos(6));
    assert_eq!(at(4).since(at(10)), Nanos::ZERO);
    assert_eq!(at(5_999_999_999).whole_second(), 5);
    assert_eq!(at(5_999_999_999).floor_second(), at(5_000_000_000));
    assert_eq!(at(17).floor(Nanos(5)), at(15));
    assert_eq!(at(17).floor(Nanos::ZERO), at(17));
}

#[test]
fn duration_arithmetic_saturates() {
    assert_eq!(Nanos::from_secs(2), Nanos(2_000_000_000));
    assert_eq!(Nanos::from_millis(2), Nanos(2_000_000));
    assert_eq!(Nanos(1_500_000_000).as_secs_f64(), 1.5);
    assert_eq!(Nanos(3) + Nanos(4), Nanos(7));
    assert_eq!(Nanos(3) - Nanos(4), Nanos::ZERO);
    assert_eq!(Nanos(9) - Nanos(4), Nanos(5));
    assert_eq!(Nanos(3).saturating_mul(4), Nanos(12));
    assert_eq!([Nanos(1), Nanos(2), Nanos(3)].into_iter().sum::<Nanos>(), Nanos(6));
    let mut sum = Nanos(1);
    sum += Nanos(u64::MAX);
    assert_eq!(sum, Nanos(u64::MAX));
}

#[test]
fn utilization_is_at_most_one() {
    assert_eq!(Utilization::from_ppm(PPM), Some(Utilization::FULL));
    assert_eq!(Utilization::from_ppm(PPM + 1), None);
    assert_eq!(Utilization::from_percent(100), Some(Utilization::FULL));
    assert_eq!(Utilization::from_percent(101), None);
    let three_quarters = Utilization::from_percent(75).unwrap();
    assert_eq!(three_quarters.ppm(), 750_000);
    assert_eq!(three_quarters.percent(), 75.0);
    assert_eq!(three_quarters.ratio(), 0.75);
    assert!(three_quarters.to_string().starts_with("75"), "{three_quarters}");
}

#[test]
fn memory_is_at_most_four_tebibytes() {
    assert_eq!(Bytes::MEBIBYTE, 1_048_576);
    assert_eq!(Bytes::MAX, 4_398_046_511_104);
    assert_eq!(Bytes::new(Bytes::MAX).map(Bytes::get), Some(Bytes::MAX));
    assert_eq!(Bytes::new(Bytes::MAX + 1), None);
    assert_eq!(Bytes::from_mebibytes(4_194_304).map(Bytes::get), Some(Bytes::MAX));
    assert_eq!(Bytes::from_mebibytes(4_194_305), None);
    assert_eq!(Bytes::from_mebibytes(3).map(Bytes::get), Some(3_145_728));
}

#[test]
fn power_is_at_most_a_megawatt() {
    let power = Milliwatts::new(1_000_000_000).unwrap();
    assert_eq!((power.get(), power.watts()), (1_000_000_000, 1_000_000.0));
    assert_eq!(Milliwatts::new(1_000_000_001), None);
    assert_eq!(Milliwatts::new(2_500).unwrap().watts(), 2.5);
    assert_eq!(Millijoules(2_500).joules(), 2.5);
}

#[test]
fn config_durations_match_their_documentation() {
    assert_eq!(MeterConfig::WINDOW, Nanos(86_400_000_000_000));
    assert_eq!(MeterConfig::SESSION, Nanos(NANOS_PER_HOUR));
    assert_eq!(MeterConfig::LOG_ALLOWED_LATENESS, Nanos(2_000_000_000));
    assert_eq!(MeterConfig::LIVE_ALLOWED_LATENESS, Nanos(15_000_000_000));
    assert_eq!(MeterConfig::MIN_SPAN, Nanos(5_000_000_000));
}

#[test]
fn gpu_is_held_by_a_process_or_over_1_percent_of_memory() {
    let empty = Reading::at(Timestamp::EPOCH);
    let mib = Bytes::from_mebibytes;
    let total = mib(1_000);
    let processes = |count| Reading { compute_processes: Some(count), ..empty };
    let memory = |used| Reading { memory_used: mib(used), ..empty };
    assert_eq!(empty.is_held(total), None);
    assert_eq!(processes(0).is_held(total), Some(false));
    assert_eq!(processes(1).is_held(total), Some(true));
    assert_eq!(processes(2).is_held(None), Some(true));
    assert_eq!(memory(10).is_held(total), Some(false), "exactly 1%");
    assert_eq!(memory(11).is_held(total), Some(true));
    assert_eq!(memory(11).is_held(None), None);
    assert_eq!(Reading { compute_processes: Some(0), ..memory(11) }.is_held(total), Some(true));
    assert_eq!(Reading { compute_processes: Some(1), ..memory(10) }.is_held(total), Some(true));
}

#[test]
fn names_are_distinct() {
    assert!(are_distinct(&MissingReason::ALL.map(MissingReason::reason)));
    assert!(are_distinct(&Account::ALL.map(Account::name)));
    assert!(are_distinct(&WasteCategory::ALL.map(WasteCategory::name)));
    let bases = [Basis::NvmlGpu, Basis::NvmlSamples, Basis::GpmSm, Basis::GpmTensor];
    assert_eq!(bases.map(Basis::name), ["nvml.gpu", "nvml.samples", "gpm.sm", "gpm.tensor"]);
}

/// Guarantee: sums over lists of accounts lack none. Tables of accounts are in the order of `ALL`.
#[test]
fn lists_of_accounts_are_complete() {
    assert!(Account::ALL.into_iter().enumerate().all(|(index, it)| it as usize == index));
    let with = |of: fn(Option<Phase>) -> bool| {
        Account::ALL.into_iter().filter(|it| of(it.phase())).collect::<Vec<_>>()
    };
    assert_eq!(with(|phase| phase.is_some()), Account::OBSERVED);
    assert_eq!(with(|phase| phase == Some(Phase::Idle)), Account::IDLE);
    assert_eq!(with(|phase| phase.is_some_and(|it| it != Phase::Idle)), Account::WORKING);
}

#[test]
fn phase_and_holding_determine_the_account() {
    let holdings = [Holding::Held, Holding::Free, Holding::Unknown];
    let idle = holdings.map(|holding| Account::of(Phase::Idle, holding));
    assert_eq!(idle, [Account::IdleHeld, Account::IdleFree, Account::IdleUnknown]);
    for holding in holdings {
        for (phase, account) in [
            (Phase::Underutilized, Account::Underutilized),
            (Phase::Productive, Account::Productive),
            (Phase::ComputeBound, Account::ComputeBound),
        ] {
            assert_eq!(Account::of(phase, holding), account);
            assert_eq!(account.phase(), Some(phase));
        }
    }
    assert_eq!(Account::Unobserved.phase(), None);
}

#[test]
fn thresholds_must_ascend_from_above_zero() {
    let percent = |value| Utilization::from_percent(value).unwrap();
    let new = |idle, productive, bound| {
        Thresholds::new(percent(idle), percent(productive), percent(bound))
    };
    assert!(new(1, 2, 100).is_ok());
    for (idle, productive, bound) in [(0, 70, 90), (70, 70, 90), (10, 90, 90), (10, 70, 60)] {
        assert!(new(idle, productive, bound).is_err(), "{idle}, {productive}, {bound}");
    }
    let shown = new(10, 70, 90).unwrap().to_string();
    assert!(["10", "70", "90"].iter().all(|bound| shown.contains(bound)), "{shown}");
}
