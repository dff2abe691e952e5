//! Windows: what the meters know, as policies are shown it.
//!
//! This room must not know who looks at a window.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::{GpuMeter, WindowTotals};
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::Bytes;
use phasemeter_otlp::experiment::Experiment;
use phasemeter_rules::window::{Gpu, Window};

/// Joules in the window.
const ENERGY: &str = "energy.joules";

/// How busy the tensor cores were where that was measured: 0–1.
const TENSOR: &str = "tensor.activity";

/// A GPU of a window.
#[derive(Clone, Copy, Debug)]
pub struct WindowGpu<'a> {
    /// Who it is.
    pub identity: &'a GpuIdentity,
    /// What is known of it.
    pub meter: &'a GpuMeter,
    /// All its memory.
    pub memory_total: Option<Bytes>,
    /// What it costs.
    pub price: Option<&'a Price>,
}

/// What is known of these GPUs, which stand in the order of the report: all of it, or of a run
/// without an end the last day; `None` where there is no time yet to show.
#[must_use]
pub fn window(
    experiment: &Experiment,
    gpus: &[WindowGpu<'_>],
    work: &BTreeMap<String, u64>,
    is_final: bool,
) -> Option<Window> {
    // While a run goes on, up to what was read last; all but the last moments of it are booked.
    let end = gpus.iter().filter_map(|gpu| Some(gpu.meter.last_reading()?.at)).max()?;
    let recent: Vec<WindowTotals> = gpus.iter().map(|gpu| gpu.meter.window_totals(end)).collect();
    let start = recent.iter().filter_map(|recent| Some(recent.span?.0)).min()?;
    let grid = Grid::over(start, end, gpus.iter().map(|gpu| gpu.meter.window_series()));
    let work = work.iter().map(|(unit, count)| (unit.clone(), *count as f64));
    let work: BTreeMap<String, f64> = work.collect();
    // What several did together cannot be told apart.
    let alone = if gpus.len() == 1 { work.clone() } else { BTreeMap::new() };
    let metrics = work.into_iter().map(|(unit, count)| (format!("work.{unit}"), count));
    Some(Window {
        start: grid.start,
        end,
        is_final,
        experiment_id: experiment.id.clone(),
        trace_id: experiment.trace_id.to_string(),
        attributes: experiment.attributes.clone(),
        step: grid.step,
        gpus: gpus
            .iter()
            .zip(&recent)
            .map(|it| it.0.to_window(it.1, &grid, alone.clone()))
            .collect(),
        metrics: metrics.collect(),
    })
}

impl WindowGpu<'_> {
    fn to_window(
        &self,
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
            power_limit: self.identity.power_limit,
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

/// What the contract has no field for.
fn metrics(recent: &WindowTotals) -> BTreeMap<String, f64> {
    let energy = recent.energy.map(|(joules, _)| (ENERGY.to_owned(), joules));
    let tensor = recent.mean_reading(Basis::GpmTensor).map(|mean| (TENSOR.to_owned(), mean));
    energy.into_iter().chain(tensor).collect()
}
