//! GPUs that do what a test says, second by second, and the window that the real meter makes of them.
//!
//! This room must not know what is advised on them.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::{GpuMeter, MeterConfig};
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};
use phasemeter_rules::window::{Gpu, Window};
use proptest::prelude::*;

use crate::support;

const START: u64 = 1_785_110_400;
const TOTAL_MIB: u64 = 81_559;

/// What a GPU does in a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Does {
    /// In percent; `None` for a second in which nobody looked.
    pub(crate) percent: Option<u32>,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) watts: Option<u32>,
}

/// What was recorded beside utilization.
#[derive(Clone, Copy)]
pub(crate) enum Recorded {
    All { memory_mib: u64, watts: u32 },
    Nothing,
}

/// So many seconds of a GPU, through the meter.
pub(crate) fn metered(
    seconds: u64,
    recorded: Recorded,
    percent: impl Fn(u64) -> Option<u32>,
) -> Vec<Does> {
    let (memory_mib, watts) = match recorded {
        Recorded::All { memory_mib, watts } => (Some(memory_mib), Some(watts)),
        Recorded::Nothing => (None, None),
    };
    (0..seconds).map(|second| Does { percent: percent(second), memory_mib, watts }).collect()
}

/// The meter of a GPU that did so.
fn meter(does: &[Does]) -> GpuMeter {
    let mut meter = GpuMeter::new(MeterConfig::default(), Some(rate()), total());
    for (second, now) in (START..).zip(does) {
        let Some(percent) = now.percent else { continue };
        let reading = Reading {
            utilization: Utilization::from_percent(percent).ok_or(MissingReason::Unreadable),
            memory_used: now.memory_mib.and_then(Bytes::from_mebibytes),
            power: now.watts.and_then(|watts| Milliwatts::new(watts * 1_000)),
            ..Reading::at(Timestamp::from_millis(second * 1_000).unwrap())
        };
        meter.push(reading, &mut ()).unwrap();
    }
    meter.finish(&mut ());
    meter
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
        price: Some(Price::given(rate(), Some(Plan::OnDemand), "a test")),
        work_done: BTreeMap::new(),
        utilization,
        power,
        memory,
        metrics: BTreeMap::new(),
    }
}

fn rate() -> Rate {
    Rate::parse("12.83").unwrap()
}

fn total() -> Option<Bytes> {
    Bytes::from_mebibytes(TOTAL_MIB)
}

pub(crate) fn window(gpus: &[Vec<Does>]) -> Window {
    let seconds = gpus.iter().map(Vec::len).max().unwrap();
    let meters: Vec<_> = gpus.iter().map(|does| meter(does)).collect();
    let start = Timestamp::from_millis(START * 1_000).unwrap();
    let end = start + Nanos::from_secs(seconds as u64);
    let grid = Grid::over(start, end, meters.iter().map(GpuMeter::series));
    let gpus = meters.iter().enumerate().map(|(index, meter)| gpu(index, meter, &grid)).collect();
    Window { start: grid.start, end, step: grid.step, gpus, ..support::window(0, 0) }
}

/// Twenty seconds and more at full, and as long at nothing.
pub(crate) fn bouncing(second: u64) -> Option<u32> {
    Some(if second % 40 < 21 { 97 } else { 0 })
}

/// Eight GPUs like the demonstration's, two hours.
pub(crate) fn fleet() -> Vec<Vec<Does>> {
    let all = |memory_mib, watts| Recorded::All { memory_mib, watts };
    let waits = metered(7_200, all(61_442, 420), bouncing);
    let held = metered(7_200, all(33_218, 420), |second| Some(45 + (second * 7 % 13) as u32));
    let wave = [24, 31, 38, 41, 37, 29];
    let serves = metered(7_200, all(44_870, 300), |second| Some(wave[second as usize / 1_200]));
    let full =
        metered(7_200, all(72_306, 660), |second| Some(if second % 600 < 7 { 6 } else { 98 }));
    let opened =
        metered(7_200, all(30_720, 120), |second| Some(if second % 400 < 6 { 55 } else { 0 }));
    let broken = metered(7_200, all(66_194, 560), |second| {
        (!(2_760..3_450).contains(&second)).then(|| 76 + (second * 5 % 11) as u32)
    });
    vec![waits.clone(), waits, held, serves, full.clone(), full, opened, broken]
}

/// Stretches of seconds that nobody chose, of up to four GPUs.
pub(crate) fn any_fleet() -> impl Strategy<Value = Vec<Vec<Does>>> {
    let percent = prop_oneof![
        4 => (0_u32..=100).prop_map(Some), 2 => Just(Some(0)), 2 => Just(Some(97)), 1 => Just(None)
    ];
    let stretch = (percent, 1_usize..400, 1_usize..6);
    let columns = (prop::option::of(0..=TOTAL_MIB), prop::option::of(50_u32..750));
    let gpu =
        (columns, prop::collection::vec(stretch, 1..12)).prop_map(|((memory_mib, watts), runs)| {
            let runs = runs.into_iter().flat_map(|(percent, seconds, times)| {
                let rest = percent.map(|percent| 100 - percent);
                let run =
                    (0..seconds).map(move |second| if second % 40 < 20 { percent } else { rest });
                if times == 1 { run.collect() } else { vec![percent; seconds * times] }
            });
            runs.map(|percent| Does { percent, memory_mib, watts }).collect()
        });
    prop::collection::vec(gpu, 1..5)
}
