//! Builds windows, the input of recommenders, from meters.
//!
//! Must not depend on the readers of a window.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::gpu::{GpuMeter, WindowTotals};
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::{Basis, GpuIdentity, MissingReason};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::experiment::Experiment;
use phasemeter_rules::window::{Gpu, HourOfWeek, Sensors, Window};
use phasemeter_rules::workload::{Workload, is_interruptible};

/// Energy of the window, in joules.
const ENERGY: &str = "energy.joules";

/// Mean tensor core activity while it was measured, 0–1.
const TENSOR: &str = "tensor.activity";

/// Time since a GPU was lost, in seconds, if it still is.
const LOST: &str = "lost.seconds";

/// The unit of work that only a service has.
const REQUESTS: &str = "requests";

/// Observed time from which hours of the week are meaningful.
const DAY: Nanos = Nanos::from_secs(24 * 3_600);

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
    utc_offset: Option<i32>,
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
    let requests = work.contains_key(REQUESTS);
    let metrics = work.into_iter().map(|(unit, count)| (format!("work.{unit}"), count));
    Some(Window {
        start: wall.wall(grid.start),
        end: wall.wall(end),
        is_final,
        experiment_id: experiment.id.clone(),
        trace_id: experiment.trace_id.to_string(),
        attributes: experiment.attributes.clone(),
        utc_offset,
        step: grid.step,
        gpus: gpus
            .iter()
            .zip(&recent)
            .map(|(gpu, recent)| Gpu {
                work_done: own_work.clone(),
                ..gpu.to_window(recent, &grid, &experiment.attributes, requests)
            })
            .collect(),
        metrics: metrics.collect(),
    })
}

impl WindowGpu<'_> {
    fn to_window(
        self,
        recent: &WindowTotals,
        grid: &Grid,
        run: &BTreeMap<String, String>,
        requests: bool,
    ) -> Gpu {
        let attributes = &self.identity.attributes;
        let own = Workload::declared(attributes, false);
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
            work_done: BTreeMap::new(),
            utilization,
            power,
            memory,
            metrics: self.metrics(recent),
            attributes: attributes.clone(),
            workload: match own {
                Workload::Unknown => Workload::declared(run, requests),
                own => own,
            },
            interruptible: is_interruptible(attributes) || is_interruptible(run),
            activity: recent.activity,
            interval: recent.interval(),
            week: self.week(),
            sensors: Sensors {
                sm_clock: recent.sensors.sm_clock.mean(),
                max_sm_clock: recent.sensors.sm_clock.max(),
                temperature: recent.sensors.temperature.mean(),
                max_temperature: recent.sensors.temperature.max(),
            },
        }
    }

    /// The hours of the week; empty if less than a day of them was observed.
    fn week(self) -> Vec<HourOfWeek> {
        let hours = self.meter.hours_of_week().iter();
        let hours = hours.map(|hour| HourOfWeek { observed: hour.observed(), idle: hour.idle() });
        let hours: Vec<_> = hours.collect();
        let observed: Nanos = hours.iter().map(|hour| hour.observed).sum();
        if observed < DAY { Vec::new() } else { hours }
    }

    /// Metrics without a field in the contract.
    fn metrics(self, recent: &WindowTotals) -> BTreeMap<String, f64> {
        let energy = recent.energy.joules().map(|joules| (ENERGY, joules));
        let tensor = recent.mean_reading(Basis::GpmTensor).map(|mean| (TENSOR, mean));
        let last = self.meter.last_reading().map(|last| last.utilization);
        let is_lost = last == Some(Err(MissingReason::Lost));
        let lost = self.meter.unobserved().missing[MissingReason::Lost as usize].as_secs_f64();
        let lost = is_lost.then_some((LOST, lost));
        let all = energy.into_iter().chain(tensor).chain(lost);
        all.map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
