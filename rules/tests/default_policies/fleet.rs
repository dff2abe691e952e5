//! GPUs scripted second by second, and the window that the real meter makes of them.

use phasemeter_meter::accounts::Charge;
use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig, Observer};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_rules::window::{Gpu, Load, LoadDistribution, MEAN_SECONDS, Window};
use phasemeter_rules::workload::Workload;
use phasemeter_savings::load::LoadFeed;
use proptest::prelude::*;

use crate::support;

const START: u64 = 1_785_110_400;
const TOTAL_MIB: u64 = 81_559;

/// One second of a GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Second {
    /// Utilization in percent; `None` for an unobserved second.
    pub(crate) percent: Option<u32>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) watts: Option<u32>,
}

/// What is recorded besides utilization.
#[derive(Clone, Copy)]
pub(crate) enum Recorded {
    All { memory_mib: u64, watts: u32 },
    Nothing,
}

/// Power of an H100 without work, at most, in watts.
const IDLE_WATTS: u32 = 120;

/// `count` seconds of a GPU, which draws its watts while it works.
pub(crate) fn seconds(
    count: u64,
    recorded: Recorded,
    percent: impl Fn(u64) -> Option<u32>,
) -> Vec<Second> {
    let (memory_mib, watts) = match recorded {
        Recorded::All { memory_mib, watts } => (Some(memory_mib), Some(watts)),
        Recorded::Nothing => (None, None),
    };
    let at = |percent| {
        let is_idle = percent == Some(0);
        let watts = watts.map(|busy| if is_idle { busy.min(IDLE_WATTS) } else { busy });
        Second { percent, memory_mib, watts }
    };
    (0..count).map(percent).map(at).collect()
}

/// Takes the load of a GPU from its meter.
struct Feeder(LoadFeed);

impl Observer for Feeder {
    fn charge(&mut self, charge: &Charge) {
        self.0.post(&charge.slice);
    }
}

/// The meter of a GPU after these seconds, and its load.
fn meter(script: &[Second]) -> (GpuMeter, LoadFeed) {
    let mut meter = GpuMeter::new(MeterConfig::default(), Some(rate()), total());
    let start = Timestamp::from_millis(START * 1_000).unwrap();
    let mut feeder = Feeder(LoadFeed::begin(start, None));
    for (second, now) in (START..).zip(script) {
        let Some(percent) = now.percent else { continue };
        let reading = Reading {
            utilization: Utilization::from_percent(percent).ok_or(MissingReason::Unreadable),
            memory_used: now.memory_mib.and_then(Bytes::from_mebibytes),
            power: now.watts.and_then(|watts| Milliwatts::new(watts * 1_000)),
            ..Reading::at(Timestamp::from_millis(second * 1_000).unwrap())
        };
        meter.push(reading, &mut feeder).unwrap();
    }
    meter.finish(&mut feeder);
    feeder.0.end();
    (meter, feeder.0)
}

fn load(index: usize, feed: &LoadFeed) -> Load {
    let levels = MEAN_SECONDS.into_iter().zip(feed.levels());
    let of = |(mean_seconds, buckets)| LoadDistribution { mean_seconds, buckets };
    let (gpus, distributions) = (vec![format!("GPU-{index}")], levels.map(of).collect());
    Load { gpus, distributions, week: Vec::new() }
}

fn gpu(index: usize, meter: &GpuMeter, grid: &Grid) -> Gpu {
    let summary = meter.summary();
    let Columns { utilization, power, memory } = Columns::of(meter.series(), grid);
    Gpu {
        id: format!("GPU-{index}"),
        model: "NVIDIA H100 80GB HBM3".to_owned(),
        memory_total: (!memory.is_empty()).then(total).flatten(),
        power_limit: Milliwatts::new(700_000),
        accounts: (&summary.accounts).into(),
        waste: summary.waste,
        pattern: summary.pattern,
        price: Some(Price::given(rate(), Some(PaymentPlan::OnDemand), "test")),
        utilization,
        power,
        memory,
        activity: meter.window_totals(Timestamp::LAST).activity,
        interval: meter.window_totals(Timestamp::LAST).interval(),
        workload: Workload::Training,
        ..Gpu::default()
    }
}

fn rate() -> Rate {
    Rate::parse("12.83").unwrap()
}

fn total() -> Option<Bytes> {
    Bytes::from_mebibytes(TOTAL_MIB)
}

pub(crate) fn window(gpus: &[Vec<Second>]) -> Window {
    let seconds = gpus.iter().map(Vec::len).max().unwrap();
    let (meters, feeds): (Vec<_>, Vec<_>) = gpus.iter().map(|script| meter(script)).unzip();
    let start = Timestamp::from_millis(START * 1_000).unwrap();
    let end = start + Nanos::from_secs(seconds as u64);
    let grid = Grid::over(start, end, meters.iter().map(GpuMeter::series));
    let gpus = meters.iter().enumerate().map(|(index, meter)| gpu(index, meter, &grid)).collect();
    let load = feeds.iter().enumerate().map(|(index, feed)| load(index, feed)).collect();
    Window { start: grid.start, end, step: grid.step, gpus, load, ..support::window(0, 0) }
}

/// The window of [`fleet`], with what its GPUs run.
pub(crate) fn fleet_window(gpus: &[Vec<Second>]) -> Window {
    let mut window = window(gpus);
    for (index, gpu) in window.gpus.iter_mut().enumerate() {
        gpu.workload = match index {
            3 => Workload::Serving,
            6 => Workload::Interactive,
            _ => Workload::Training,
        };
        // GPUs 0 and 1 run one job, and so do 4 and 5.
        let service = match index {
            1 => 0,
            5 => 4,
            other => other,
        };
        gpu.attributes.insert("service.name".to_owned(), service.to_string());
    }
    window
}

/// Alternates between 97% for 21 s and 0% for 19 s.
pub(crate) fn bouncing(second: u64) -> Option<u32> {
    Some(if second % 40 < 21 { 97 } else { 0 })
}

/// Two hours of eight GPUs like those of the demo.
pub(crate) fn fleet() -> Vec<Vec<Second>> {
    let all = |memory_mib, watts| Recorded::All { memory_mib, watts };
    let bouncing = seconds(7_200, all(61_442, 420), bouncing);
    let steady = seconds(7_200, all(33_218, 420), |second| Some(45 + (second * 7 % 13) as u32));
    let wave = [24, 31, 38, 41, 37, 29];
    let inference = seconds(7_200, all(44_870, 300), |second| Some(wave[second as usize / 1_200]));
    let compute_bound =
        seconds(7_200, all(72_306, 660), |second| Some(if second % 600 < 7 { 6 } else { 98 }));
    let notebook =
        seconds(7_200, all(30_720, 120), |second| Some(if second % 400 < 6 { 55 } else { 0 }));
    let interrupted = seconds(7_200, all(66_194, 560), |second| {
        (!(2_760..3_450).contains(&second)).then(|| 76 + (second * 5 % 11) as u32)
    });
    vec![
        bouncing.clone(),
        bouncing,
        steady,
        inference,
        compute_bound.clone(),
        compute_bound,
        notebook,
        interrupted,
    ]
}

/// One to four GPUs with random sequences of constant or alternating utilization.
pub(crate) fn any_fleet() -> impl Strategy<Value = Vec<Vec<Second>>> {
    let percent = prop_oneof![
        4 => (0_u32..=100).prop_map(Some), 2 => Just(Some(0)), 2 => Just(Some(97)), 1 => Just(None)
    ];
    let segment = (percent, 1_usize..400, 1_usize..6);
    let columns = (prop::option::of(0..=TOTAL_MIB), prop::option::of(50_u32..750));
    let gpu = (columns, prop::collection::vec(segment, 1..12)).prop_map(
        |((memory_mib, watts), segments)| {
            let percents = segments.into_iter().flat_map(|(percent, seconds, times)| {
                let complement = percent.map(|percent| 100 - percent);
                let alternating = (0..seconds)
                    .map(move |second| if second % 40 < 20 { percent } else { complement });
                if times == 1 { alternating.collect() } else { vec![percent; seconds * times] }
            });
            percents.map(|percent| Second { percent, memory_mib, watts }).collect()
        },
    );
    prop::collection::vec(gpu, 1..5)
}
