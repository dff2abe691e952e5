//! The policy window of a run without a known end: its last day, however long it ran.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a failed test may panic, and bytes are small"
)]

use std::collections::BTreeMap;

use phasemeter_engine::policies::{WindowGpu, window};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::reading::{GpuIdentity, MIG_PROFILES, NVLINK_PEERS, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, NANOS_PER_SECOND, Nanos, Timestamp, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_rules::window::Window;
use phasemeter_rules::workload::Workload;

const START: u64 = 1_785_110_400;
const HOUR: u64 = 3_600;

fn at(second: u64) -> Timestamp {
    Timestamp::from_nanos(second * NANOS_PER_SECOND).unwrap()
}

/// A GPU at $3.60 per hour with a reading every second from the start to `end`.
fn meter_of(end: u64, utc_offset: Option<i32>, reading: impl Fn(u64) -> Reading) -> GpuMeter {
    let config = MeterConfig {
        session_every: MeterConfig::SESSION,
        allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
        utc_offset,
        ..MeterConfig::default()
    };
    let mut meter = GpuMeter::new(config, Rate::new(3_600_000_000), None);
    for second in START..=end {
        meter.push(Reading { at: at(second), ..reading(second) }, &mut ()).unwrap();
    }
    meter
}

fn utilized(percent: u32) -> Reading {
    let utilization = Ok(Utilization::from_percent(percent).unwrap());
    Reading { utilization, ..Reading::at(Timestamp::EPOCH) }
}

/// The same, at `percent`.
fn meter(end: u64, percent: impl Fn(u64) -> u32) -> GpuMeter {
    meter_of(end, None, |second| {
        // Memory is full while it works.
        let memory_used =
            Bytes::from_mebibytes(if percent(second) == 100 { 80_000 } else { 10_000 });
        Reading { memory_used, ..utilized(percent(second)) }
    })
}

fn attributes(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The window of GPUs with these attributes, in a run with others.
fn window_of(
    gpus: &[(&GpuMeter, BTreeMap<String, String>)],
    run: BTreeMap<String, String>,
    work: &BTreeMap<String, u64>,
    utc_offset: Option<i32>,
) -> Window {
    let request = ExperimentRequest { attributes: run, ..ExperimentRequest::default() };
    let experiment = request.open(at(START), ExperimentKind::Sidecar { trace: TraceId::random() });
    let identities: Vec<_> = gpus
        .iter()
        .map(|(_, attributes)| GpuIdentity {
            attributes: attributes.clone(),
            ..GpuIdentity::default()
        })
        .collect();
    let gpus: Vec<_> = gpus
        .iter()
        .zip(&identities)
        .map(|((meter, _), identity)| WindowGpu {
            identity,
            meter,
            memory_total: None,
            price: None,
            processes: Workload::Unknown,
            vanished: Nanos::ZERO,
        })
        .collect();
    window(&experiment, &gpus, work, WallOffset::default(), utc_offset, false).unwrap()
}

#[test]
fn window_without_known_end_covers_last_day() {
    let end = START + 60 * HOUR + 600;
    // One is idle for two days, then full; the other is lost on the first day.
    let busy = meter(end, |second| if second < START + 48 * HOUR { 0 } else { 100 });
    let silent = meter(START + 20 * HOUR, |_| 50);
    let none = BTreeMap::new;
    let gpus = [(&busy, none()), (&silent, none())];
    let window = window_of(&gpus, none(), &BTreeMap::new(), None);

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

/// Guarantee: what is declared of a GPU, then of the run, precedes what follows from names; completed
/// requests show that GPUs serve only if all of them are of one pod, or of none.
#[test]
fn kind_of_workload_is_declared_or_follows_from_the_work_of_its_pod() {
    let meter = meter(START + HOUR, |_| 50);
    let kinds = |gpus: [&[(&str, &str)]; 2], run: &[(&str, &str)]| {
        let gpus = gpus.map(|gpu| (&meter, attributes(gpu)));
        let work = BTreeMap::from([("requests".to_owned(), 7)]);
        let window = window_of(&gpus, attributes(run), &work, None);
        [window.gpus[0].workload, window.gpus[1].workload]
    };
    let [vllm, trainer] = ["vllm-0", "trainer-0"].map(|pod| ("k8s.pod.name", pod));
    assert_eq!(kinds([&[], &[]], &[]), [Workload::Serving; 2]);
    assert_eq!(kinds([&[vllm], &[vllm]], &[]), [Workload::Serving; 2]);
    assert_eq!(kinds([&[vllm], &[trainer]], &[]), [Workload::Unknown; 2]);
    assert_eq!(kinds([&[vllm], &[]], &[]), [Workload::Unknown; 2]);
    let (training, batch) = (("phasemeter.workload", "training"), ("phasemeter.workload", "batch"));
    let notebook = ("k8s.pod.name", "jupyter-ana");
    let both = [Workload::Training, Workload::Batch];
    assert_eq!(kinds([&[notebook, training], &[notebook]], &[batch]), both);
    let named = [Workload::Interactive, Workload::Unknown];
    assert_eq!(kinds([&[notebook], &[trainer]], &[]), named);
}

/// Scenario: a day at UTC+2, without work in its third hour; utilization that changes every five seconds,
/// and a power that rises by 0.01 W per second.
#[test]
fn window_has_attributes_slopes_update_period_and_hours_of_the_week() {
    let is_off = |second: u64| second - START < HOUR;
    let reading = |second: u64| {
        let percent = if (second / 5).is_multiple_of(2) { 30 } else { 60 };
        let power = Milliwatts::new(100_000 + 10 * (second - START) as u32);
        Reading { power, ..utilized(if is_off(second) { 0 } else { percent }) }
    };
    let meter = meter_of(START + 25 * HOUR, Some(7_200), reading);
    let place = attributes(&[
        ("host.name", "node-1"),
        ("k8s.namespace.name", "vision"),
        ("k8s.pod.name", "trainer-0"),
        (MIG_PROFILES, "1g.10gb"),
        (NVLINK_PEERS, "GPU-1"),
    ]);
    let gpus = [(&meter, place.clone())];
    let window = window_of(&gpus, BTreeMap::new(), &BTreeMap::new(), Some(7_200));
    let gpu = &window.gpus[0];
    let mut expected = place.clone();
    expected.insert("hw.vendor".to_owned(), "NVIDIA".to_owned());
    assert_eq!((&gpu.attributes, window.utc_offset), (&expected, Some(7_200)));
    let slope = gpu.metrics["power.slope"];
    assert!((slope - 0.01).abs() < 1e-4, "{slope}");
    let period = gpu.metrics["utilization.update_period"];
    assert!((period - 5.0).abs() < 0.1, "{period}");
    // The first day is a Monday.
    let idle: Vec<_> = (0..).zip(&gpu.week).filter(|(_, hour)| hour.idle.0 > 0).collect();
    let [(2, hour)] = idle[..] else { panic!("{idle:?}") };
    assert!((hour.idle.as_secs_f64() - 3_600.0).abs() < 2.0, "{hour:?}");
}
