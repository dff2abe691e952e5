//! Memory in use in the pauses of a GPU, and at work.

use phasemeter_policy::Gpu;

use crate::dips::{DIP, between_ends};

/// Bytes in use in pauses and at work; `None` if that was not recorded. A point with a part of a pause has a part of
/// either, so what a pause takes from the memory of work is found by least squares.
pub(crate) fn in_pauses_and_at_work(gpu: &Gpu, step_seconds: f64) -> Option<(f64, f64)> {
    // Drivers report a percent or two in a pause.
    let (level, pause) = (gpu.accounts.busy().level(), gpu.accounts.idle().level());
    let (mut work, mut work_points) = (0.0, 0.0);
    let (mut paused, mut parts, mut squares) = (0.0, 0.0, 0.0);
    for point in between_ends(gpu, step_seconds) {
        let (utilization, bytes) = (gpu.utilization[point], *gpu.memory.get(point)?);
        if utilization.is_nan() || bytes.is_nan() {
            continue;
        }
        if utilization >= DIP * level {
            work += bytes;
            work_points += 1.0;
        } else {
            let part = ((level - utilization) / (level - pause)).clamp(0.0, 1.0);
            paused += part * bytes;
            parts += part;
            squares += part * part;
        }
    }
    if squares == 0.0 || work_points == 0.0 {
        return None;
    }
    let work = work / work_points;
    let less = (parts * work - paused) / squares;
    Some(((work - less).max(0.0), work))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::gpu;

    use super::*;

    #[test]
    fn memory_of_a_pause_is_found_in_points_that_it_shares_with_work() {
        // Points of 16 s, and pauses of 100 s in cycles of 20 minutes; 1% now and then in a pause.
        let mut gpu = gpu(PatternKind::Mixed, 7_200, |second| {
            if second % 1_200 < 1_100 { 0.9 } else { 0.01 * (second % 2) as f64 }
        });
        let held = |utilization: f64| 3.0 + 68.0 * (utilization - 0.005) / 0.895;
        gpu.memory = gpu.utilization.iter().map(|it| held(*it)).collect();
        let (pause, work) = in_pauses_and_at_work(&gpu, 16.0).unwrap();
        assert!((pause - 3.0).abs() < 0.2 && (work - 71.0).abs() < 0.2, "{pause} {work}");
        gpu.memory.clear();
        assert_eq!(in_pauses_and_at_work(&gpu, 16.0), None);
    }
}
