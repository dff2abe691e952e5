//! GPUs of a job that are slower than the others of it, by their clocks or by their power.

use crate::bounds::{FULL_CLOCK, MOSTLY_FULL, SAME_MEMORY, SIMILAR};
use phasemeter_policy::{Gpu, Vendor, Window, Workload};

use crate::{hangs, share};

/// Power relative to the median of the others, from which a full GPU without a recorded clock is slow. An
/// assumption: power rises faster than the clock.
const SLOW_POWER: f64 = 0.7;

/// Fewest others whose median is compared by power. An assumption.
const MIN_OTHERS: usize = 3;

/// Clock of a full GPU, in MHz, up to which something holds it: base clocks since the K80 (560) and the T4 (585) are higher.
const HELD_CLOCK: f64 = 500.0;

/// How far a GPU is behind the others, or behind any.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lag {
    /// Its clock while busy and the median of the others, in MHz.
    Clock(f64, f64),
    /// Its median power while it works and the median of the others, in watts; clocks were not recorded.
    Power(f64, f64),
    /// Its clock while busy, in MHz, at which no GPU computes by itself.
    Held(f64),
}

/// Returns how far a GPU is behind the others of its kind of work. `fastest` is the highest clock of the window,
/// so that names are compared only if there is a difference.
pub fn lag(gpu: &Gpu, window: &Window, fastest: f64) -> Option<Lag> {
    match gpu.sensors.sm_clock_mhz {
        Some(clock) if clock < FULL_CLOCK * fastest => {
            let others = sibling_clock(gpu, window)?;
            (clock < FULL_CLOCK * others).then_some(Lag::Clock(clock, others))
        }
        Some(clock) if clock <= HELD_CLOCK && gpu.vendor() == Vendor::Nvidia => {
            Some(Lag::Held(clock))
        }
        Some(_) => None,
        None => behind_in_power(gpu, window),
    }
}

/// Whether a GPU is behind the others of its kind of work.
pub fn is_behind(gpu: &Gpu, window: &Window) -> bool {
    lag(gpu, window, fastest_clock(window)).is_some()
}

/// Returns the highest clock of a window while its GPUs were busy; 0 if it was not recorded.
pub fn fastest_clock(window: &Window) -> f64 {
    window.gpus.iter().filter_map(|gpu| gpu.sensors.sm_clock_mhz).fold(0.0, f64::max)
}

/// Returns the median clock of the others of its kind of work.
fn sibling_clock(gpu: &Gpu, window: &Window) -> Option<f64> {
    median(siblings(gpu, window).filter_map(|other| other.sensors.sm_clock_mhz))
}

/// Returns the median temperature of the others of its kind of work.
pub fn sibling_temperature(gpu: &Gpu, window: &Window) -> Option<f64> {
    median(siblings(gpu, window).filter_map(|other| other.sensors.temperature_celsius))
}

fn siblings<'a>(gpu: &'a Gpu, window: &'a Window) -> impl Iterator<Item = &'a Gpu> {
    window.gpus.iter().filter(|other| other.id != gpu.id && other.is_alike(gpu))
}

/// Only in training: replicas of a service differ by their requests. What hangs is not slow.
fn behind_in_power(gpu: &Gpu, window: &Window) -> Option<Lag> {
    let is_full = |gpu: &Gpu| gpu.full_share() >= MOSTLY_FULL;
    let own = gpu.sensors.busy_power.filter(|_| is_full(gpu))?.p50;
    if gpu.workload != Workload::Training || !draws_more(window, own) {
        return None;
    }
    let of_job = || siblings(gpu, window).filter(|other| is_full(other));
    let powers = || of_job().filter_map(|other| Some(other.sensors.busy_power?.p50));
    let others = median(powers()).filter(|_| powers().count() >= MIN_OTHERS)?;
    let near = powers().filter(|power| (power - others).abs() <= SIMILAR * others).count();
    let memory = |gpu: &Gpu| Some(gpu.sensors.memory_in_use?.p50);
    let has_same_memory = match (memory(gpu), median(of_job().filter_map(memory))) {
        (Some(own), Some(others)) => (own - others).abs() <= SAME_MEMORY * others,
        _ => true,
    };
    let is_behind = own < SLOW_POWER * others
        && near as f64 >= share::NEARLY_ALL * powers().count() as f64
        && has_same_memory
        && !hangs(gpu, window);
    is_behind.then_some(Lag::Power(own, others))
}

/// Whether any GPU draws so much more that the names are worth a comparison.
fn draws_more(window: &Window, own: f64) -> bool {
    window.gpus.iter().filter_map(|gpu| gpu.sensors.busy_power).any(|it| own < SLOW_POWER * it.p50)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window, with_power};

    use super::*;

    fn drawing(watts: f64) -> Gpu {
        let mut gpu = with_power(steady(3_600, 0.98), watts);
        gpu.sensors.busy_power =
            Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
        gpu
    }

    fn lag_of_first(gpus: Vec<Gpu>) -> Option<Lag> {
        let window = window(gpus);
        lag(&window.gpus[0], &window, fastest_clock(&window))
    }

    #[test]
    fn clock_below_the_median_of_the_others_is_a_lag() {
        let at = |mhz: f64| {
            let mut gpu = drawing(500.0);
            gpu.sensors.sm_clock_mhz = Some(mhz);
            gpu
        };
        let found = lag_of_first(vec![at(1_200.0), at(1_960.0), at(1_970.0)]);
        assert_eq!(found, Some(Lag::Clock(1_200.0, 1_970.0)));
        assert_eq!(lag_of_first(vec![at(1_700.0), at(1_960.0)]), None);
    }

    #[test]
    fn power_is_a_lag_beside_alike_gpus_without_clocks() {
        let beside = |first: Gpu, others: [f64; 4]| {
            lag_of_first([first].into_iter().chain(others.map(drawing)).collect())
        };
        let alike = [610.0, 620.0, 630.0, 640.0];
        assert_eq!(beside(drawing(310.0), alike), Some(Lag::Power(310.0, 630.0)));
        assert_eq!(beside(drawing(500.0), alike), None, "nearly as much");
        assert_eq!(beside(drawing(310.0), [400.0, 480.0, 620.0, 640.0]), None, "other jobs");
        assert_eq!(lag_of_first(vec![drawing(310.0), drawing(620.0)]), None, "one other");
        let mut same_clock = drawing(310.0);
        same_clock.sensors.sm_clock_mhz = Some(1_960.0);
        assert_eq!(beside(same_clock, alike), None, "it has less to do");
        let serving = Gpu { workload: Workload::Serving, ..drawing(310.0) };
        assert_eq!(beside(serving, alike), None, "requests differ");
    }
}
