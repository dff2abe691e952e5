//! GPUs that people use, and that something else has taken over: full without a pause to the end.

use phasemeter_policy::column::mean;
use phasemeter_policy::format::HOUR;
use phasemeter_policy::{Gpu, Window, Workload};

use crate::{share, time};

/// Time without a pause from which nobody at a keyboard does the work, in seconds. An assumption.
const WITHOUT_PAUSE: f64 = 8.0 * HOUR;

/// Fewest pauses before, by which it was used now and then: a job that begins after time without any work is usual. An
/// assumption.
const USES: u32 = 10;

/// The first point from which a GPU is full to the end, for longer than people work, where it was used now and then before:
/// a long job, a loop that was left, or the work of somebody else.
pub fn taken_over(gpu: &Gpu, window: &Window) -> Option<usize> {
    let column = &gpu.utilization;
    let full = window.thresholds().compute_bound;
    let point = column.iter().rposition(|level| *level < full)? + 1;
    let seconds = |points: usize| points as f64 * window.step_seconds;
    let is_peoples = matches!(gpu.workload, Workload::Interactive | Workload::Unknown);
    let lasts = seconds(column.len() - point) >= WITHOUT_PAUSE && seconds(point) >= time::USUAL;
    let was_used_at_times = || {
        gpu.activity.pauses.count >= USES
            && mean(&column[..point]).is_some_and(|level| level < share::MOST)
    };
    (is_peoples && lasts && was_used_at_times()).then_some(point)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, window};

    use super::*;

    /// Used for 5 of every 20 minutes until `used`, then full after 20 hours.
    fn is_taken_over(workload: Workload, used: usize, hours: usize) -> bool {
        let level = |second: usize| match second {
            second if second < used && second % 1_200 < 300 => 0.6,
            ..72_000 => 0.0,
            _ => 1.0,
        };
        let gpu = gpu(PatternKind::Mixed, 72_000 + hours * 3_600, level);
        let window = window(vec![Gpu { workload, ..gpu }]);
        taken_over(&window.gpus[0], &window).is_some()
    }

    #[test]
    fn full_load_that_lasts_longer_than_people_work_is_not_theirs() {
        for workload in [Workload::Interactive, Workload::Unknown] {
            assert!(is_taken_over(workload, 36_000, 20));
            assert!(!is_taken_over(workload, 36_000, 5), "a long evening");
            assert!(!is_taken_over(workload, 0, 20), "its first job, after time without work");
            assert!(!is_taken_over(workload, 2_400, 20), "two tries before");
        }
        assert!(!is_taken_over(Workload::Training, 36_000, 20), "a job");
    }
}
