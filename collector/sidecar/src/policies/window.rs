//! Builds windows, the input of recommenders, from meters.
//!
//! Must not depend on the readers of a window.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::{GpuMeter, WindowTotals};
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::{Bytes, Milliwatts};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::experiment::Experiment;
use phasemeter_rules::window::{Gpu, Window};

/// Energy of the window, in joules.
const ENERGY: &str = "energy.joules";

/// Mean tensor core activity while it was measured, 0–1.
const TENSOR: &str = "tensor.activity";

/// One GPU from which a window is built.
#[derive(Clone, Copy, Debug)]
pub struct WindowGpu<'a> {
    /// Its identity.
    pub identity: &'a GpuIdentity,
    /// Its meter.
    pub meter: &'a GpuMeter,
    /// Its total memory.
    pub memory_total: Option<Bytes>,
    /// Its power limit.
    pub power_limit: Option<Milliwatts>,
    /// Its current price.
    pub price: Option<&'a Price>,
}

/// Builds the window of these GPUs, in report order: the whole run, or the last day of a run without
/// a known end, in this wall time. `None` if there is no metered time yet.
#[must_use]
pub fn window(
    experiment: &Experiment,
    gpus: &[WindowGpu<'_>],
    work: &BTreeMap<String, u64>,
    wall: WallOffset,
    is_final: bool,
) -> Option<Window> {
    let end = gpus.iter().filter_map(|gpu| gpu.meter.reached()).max()?;
    let recent: Vec<WindowTotals> = gpus.iter().map(|gpu| gpu.meter.window_totals(end)).collect();
    let start = recent.iter().filter_map(|recent| Some(recent.span?.0)).min()?;
    let grid = Grid::over(start, end, gpus.iter().map(|gpu| gpu.meter.window_series()));
    let work = work.iter().map(|(unit, count)| (unit.clone(), *count as f64));
    let work: BTreeMap<String, f64> = work.collect();
    // Work of several GPUs cannot be attributed to one.
    let own_work = if gpus.len() == 1 { work.clone() } else { BTreeMap::new() };
    let metrics = work.into_iter().map(|(unit, count)| (format!("work.{unit}"), count));
    Some(Window {
        start: wall.wall(grid.start),
        end: wall.wall(end),
        is_final,
        experiment_id: experiment.id.clone(),
        trace_id: experiment.trace_id.to_string(),
        attributes: experiment.attributes.clone(),
        step: grid.step,
        gpus: gpus
            .iter()
            .zip(&recent)
            .map(|it| it.0.to_window(it.1, &grid, own_work.clone()))
            .collect(),
        metrics: metrics.collect(),
    })
}

impl WindowGpu<'_> {
    fn to_window(
        self,
        recent: &WindowTotals,
        grid: &Grid,
        work_done: BTreeMap<String, f64>,
    ) -> Gpu {
        let series = self.meter.window_series();
        let Columns { utilization, power, memory } = Columns::of(series, grid);
        Gpu {
            id: self.identity.name.clone(),
            model: self.identity.model.clone().unwrap_or_default(),
            memory_total: self.memory_total,
            power_limit: self.power_limit,
            accounts: (&recent.accounts).into(),
            waste: recent.waste,
            pattern: recent.pattern,
            price: self.price.cloned(),
            work_done,
            utilization,
            power,
            memory,
            metrics: metrics(recent),
        }
    }
}

/// Metrics without a field in the contract.
fn metrics(recent: &WindowTotals) -> BTreeMap<String, f64> {
    let energy = recent.energy.joules().map(|joules| (ENERGY.to_owned(), joules));
    let tensor = recent.mean_reading(Basis::GpmTensor).map(|mean| (TENSOR.to_owned(), mean));
    energy.into_iter().chain(tensor).collect()
}
