//! Windows: what the meters know, as policies are shown it.
//!
//! This room must not know who looks at a window.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::measure::Measure;
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Bytes, PPM};
use phasemeter_rules::window::{Gpu, Window};

use crate::experiment::Experiment;

/// Joules since the first reading.
const ENERGY: &str = "energy.joules";

/// How busy the tensor cores were where that was measured: 0–1.
const TENSOR: &str = "tensor.activity";

/// A GPU of a window.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// Who it is.
    pub identity: &'a GpuIdentity,
    /// What is known of it.
    pub meter: &'a GpuMeter,
    /// All its memory.
    pub memory_total: Option<Bytes>,
    /// What it costs.
    pub price: Option<&'a Price>,
}

/// All that is known of these GPUs, which stand in the order of the report; `None` where there is
/// no time yet to show.
#[must_use]
pub fn window(
    experiment: &Experiment,
    gpus: &[Shown<'_>],
    work: &BTreeMap<String, u64>,
    last: bool,
) -> Option<Window> {
    let start = gpus.iter().filter_map(|gpu| Some(gpu.meter.summary().span?.0)).min()?;
    // While a run goes on, up to what was read last; all but the last moments of it are booked.
    let end = gpus.iter().filter_map(|gpu| Some(gpu.meter.last()?.at)).max()?;
    let grid = Grid::over(start, end, gpus.iter().map(|gpu| gpu.meter.series()));
    let work = work.iter().map(|(unit, count)| (unit.clone(), *count as f64));
    let work: BTreeMap<String, f64> = work.collect();
    // What several did together cannot be told apart.
    let alone = if gpus.len() == 1 { work.clone() } else { BTreeMap::new() };
    let metrics = work.into_iter().map(|(unit, count)| (format!("work.{unit}"), count));
    Some(Window {
        start: grid.start,
        end,
        last,
        experiment_id: experiment.id.clone(),
        trace_id: experiment.trace_id.to_string(),
        attributes: experiment.attributes.clone(),
        step: grid.step,
        gpus: gpus.iter().map(|gpu| gpu.shown(&grid, alone.clone())).collect(),
        metrics: metrics.collect(),
    })
}

impl Shown<'_> {
    fn shown(&self, grid: &Grid, work_done: BTreeMap<String, f64>) -> Gpu {
        let summary = self.meter.summary();
        let Columns { utilization, power, memory } = Columns::of(self.meter.series(), grid);
        Gpu {
            id: self.identity.name.clone(),
            model: self.identity.model.clone().unwrap_or_default(),
            memory_total: self.memory_total,
            power_limit: None,
            accounts: (&summary.accounts).into(),
            waste: summary.pools,
            pattern: summary.pattern,
            price: self.price.cloned(),
            work_done,
            utilization,
            power,
            memory,
            metrics: self.metrics(&summary),
        }
    }

    /// What the contract has no field for.
    fn metrics(&self, summary: &Summary) -> BTreeMap<String, f64> {
        let energy = summary.energy.map(|(joules, _)| (ENERGY.to_owned(), joules));
        let tensor = self.meter.measures().find(|it| it.basis() == Basis::GpmTensor);
        let readings = tensor.map(Measure::distribution).filter(|it| it.reading_count() > 0);
        let mean = readings.map(|it| it.reading_sum_ppm() as f64 / it.reading_count() as f64);
        let tensor = mean.map(|ppm| (TENSOR.to_owned(), ppm / f64::from(PPM)));
        energy.into_iter().chain(tensor).collect()
    }
}
