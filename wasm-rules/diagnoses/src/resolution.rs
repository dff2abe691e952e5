//! Whether a window shows the busiest minutes of a load, which decide how much others can be added to it.
//!
//! Points of columns are up to 17 minutes long, and a mean hides its peaks: 92% for 3 of every 20 minutes is 14% there.

use phasemeter_policy::{Gpu, Window};

/// Longest point of a column, and longest interval between readings, that shows the busiest minutes of a load, in
/// seconds. An assumption: requests that wait for two minutes are lost.
pub(crate) const SHOWN: f64 = 120.0;

/// Share of the time that a load exceeds at its busiest: that of a 95th percentile.
const BUSIEST: f64 = 0.05;

/// Whether the window shows the busiest minutes of a GPU.
pub fn shows_peaks(gpu: &Gpu, window: &Window) -> bool {
    let interval = gpu.activity.interval_seconds.unwrap_or(f64::INFINITY);
    window.step_seconds <= SHOWN && interval <= SHOWN
}

/// The load of GPUs together in the busiest minutes, in GPUs: the highest mean of as many points as show it.
pub fn busiest_minutes(gpus: &[&Gpu], window: &Window) -> f64 {
    let length = gpus.iter().map(|gpu| gpu.utilization.len()).max().unwrap_or(0);
    let load = |point: usize| {
        let loads = gpus.iter().filter_map(|gpu| gpu.utilization.get(point));
        loads.filter(|load| !load.is_nan()).sum::<f64>()
    };
    let points = ((SHOWN / window.step_seconds) as usize).clamp(1, length.max(1));
    let (mut sum, mut most) = (0.0, 0.0_f64);
    for point in 0..length {
        sum += load(point);
        if point >= points {
            sum -= load(point - points);
        }
        if point + 1 >= points {
            most = most.max(sum / points as f64);
        }
    }
    most
}

/// The utilization of a GPU at its busiest, at least: long points hide peaks, which the phases of whole seconds show.
pub fn min_peak(gpu: &Gpu, window: &Window) -> f64 {
    if window.step_seconds <= SHOWN {
        return 0.0;
    }
    let (accounts, all) = (&gpu.accounts, gpu.accounts.observed().seconds);
    let (full, productive) = (accounts.compute_bound, accounts.productive);
    match BUSIEST * all {
        least if full.seconds > least => full.level(),
        least if full.seconds + productive.seconds > least => productive.level().max(full.level()),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, window};

    use super::*;

    #[test]
    fn busiest_minutes_are_those_of_all_together() {
        let burst = |from: usize| {
            gpu(PatternKind::Mixed, 18_000, move |second| {
                if (from..from + 180).contains(&second) { 0.92 } else { 0.05 }
            })
        };
        let most = |gpus: [Gpu; 2]| {
            let window = window(gpus.to_vec());
            busiest_minutes(&[&window.gpus[0], &window.gpus[1]], &window)
        };
        assert!((most([burst(6_400), burst(6_400)]) - 1.84).abs() < 0.01);
        assert!((most([burst(6_400), burst(9_600)]) - 0.97).abs() < 0.01);
    }

    #[test]
    fn long_points_and_intervals_hide_peaks() {
        let bursts = |second: usize| if second % 1_200 < 180 { 0.92 } else { 0.05 };
        let of = |hours: usize, interval: f64| {
            let mut gpu = gpu(PatternKind::Mixed, hours * 3_600, bursts);
            gpu.activity.interval_seconds = Some(interval);
            let window = window(vec![gpu]);
            (shows_peaks(&window.gpus[0], &window), min_peak(&window.gpus[0], &window))
        };
        assert_eq!(of(10, 30.0), (true, 0.0), "points of 64 s");
        assert!(!of(10, 300.0).0, "a reading every five minutes");
        let (shown, least) = of(24, 30.0);
        assert!(!shown && (least - 0.92).abs() < 1e-9, "points of 256 s: {least}");
    }
}
