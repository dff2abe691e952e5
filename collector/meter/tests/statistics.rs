//! Statistics beside the bill: distributions, medians, update periods, shares and table lookups.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::float_cmp, reason = "these means are exact")]

use phasemeter_meter::distribution::{MemoryDistribution, UtilizationDistribution};
use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_meter::histogram::{Histogram, Readings};
use phasemeter_meter::median::{self, DurationMedian};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::{PaymentPlan, PriceBook, Query};
use phasemeter_meter::projection::{HOURS_PER_MONTH, HOURS_PER_YEAR, UnitCost};
use phasemeter_meter::units::{Bytes, Nanos, Timestamp, Utilization};
use phasemeter_meter::update_period::UpdatePeriod;

fn percent(percent: u32) -> Utilization {
    Utilization::from_percent(percent).unwrap()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

#[test]
fn readings_have_a_count_and_a_mean() {
    let mut all = Histogram::default();
    assert_eq!(all.readings().mean(), None);
    for value in [20, 40, 40] {
        all.record(percent(value));
    }
    assert_eq!(all.readings(), Readings { count: 3, sum_ppm: 1_000_000 });
    assert_eq!(all.fixed(), [0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0]);

    let earlier = all.readings();
    all.record(percent(100));
    all.record(percent(50));
    let since = all.readings().since(earlier);
    assert_eq!(since, Readings { count: 2, sum_ppm: 1_500_000 });
    assert_eq!(since.mean(), Some(0.75));
}

#[test]
fn utilization_is_rounded_to_a_tenth_of_a_percent() {
    let ppm = |ppm| Utilization::from_ppm(ppm).unwrap();
    for (value, bin) in [(499, 0), (500, 1_000), (1_499, 1_000), (1_500, 2_000)] {
        let mut one = UtilizationDistribution::default();
        one.add(ppm(value), Nanos(1));
        assert_eq!(one.percentile(50), Some(ppm(bin)), "{value} ppm");
    }
}

#[test]
fn distribution_is_timed_after_time_is_added() {
    let mut all = UtilizationDistribution::default();
    assert!(!all.is_timed());
    all.add(percent(10), Nanos(1));
    assert!(all.is_timed());
}

#[test]
fn percentile_since_a_snapshot_ignores_earlier_time() {
    let mut all = UtilizationDistribution::default();
    all.add(percent(10), Nanos(100));
    all.add(percent(90), Nanos(3));
    let earlier = all.snapshot();
    assert_eq!(all.percentile_since(&earlier, 50), None);
    all.add(percent(90), Nanos(4));
    all.add(percent(10), Nanos(5));
    assert_eq!(all.percentile_since(&earlier, 50), Some(percent(10)));
    assert_eq!(all.percentile_since(&earlier, 60), Some(percent(90)));
    assert_eq!(all.percentile(90), Some(percent(10)));
}

#[test]
fn percentile_zero_is_the_lowest_value() {
    let mut all = UtilizationDistribution::default();
    all.add(percent(30), Nanos(1));
    all.add(percent(60), Nanos(1));
    assert_eq!(all.percentile(0), Some(percent(30)));
    assert_eq!(all.percentile(100), Some(percent(60)));
}

#[test]
fn memory_is_rounded_up_to_a_mebibyte() {
    let mut all = MemoryDistribution::default();
    assert_eq!((all.peak(), all.percentile(50)), (None, None));
    let half = Bytes::MEBIBYTE / 2;
    for (bytes, mebibytes) in [(0, 0), (1, 1), (2 * half, 1), (3 * half, 2), (1_025 * half, 513)] {
        let mut one = MemoryDistribution::default();
        one.add(Bytes::new(bytes).unwrap(), Nanos(1));
        assert_eq!(one.percentile(50), Bytes::from_mebibytes(mebibytes), "{bytes}");
    }
    // The time of each mebibyte adds up, and the peak stays.
    let mib = |count| Bytes::from_mebibytes(count).unwrap();
    for (used, time) in [(700, 1), (5, 4), (700, 1), (5, 4), (700, 1)] {
        all.record(mib(used));
        all.add(mib(used), Nanos(time));
    }
    assert_eq!(all.percentile(72), Some(mib(5)), "8 ns of 11");
    assert_eq!(all.percentile(73), Some(mib(700)));
    assert_eq!(all.peak(), Some(mib(700)));
}

#[test]
fn median_since_a_snapshot_ignores_earlier_durations() {
    let mut all = DurationMedian::default();
    let millis = Nanos::from_millis;
    for value in [10, 10, 10, 10, 10, 30] {
        all.add(millis(value));
    }
    assert_eq!((all.count(), all.median()), (6, Some(millis(10))));
    let earlier = all.snapshot();
    assert_eq!((all.count_since(&earlier), all.median_since(&earlier)), (0, None));
    for value in [30, 20, 10] {
        all.add(millis(value));
    }
    assert_eq!((all.count_since(&earlier), all.median_since(&earlier)), (3, Some(millis(20))));
    all.add(millis(40));
    assert_eq!(all.median_since(&earlier), Some(millis(30)), "the upper one of two");
    assert_eq!(all.count_since(&median::Snapshot::default()), 10);
    assert_eq!(all.median(), Some(millis(10)));
}

#[test]
fn long_durations_keep_four_digits() {
    for (millis, kept) in [(9_999, 9_999), (10_000, 10_000), (123_456, 123_400)] {
        let mut one = DurationMedian::default();
        one.add(Nanos::from_millis(millis));
        assert_eq!(one.median(), Some(Nanos::from_millis(kept)));
    }
}

#[test]
fn update_period_needs_ten_changes() {
    let mut period = UpdatePeriod::default();
    for tick in 0..=10_u64 {
        assert_eq!(period.median(), None, "{tick} changes or fewer");
        assert!(period.observe(at(tick * 200), percent(u32::try_from(tick).unwrap())));
        assert!(!period.observe(at(tick * 200 + 100), percent(u32::try_from(tick).unwrap())));
    }
    assert_eq!(period.median(), Some(Nanos::from_millis(200)));
}

#[test]
fn update_period_ignores_interruptions() {
    let mut period = UpdatePeriod::default();
    for tick in 0..20_u64 {
        // Three changes in a row, 100 ms apart, then a minute without a reading.
        for change in 0..4 {
            let value = percent(u32::try_from(change % 2).unwrap());
            period.observe(at(tick * 60_000 + change * 100), value);
        }
        period.interrupt();
    }
    assert_eq!(period.median(), Some(Nanos::from_millis(100)));
}

#[test]
fn update_period_is_none_if_every_change_is_interrupted() {
    let mut period = UpdatePeriod::default();
    for tick in 0..40_u64 {
        period.observe(at(tick * 100), percent(u32::try_from(tick).unwrap()));
        period.interrupt();
    }
    assert_eq!(period.median(), None);
}

#[test]
fn unit_cost_converts_to_dollars() {
    assert_eq!(UnitCost::of(NanoUsd(3_000_000_000), 2).unwrap().as_f64(), 1.5);
    assert_eq!(UnitCost::of(NanoUsd(-1_000_000_000), 4).unwrap().as_f64(), -0.25);
    assert_eq!((HOURS_PER_MONTH, HOURS_PER_YEAR), (720, 8_760));
}

#[test]
fn gpu_specs_without_a_feature_are_none() {
    let specs = |model| {
        let specs = GpuSpecs::of(model).unwrap();
        (specs.mig_instances, specs.nvlink, specs.confirmed)
    };
    assert_eq!(specs("Tesla K80"), (None, false, true));
    assert_eq!(specs("Tesla P100-SXM2-16GB"), (None, true, false));
    assert_eq!(specs("NVIDIA A100-SXM4-80GB").0, Some(7));
}

#[test]
fn unpriced_error_names_provider_and_region() {
    let query = Query {
        model: Some("NVIDIA A10G"),
        provider: Some("aws"),
        region: Some("us-east-1"),
        plan: Some(PaymentPlan::Spot),
        ..Query::default()
    };
    let error = PriceBook::built_in().price(&query).unwrap_err().to_string();
    assert!(["NVIDIA A10G", "aws", "us-east-1", "spot"].iter().all(|name| error.contains(name)));
}
