//! The whole pipeline of one GPU.

use super::*;

/// Records the times of readings, and counts boundaries.
#[derive(Default)]
struct Received {
    readings: Vec<Timestamp>,
    boundaries: usize,
}

impl Observer for Received {
    fn reading(&mut self, reading: &Reading) {
        self.readings.push(reading.at);
    }

    fn boundary(&mut self, _at: Timestamp, _gpu: &GpuMeter) {
        self.boundaries += 1;
    }
}

fn config() -> MeterConfig {
    MeterConfig { stale_after: StaleAfter::Fixed(Nanos::from_secs(3)), ..MeterConfig::default() }
}

fn meter(config: MeterConfig) -> GpuMeter {
    GpuMeter::new(config, Rate::new(3_600_000_000_000), None)
}

fn reading(millis: u64, utilization: u32) -> Reading {
    Reading { utilization: Ok(percent(utilization)), ..Reading::at(at(millis)) }
}

/// One reading per second, all at this utilization.
fn push(meter: &mut GpuMeter, seconds: std::ops::RangeInclusive<u64>, utilization: u32) {
    for second in seconds {
        meter.push(reading(second * 1_000, utilization), &mut ()).unwrap();
    }
}

fn interval(basis: Basis, from: u64, to: u64, utilization: u32) -> Interval {
    Interval { basis, from: at(from), to: at(to), utilization: percent(utilization) }
}

#[test]
fn bill_uses_the_configured_basis() {
    let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
    push(&mut meter, 0..=0, 0);
    assert!(meter.push_interval(interval(Basis::GpmSm, 0, 10_000, 50)));
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 5_000, 100)));
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 5_000, 8_000, 100)));
    assert!(!meter.push_interval(interval(Basis::NvmlSamples, 0, 8_000, 10)), "already covered");
    assert_eq!(meter.feeds().count(), 3);
    push(&mut meter, 1..=10, 0);
    meter.finish(&mut ());
    let summary = meter.summary();
    assert_eq!(summary.basis, Basis::NvmlSamples);
    assert_eq!(summary.accounts[Account::ComputeBound].time, Nanos::from_secs(8));
    assert_eq!(summary.accounts[Account::IdleUnknown].time, Nanos::from_secs(2), "as polled");
    assert_eq!(summary.mean_ppm(), Some(800_000));
    let weighted: Vec<_> =
        meter.feeds().map(|measure| (measure.basis(), measure.weighted())).collect();
    let seconds = 1_000_000_000_u128;
    assert_eq!(
        weighted,
        [
            (Basis::NvmlGpu, 0),
            (Basis::GpmSm, 500_000 * 10 * seconds),
            (Basis::NvmlSamples, 1_000_000 * 8 * seconds)
        ]
    );
    assert!(!meter.push_interval(interval(Basis::GpmSm, 9_000, 9_500, 1)), "below the watermark");
}

/// Seconds of effective time: of each basis, and whether the bill is by it.
fn effective(meter: &GpuMeter) -> Vec<(Basis, bool, u128)> {
    let second = 1_000_000 * 1_000_000_000_u128;
    let parts = meter.effective_parts();
    parts.map(|part| (part.basis, part.is_billed, part.weighted / second)).collect()
}

#[test]
fn billed_parts_of_effective_time_sum_to_that_of_the_accounts() {
    let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
    push(&mut meter, 0..=5, 100);
    let mut polled = meter.clone();
    polled.finish(&mut ());
    assert_eq!(effective(&polled), [(Basis::NvmlGpu, true, 5)]);
    assert_eq!(polled.billed_basis(), Basis::NvmlGpu);
    assert!(meter.push_interval(interval(Basis::GpmSm, 5_000, 20_000, 20)));
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 8_000, 18_000, 50)));
    push(&mut meter, 6..=20, 100);
    meter.finish(&mut ());
    let parts = [
        (Basis::NvmlGpu, true, 5 + 3 + 2),
        (Basis::NvmlGpu, false, 10),
        (Basis::GpmSm, false, 3),
        (Basis::NvmlSamples, true, 5),
    ];
    assert_eq!(effective(&meter), parts);
    assert_eq!(meter.billed_basis(), Basis::NvmlSamples);
    let billed: u128 =
        meter.effective_parts().filter(|it| it.is_billed).map(|it| it.weighted).sum();
    assert_eq!(billed, meter.accounts().observed().weighted);
}

#[test]
fn basis_is_that_of_most_observed_time() {
    for (until, basis) in [(4_999, Basis::NvmlGpu), (5_000, Basis::NvmlSamples)] {
        let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
        push(&mut meter, 0..=0, 0);
        assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, until, 100)));
        push(&mut meter, 1..=10, 0);
        meter.finish(&mut ());
        assert_eq!(meter.summary().basis, basis);
    }
}

#[test]
fn feed_counts_each_interval_once() {
    let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
    push(&mut meter, 0..=0, 0);
    // Changes every 500 ms, then a gap that ends at a reading.
    for burst in 0..10 {
        let from = burst * 20_000 + 3_000;
        for (change, utilization) in (0..4).zip([100, 50, 100, 50]) {
            let from = from + change * 500;
            let half = interval(Basis::NvmlSamples, from, from + 500, utilization);
            assert!(meter.push_interval(half));
        }
    }
    let measured: Vec<_> = meter.feeds().map(UtilizationFeed::is_measured).collect();
    assert_eq!(measured, [false, false], "nothing is final yet");
    push(&mut meter, 1..=200, 0);
    meter.finish(&mut ());
    assert!(meter.feeds().all(UtilizationFeed::is_measured));
    let samples = meter.feeds().last().unwrap();
    assert_eq!(samples.histogram().readings().count, 40);
    assert_eq!(samples.update_period(), Some(Nanos::from_millis(500)));
    assert_eq!(meter.window_totals(at(200_000)).mean_reading(Basis::NvmlSamples), Some(0.75));
}

#[test]
fn overlapping_interval_counts_from_where_it_is_not_covered() {
    let mut meter = meter(MeterConfig { basis: Basis::NvmlSamples, ..config() });
    push(&mut meter, 0..=0, 0);
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 1_000, 100)));
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 500, 3_000, 40)));
    push(&mut meter, 1..=3, 0);
    meter.finish(&mut ());
    let feed = meter.feeds().last().unwrap();
    assert_eq!(feed.histogram().readings().count, 2);
    assert_eq!(feed.weighted(), (1_000_000 + 2 * 400_000) * 1_000_000_000);
}

/// Two readings between gaps contain a single change, so no time between changes.
#[test]
fn update_period_ignores_gaps() {
    for basis in [Basis::NvmlGpu, Basis::NvmlSamples] {
        let mut meter = meter(MeterConfig { basis, ..config() });
        meter.push(reading(0, 0), &mut ()).unwrap();
        for burst in 1..30 {
            let from = burst * 60_000;
            if basis == Basis::NvmlSamples {
                assert!(meter.push_interval(interval(basis, from, from + 1_000, 100)));
                assert!(meter.push_interval(interval(basis, from + 1_000, from + 2_000, 0)));
            }
            let polled = if basis == Basis::NvmlGpu { [100, 0] } else { [0, 0] };
            meter.push(reading(from, polled[0]), &mut ()).unwrap();
            meter.push(reading(from + 1_000, polled[1]), &mut ()).unwrap();
        }
        meter.finish(&mut ());
        assert_eq!(meter.summary().update_period, None, "{basis:?}");
    }
}

#[test]
fn feed_capacity_is_bounded() {
    let mut measure = UtilizationFeed::new(Basis::NvmlSamples);
    let next = |millis| interval(Basis::NvmlSamples, millis, millis + 1, 100);
    assert!((0..65_536).all(|millis| measure.push(next(millis), at(0))));
    assert!(!measure.push(next(65_536), at(0)));
}

#[test]
fn bill_ignores_other_bases() {
    let mut meter = meter(config());
    push(&mut meter, 0..=0, 0);
    assert!(meter.push_interval(interval(Basis::NvmlSamples, 0, 9_000, 100)));
    push(&mut meter, 1..=9, 0);
    meter.finish(&mut ());
    let summary = meter.summary();
    assert_eq!((summary.basis, summary.mean_ppm()), (Basis::NvmlGpu, Some(0)));
}

#[test]
fn readings_are_recorded_in_order() {
    let mut meter = meter(config());
    let mut received = Received::default();
    assert_eq!((meter.begins_at(), meter.last_reading()), (None, None));
    meter.push(reading(1_000, 50), &mut received).unwrap();
    assert_eq!((meter.begins_at(), meter.last_reading()), (Some(at(1_000)), None));
    meter.push(reading(500, 50), &mut received).unwrap();
    assert_eq!((meter.begins_at(), meter.last_reading()), (Some(at(500)), None));
    meter.push(reading(3_500, 50), &mut received).unwrap();
    assert_eq!(received.readings, [at(500), at(1_000)]);
    assert_eq!(meter.last_reading(), Some(&reading(1_000, 50)));
    assert_eq!(meter.begins_at(), Some(at(500)));
    meter.finish(&mut received);
    assert_eq!(meter.last_reading(), Some(&reading(3_500, 50)));
    assert_eq!(received.boundaries, 0, "none are configured");
}

#[test]
fn readings_wait_for_the_estimate_of_stale_after() {
    let mut meter = meter(MeterConfig::default());
    let mut received = Received::default();
    for second in 0..102 + 2 {
        assert_eq!(received.readings.len(), 0, "{second} readings");
        meter.push(reading(second * 1_000, 50), &mut received).unwrap();
        assert_eq!(meter.begins_at(), Some(at(0)));
    }
    // Then two follow for each that arrives, until none waits. Two more are in the reorder buffer.
    for (pushed, second) in (104_u64..300).enumerate() {
        meter.push(reading(second * 1_000, 50), &mut received).unwrap();
        let arrived = usize::try_from(second).unwrap() - 2;
        assert_eq!(received.readings.len(), arrived.min(2 * (pushed + 1)), "{second}");
    }
}

#[test]
fn finish_is_a_boundary_if_configured() {
    let every = Nanos::from_secs(10);
    let mut meter = meter(MeterConfig { boundary_every: every, ..config() });
    let mut received = Received::default();
    for second in 0..=25 {
        meter.push(reading(second * 1_000, 50), &mut received).unwrap();
    }
    assert_eq!(received.boundaries, 2);
    meter.finish(&mut received);
    assert_eq!(received.boundaries, 3);
}

/// A live run from 0.5 s to 9.5 s: the first reading also covers what precedes it.
#[test]
fn span_of_live_run_is_the_run() {
    let mut meter = meter(config());
    meter.begin_at(at(500), &mut ());
    push(&mut meter, 2..=4, 95);
    meter.finish_at(at(9_500), &mut ());
    let summary = meter.summary();
    assert_eq!(summary.span, Some((at(500), at(9_500))));
    assert_eq!(summary.accounts[Account::ComputeBound].time, Nanos::from_millis(6_500));
    assert_eq!(summary.accounts[Account::Unobserved].time, Nanos::from_millis(2_500));
    assert_eq!(summary.unobserved.no_reading, Nanos::from_millis(2_500));
    // $3,600 per hour is a dollar per second.
    assert_eq!(summary.accounts.all().cost, NanoUsd(9_000_000_000));
}

#[test]
fn live_run_without_readings_is_unobserved() {
    let mut silent = meter(config());
    silent.begin_at(at(500), &mut ());
    silent.finish_at(at(9_500), &mut ());
    let mut late = meter(config());
    late.begin_at(at(500), &mut ());
    push(&mut late, 8..=9, 95);
    late.finish_at(at(9_500), &mut ());
    for (meter, unobserved) in [(silent, 9_000), (late, 4_500)] {
        let summary = meter.summary();
        assert_eq!(summary.span, Some((at(500), at(9_500))));
        assert_eq!(summary.unobserved.no_reading, Nanos::from_millis(unobserved));
        assert_eq!(summary.accounts[Account::Unobserved].time, Nanos::from_millis(unobserved));
    }
}

#[test]
fn time_before_the_first_reading_is_held_like_it() {
    let mut meter = meter(config());
    meter.begin_at(at(500), &mut ());
    let held = Reading { compute_processes: Some(1), ..reading(2_000, 0) };
    meter.push(held, &mut ()).unwrap();
    meter.finish_at(at(3_000), &mut ());
    let accounts = meter.summary().accounts;
    assert_eq!(accounts[Account::IdleHeld].time, Nanos::from_millis(2_500));
}

#[test]
fn reading_before_the_run_is_rejected() {
    let mut meter = meter(config());
    meter.begin_at(at(500), &mut ());
    let early = meter.push(reading(400, 50), &mut ()).unwrap_err();
    assert_eq!(early.to_string(), "0.100 s before the run");
    assert!(meter.push(reading(500, 50), &mut ()).is_ok());
}

#[test]
fn memory_holds_a_gpu_after_its_total_is_set() {
    let mut meter = meter(config());
    let idle = |meter: &mut GpuMeter, second: u64| {
        let memory_used = Bytes::from_mebibytes(500);
        let reading = Reading { memory_used, ..reading(second * 1_000, 0) };
        meter.push(reading, &mut ()).unwrap();
    };
    (0..=9).for_each(|second| idle(&mut meter, second));
    assert!(!meter.summary().holding_known);
    meter.set_memory_total(Bytes::from_mebibytes(1_000));
    (10..=20).for_each(|second| idle(&mut meter, second));
    meter.finish(&mut ());
    let summary = meter.summary();
    assert!(summary.holding_known);
    // The readings after 7 s were still in the reorder buffer.
    assert_eq!(summary.accounts[Account::IdleUnknown].time, Nanos::from_secs(7));
    assert_eq!(summary.accounts[Account::IdleHeld].time, Nanos::from_secs(13));
}

#[test]
fn update_period_is_the_median_time_between_changes() {
    let mut meter = meter(config());
    for tick in 0..100_u64 {
        let utilization = if tick / 5 % 2 == 0 { 20 } else { 80 };
        meter.push(reading(tick * 100, utilization), &mut ()).unwrap();
    }
    meter.finish(&mut ());
    assert_eq!(meter.summary().update_period, Some(Nanos::from_millis(500)));
}

#[test]
fn final_span_start_is_the_start_of_its_span() {
    let mut meter = meter(config());
    push(&mut meter, 0..=20, 80);
    assert_eq!(meter.final_span_start(at(10_000)), Some(at(0)));
    assert_eq!(meter.final_span_start(at(30_000)), None);
}

#[test]
fn window_without_sessions_is_the_whole_run() {
    let hold = StaleAfter::Fixed(Nanos::from_secs(3_600));
    let mut meter = meter(MeterConfig { stale_after: hold, ..config() });
    let hours = |hours: u64| hours * 3_600_000;
    for hour in 0..=72 {
        meter.push(reading(hours(hour), 50), &mut ()).unwrap();
    }
    meter.finish(&mut ());
    let observed = meter.window_series().sum(Recorded::Utilization).observed;
    assert_eq!(observed, Nanos::from_millis(hours(72)));
    assert_eq!(meter.window_totals(at(hours(72))).span, Some((at(0), at(hours(72)))));
}

#[test]
fn rate_change_splits_the_cost_of_its_second() {
    let mut meter = meter(config());
    push(&mut meter, 0..=3, 100);
    meter.change_rate(at(5_250), Rate::new(0).unwrap()).unwrap();
    push(&mut meter, 4..=10, 100);
    meter.finish(&mut ());
    let accounts = meter.summary().accounts;
    // $3,600 per hour is a dollar per second.
    assert_eq!(accounts.all().cost, NanoUsd(5_250_000_000));
    assert_eq!(accounts.waste(), NanoUsd::ZERO);
}
