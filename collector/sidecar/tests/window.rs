//! The policy window of a run without a known end: its last day, however long it ran.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a failed test may panic, and bytes are small"
)]

use std::collections::BTreeMap;

use phasemeter::policies::{WindowGpu, window};
use phasemeter_meter::device_totals::DeviceTotals;
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Bytes, NANOS_PER_SECOND, Timestamp, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};

const START: u64 = 1_785_110_400;
const HOUR: u64 = 3_600;

fn at(second: u64) -> Timestamp {
    Timestamp::from_nanos(second * NANOS_PER_SECOND).unwrap()
}

/// A GPU at $3.60 per hour with a reading every second from the start to `end`, at `percent`.
fn meter(end: u64, percent: impl Fn(u64) -> u32) -> GpuMeter {
    let config = MeterConfig {
        session_every: MeterConfig::SESSION,
        allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
        ..MeterConfig::default()
    };
    let mut meter = GpuMeter::new(config, Rate::new(3_600_000_000), None);
    for second in START..=end {
        let utilization = Utilization::from_percent(percent(second)).unwrap();
        // Memory is full while it works.
        let memory_used =
            Bytes::from_mebibytes(if percent(second) == 100 { 80_000 } else { 10_000 });
        let reading =
            Reading { utilization: Ok(utilization), memory_used, ..Reading::at(at(second)) };
        meter.push(reading, &mut ()).unwrap();
    }
    meter
}

#[test]
fn window_without_known_end_covers_last_day() {
    let end = START + 60 * HOUR + 600;
    // One is idle for two days, then full; the other is lost on the first day.
    let busy = meter(end, |second| if second < START + 48 * HOUR { 0 } else { 100 });
    let silent = meter(START + 20 * HOUR, |_| 50);
    let request = ExperimentRequest::default();
    let experiment = request.open(at(START), ExperimentKind::Sidecar { trace: TraceId::random() });
    let names = ["busy", "silent"]
        .map(|name| GpuIdentity { name: name.to_owned(), ..GpuIdentity::default() });
    let totals = DeviceTotals::default();
    let gpus: Vec<_> = [&busy, &silent]
        .into_iter()
        .zip(&names)
        .map(|(meter, identity)| WindowGpu {
            identity,
            meter,
            memory_total: None,
            power_limit: None,
            price: None,
            totals: &totals,
        })
        .collect();
    let window =
        window(&experiment, &gpus, &BTreeMap::new(), WallOffset::default(), None, false).unwrap();

    // From the hour one day before the current one, rounded down to a step.
    let (from, step) = (START + 36 * HOUR, window.step.0 / NANOS_PER_SECOND);
    assert_eq!(step, 256);
    assert_eq!(window.start, at(from / step * step));
    // Time within the allowed lateness is not final.
    let end = end - 16;
    assert_eq!(window.end, at(end));
    let [busy, silent] = &window.gpus[..] else { panic!("{} GPUs", window.gpus.len()) };

    let accounts = busy.accounts;
    assert_eq!(accounts.idle_unknown.time.0, 12 * HOUR * NANOS_PER_SECOND);
    assert_eq!(accounts.idle_unknown.cost, NanoUsd(43_200_000_000));
    let pending = (end - START - 48 * HOUR) * NANOS_PER_SECOND - accounts.compute_bound.time.0;
    assert!(pending <= NANOS_PER_SECOND, "at most the current second: {pending} ns");
    assert_eq!(busy.waste.idle, accounts.idle_unknown.cost);
    let middle = usize::try_from((START + 48 * HOUR - from / step * step) / step).unwrap();
    assert!(busy.utilization[..middle].iter().all(|mean| *mean < 0.001));
    assert!(busy.utilization[middle + 1..].iter().all(|mean| *mean > 0.999));
    assert_eq!(busy.utilization.len() as u64, (end - from / step * step).div_ceil(step));

    // Half of the window, and a fifth of the run.
    let memory = busy.sensors.memory_in_use.unwrap();
    let mib = |bytes: f64| (bytes / 1_048_576.0).round() as u64;
    assert_eq!(
        [memory.p5, memory.p50, memory.p95, memory.max].map(mib),
        [10_000, 80_000, 80_000, 80_000]
    );
    assert_eq!(silent.sensors.memory_in_use, None);

    // 70,000 MiB more in the second of two halves: the slope is 1.5 times the rise over the length.
    let slope = busy.metrics["memory.slope"] * (end - from) as f64 / 1_048_576.0;
    assert!((slope / 70_000.0 - 1.5).abs() < 0.02, "{slope}");
    assert!(
        !silent.metrics.contains_key("memory.slope") && !busy.metrics.contains_key("power.slope")
    );
    // Readings each second show cycles of four.
    let cycle = busy.metrics["pattern.shortest_cycle"];
    assert!((cycle - 4.0).abs() < 0.1, "{cycle}");
    assert!(!busy.metrics.contains_key("utilization.update_period"), "one change");

    assert_eq!(silent.accounts, phasemeter_rules::window::Accounts::default());
    assert_eq!(silent.pattern, None);
    assert!(silent.utilization.iter().all(|mean| mean.is_nan()));
}
