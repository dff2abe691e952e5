//! Builds windows, the input of recommenders, from meters.

use std::collections::BTreeMap;

use phasemeter_meter::columns::{Columns, Grid};
use phasemeter_meter::contradiction::Contradiction;
use phasemeter_meter::device_totals::Totals;
use phasemeter_meter::ends::Ends;
use phasemeter_meter::gpu::{GpuMeter, WindowTotals};
use phasemeter_meter::gpu_specs::driver_name;
use phasemeter_meter::price::Price;
use phasemeter_meter::quantity::{InWindow, Quantity};
use phasemeter_meter::reading::{Basis, GpuIdentity, HOLDERS, MissingReason, NEVER_TOUCHED_BY};
use phasemeter_meter::units::{Bytes, Nanos, Utilization};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_meter::{memory_pool, sensors};
use phasemeter_otlp::experiment::Experiment;
use phasemeter_rules::window::{
    Gpu, HourOfWeek, Percentiles, Sensors, ThrottleReason, Throttling, Window, WindowHolder,
};
use phasemeter_rules::workload::{Evidence, Workload, is_interruptible};

/// Energy of the window, in joules.
const ENERGY: &str = "energy.joules";

/// The bounds of phases as configured, 0–1: idle below the first, productive from the second, compute-bound
/// from the third.
const THRESHOLDS: [&str; 3] = ["threshold.idle", "threshold.productive", "threshold.compute_bound"];

/// Mean and maximum of the memory clock while the GPU worked, in MHz.
const MEMORY_CLOCK: &str = "memory.clock";
const MAX_MEMORY_CLOCK: &str = "memory.max_clock";

/// Mean traffic over the PCIe link and over all NVLink links, both directions together, in bytes per
/// second.
const PCIE_TRAFFIC: &str = "pcie.bytes_per_second";
const NVLINK_TRAFFIC: &str = "nvlink.bytes_per_second";

/// Median time between changes of utilization, and the shortest cycle between idle and busy that readings so
/// far apart can show, with two of them in each half; in seconds.
const UPDATE_PERIOD: &str = "utilization.update_period";
const SHORTEST_CYCLE: &str = "pattern.shortest_cycle";
const READINGS_PER_CYCLE: f64 = 4.0;

/// Slopes of the columns of power and memory, in watts and bytes per second.
const POWER_SLOPE: &str = "power.slope";
const MEMORY_SLOPE: &str = "memory.slope";

/// Share of the memory in a preallocated block, of which it is unknown how much is in use.
const MEMORY_POOL: &str = "memory.pool";

/// Begins the names of what two sources of utilization reported while one reported work and the other none. The
/// names of both follow, then what it is: seconds, the means of either, and of power in watts.
const CONTRADICTION: &str = "contradiction";

/// Time in which readings at part load repeat, in seconds, if they do.
const STILL: &str = "still.seconds";

/// Number of processes that ended when memory was full, the memory in use after the last, and the time from its first work;
/// and number of those that ended after the GPU stood, and the last such time.
const ENDS_FULL: [&str; 3] = ["ends.full", "ends.full.kept", "ends.full.life"];
const ENDS_STOOD: [&str; 2] = ["ends.stood", "ends.stood.seconds"];

/// Time since a GPU was lost, in seconds, if it still is; time since its source no longer lists it, while it
/// lists others of its host; and time of the run without readings, if any.
const LOST: &str = "lost.seconds";
const VANISHED: &str = "vanished.seconds";
const UNRECORDED: &str = "unrecorded.seconds";

/// A GPU that is not listed for this long is lost. A shorter silence may be one of its source.
const LOST_AFTER: Nanos = Nanos::from_secs(60);

/// The vendor of a GPU, by which policies name tools.
const VENDOR: &str = "hw.vendor";

/// The attributes that identify the pod of a GPU.
const POD: [&str; 3] = ["k8s.namespace.name", "k8s.pod.name", "k8s.pod.uid"];

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
    /// Its current price.
    pub price: Option<&'a Price>,
    /// The kind of the processes on it, if they were seen.
    pub processes: Workload,
    /// Time since its source no longer lists it, while it lists others of its host.
    pub vanished: Nanos,
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
    let requests = work.contains_key(REQUESTS) && is_of_one_pod(gpus);
    let metrics = work.into_iter().map(|(unit, count)| (format!("work.{unit}"), count));
    let bounds = gpus.first()?.meter.thresholds().bounds().map(Utilization::ratio);
    let bounds = THRESHOLDS.map(str::to_owned).into_iter().zip(bounds);
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
                holders: WindowHolder::all_of(gpu.meter.holders(), wall),
                ..gpu.to_window(recent, &grid, &experiment.attributes, requests)
            })
            .collect(),
        metrics: metrics.chain(bounds).collect(),
        offers: Vec::new(),
        previous: Vec::new(),
        load: Vec::new(),
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
        let attributes = self.attributes();
        let started = self.meter.span().map(|(start, _)| start);
        let from = recent.span.map(|(from, _)| from).filter(|from| Some(*from) > started);
        let totals = self.meter.device().totals.since(from);
        let series = self.meter.window_series();
        let Columns { utilization, power, memory } = Columns::of(series, grid);
        let sensors = self.sensors(recent, &memory, totals.clone());
        let mut metrics = self.metrics(recent, &totals);
        let slopes = [(POWER_SLOPE, slope(&power, grid)), (MEMORY_SLOPE, slope(&memory, grid))];
        let pool = self.memory_total.and_then(|total| memory_pool::share(&memory, total));
        let of_columns = slopes.into_iter().chain([(MEMORY_POOL, pool)]);
        metrics.extend(of_columns.filter_map(|(name, of)| Some((name.to_owned(), of?))));
        Gpu {
            id: self.identity.name.clone(),
            model: self.identity.model.as_deref().map(driver_name).unwrap_or_default().to_owned(),
            memory_total: self.memory_total,
            power_limit: self.meter.device().power_limit.or(self.identity.power_limit),
            accounts: (&recent.accounts).into(),
            waste: recent.waste,
            pattern: recent.pattern,
            price: self.price.cloned(),
            work_done: BTreeMap::new(),
            utilization,
            power,
            memory,
            metrics,
            workload: Workload::of(&Evidence {
                gpu: &attributes,
                run,
                processes: self.processes,
                requests,
            }),
            interruptible: is_interruptible(&attributes) || is_interruptible(run),
            attributes,
            activity: recent.activity,
            interval: recent.interval(),
            week: self.week(),
            sensors,
            holders: Vec::new(),
        }
    }

    /// Those of the GPU, with its vendor and the names of its holders.
    fn attributes(self) -> BTreeMap<String, String> {
        let mut attributes = self.identity.attributes.clone();
        attributes.insert(VENDOR.to_owned(), self.identity.vendor().name().to_owned());
        for (key, is_any) in [(HOLDERS, true), (NEVER_TOUCHED_BY, false)] {
            let holders = self.meter.holders().iter();
            let named = holders.filter(|(_, accounts)| is_any || accounts.first_touch().is_none());
            let mut names: Vec<String> = named.map(|(holder, _)| holder.to_string()).collect();
            // Containers of a pod are one after another.
            names.dedup();
            if !names.is_empty() {
                attributes.insert(key.to_owned(), names.join(", "));
            }
        }
        attributes
    }

    /// `memory` is the column of the window.
    fn sensors(self, recent: &WindowTotals, memory: &[f64], totals: Totals) -> Sensors {
        let sensors::Sensors { sm_clock, temperature, busy_power, device, .. } = &recent.sensors;
        let percentiles = |value: &dyn Fn(u32) -> Option<f64>, max: Option<f64>| {
            let (p5, p50, p95) = (value(5)?, value(50)?, value(95)?);
            Some(Percentiles { p5, p50, p95, max: max?.max(p95) })
        };
        let mut points: Vec<_> = memory.iter().copied().filter(|bytes| !bytes.is_nan()).collect();
        points.sort_unstable_by(f64::total_cmp);
        let peak = self.meter.memory().peak().map(|bytes| bytes.get() as f64);
        // Without a column, counters of the driver measure them at any time.
        let activity = |column, basis: Option<Basis>| {
            device.mean(column).or_else(|| recent.mean_reading(basis?))
        };
        let throttling = Quantity::THROTTLING.into_iter().zip(ThrottleReason::ALL);
        Sensors {
            sm_clock: sm_clock.mean(),
            max_sm_clock: sm_clock.max(),
            temperature: temperature.mean(),
            max_temperature: temperature.max(),
            busy_power: percentiles(&|percent| busy_power.percentile(percent), busy_power.max()),
            memory_in_use: percentiles(&|percent| percentile(&points, percent), peak),
            sm_activity: activity(Quantity::SmActivity, Some(Basis::GpmSm)),
            tensor_activity: activity(Quantity::TensorActivity, Some(Basis::GpmTensor)),
            dram_activity: activity(Quantity::DramActivity, None),
            throttling: throttling
                .filter_map(|(column, reason)| {
                    Some(Throttling { reason, share: device.mean(column)? })
                })
                .collect(),
            xids: totals.xids,
        }
    }

    /// The hours of the week; empty if less than a day of them was observed.
    fn week(self) -> Vec<HourOfWeek> {
        let hours = self.meter.hours_of_week().iter();
        let hours = hours.map(|hour| HourOfWeek { observed: hour.observed(), idle: hour.idle() });
        if has_hours_of_week(self.meter) { hours.collect() } else { Vec::new() }
    }

    /// Metrics without a field in the contract.
    fn metrics(self, recent: &WindowTotals, totals: &Totals) -> BTreeMap<String, f64> {
        let energy = recent.energy.joules().map(|joules| (ENERGY, joules));
        let device = &recent.sensors.device;
        let kept = Quantity::kept().filter_map(|quantity| match quantity.in_window()? {
            InWindow::Mean(name) => Some((name, device.mean(quantity)?)),
            InWindow::Max(name) => Some((name, device.max(quantity)?)),
        });
        let clock = recent.sensors.memory_clock;
        let clocks = [(MEMORY_CLOCK, clock.mean()), (MAX_MEMORY_CLOCK, clock.max())];
        let clocks = clocks.into_iter().filter_map(|(name, of)| Some((name, of?)));
        let traffic = [(PCIE_TRAFFIC, totals.pcie), (NVLINK_TRAFFIC, totals.nvlink)];
        let traffic =
            traffic.into_iter().filter_map(|(name, of)| Some((name, of.bytes_per_second()?)));
        let last = self.meter.last_reading().map(|last| last.utilization);
        let of = |reason: MissingReason| self.meter.unobserved().missing[reason as usize];
        let is_lost = last == Some(Err(MissingReason::Lost));
        let lost = if is_lost { of(MissingReason::Lost) } else { Nanos::ZERO };
        let is_unlisted = self.vanished >= LOST_AFTER;
        let lost = lost + if is_unlisted { self.vanished } else { Nanos::ZERO };
        let unrecorded = self.meter.unobserved().no_reading + of(MissingReason::Vanished);
        let silence = [
            (LOST, lost),
            (VANISHED, self.vanished),
            (UNRECORDED, unrecorded),
            (STILL, recent.still),
        ];
        let silence = silence.into_iter().filter(|(_, time)| *time > Nanos::ZERO);
        let silence = silence.map(|(name, time)| (name, time.as_secs_f64()));
        let period = self.meter.update_period().map(Nanos::as_secs_f64);
        let interval = recent.interval().map(Nanos::as_secs_f64);
        let cycle =
            interval.map(|interval| READINGS_PER_CYCLE * interval.max(period.unwrap_or(0.0)));
        let sampling = [(UPDATE_PERIOD, period), (SHORTEST_CYCLE, cycle)];
        let sampling = sampling.into_iter().filter_map(|(name, of)| Some((name, of?)));
        let all = energy.into_iter().chain(kept).chain(clocks).chain(traffic);
        let all = all.chain(silence).chain(sampling).chain(ends(&recent.ends));
        let all = all.map(|(name, value)| (name.to_owned(), value));
        all.chain(recent.contradictions.iter().flat_map(contradiction)).collect()
    }
}

/// How processes ended, if any ended so.
#[expect(clippy::cast_precision_loss, reason = "metrics for evaluation")]
fn ends(ends: &Ends) -> impl Iterator<Item = (&'static str, f64)> {
    let full = [f64::from(ends.full), ends.kept.get() as f64, ends.life.as_secs_f64()];
    let full = ENDS_FULL.into_iter().zip(full).filter(|_| ends.full > 0);
    let stood = [f64::from(ends.stood), ends.standing.as_secs_f64()];
    full.chain(ENDS_STOOD.into_iter().zip(stood).filter(|_| ends.stood > 0))
}

/// The metrics of a contradiction.
fn contradiction(of: &Contradiction) -> impl Iterator<Item = (String, f64)> {
    let sources = format!("{CONTRADICTION}.{}/{}", of.works.name(), of.rests.name());
    let values = [
        ("seconds", Some(of.time.as_secs_f64())),
        ("works", Some(of.mean_work())),
        ("rests", Some(of.mean_rest())),
        ("watts", of.watts()),
    ];
    let named =
        move |(name, value): (&str, Option<f64>)| Some((format!("{sources}.{name}"), value?));
    values.into_iter().filter_map(named)
}

/// Whether all GPUs have the same pod, or none. If not, the work of the run is not that of each GPU.
fn is_of_one_pod(gpus: &[WindowGpu<'_>]) -> bool {
    let mut pods = gpus.iter().map(|gpu| POD.map(|name| gpu.identity.attributes.get(name)));
    let first = pods.next();
    pods.all(|pod| Some(pod) == first)
}

/// Whether a day or more was observed, so that hours of the week are meaningful.
#[must_use]
pub fn has_hours_of_week(meter: &GpuMeter) -> bool {
    meter.hours_of_week().iter().map(|hour| hour.observed()).sum::<Nanos>() >= DAY
}

/// The slope of the line through the observed points of a column, per second: least squares; `None` with
/// less than two.
fn slope(column: &[f64], grid: &Grid) -> Option<f64> {
    let points = || (0_u32..).map(f64::from).zip(column).filter(|(_, value)| !value.is_nan());
    let count = points().count() as f64;
    let mean = |of: fn((f64, &f64)) -> f64| points().map(of).sum::<f64>() / count;
    let (time, value) = (mean(|(step, _)| step), mean(|(_, value)| *value));
    let spread: f64 = points().map(|(step, _)| (step - time).powi(2)).sum();
    let rise: f64 = points().map(|(step, at)| (step - time) * (at - value)).sum();
    (spread > 0.0).then(|| rise / spread / grid.step.as_secs_f64())
}

/// The smallest of these sorted points that at least `percent` of them do not exceed.
fn percentile(sorted: &[f64], percent: u32) -> Option<f64> {
    let rank = (sorted.len() * percent as usize).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}
