//! GPUs that wait in turn: if input is late, all GPUs of a job wait at the same time; the stages of a pipeline
//! wait one after another.

use phasemeter_diagnoses::{TOGETHER, are_separate};
use phasemeter_policy::Need;
use phasemeter_policy::column::mean_correlation;

use crate::waiting::Waiting;

/// Difference of periods, relative to the longer, up to which they are the same. An assumption.
const SAME_PERIOD: f64 = 0.02;

/// The same, if points are too long to show each wait: their means still rise and fall together if the waits
/// coincide. An assumption.
const OPPOSED: f64 = -0.1;

/// Points per period that show each wait.
const POINTS_PER_PERIOD: f64 = 4.0;

/// Whether they may be stages of one job: alike, with the same period, and not known to be of separate jobs.
pub(crate) fn have_same_period(a: &Waiting<'_>, b: &Waiting<'_>) -> bool {
    let is_same = (a.period - b.period).abs() <= SAME_PERIOD * a.period.max(b.period);
    is_same && a.gpu.is_alike(b.gpu) && !are_separate(a.gpu, b.gpu)
}

/// Whether GPUs with the same period wait one after another. `step_seconds` is that of the window.
pub(crate) fn wait_in_turn(group: &[Waiting<'_>], step_seconds: f64) -> bool {
    let columns: Vec<_> = group.iter().map(|it| it.gpu.utilization.as_slice()).collect();
    let shows_waits = |it: &Waiting<'_>| POINTS_PER_PERIOD * step_seconds <= it.period;
    let limit = if group.iter().all(shows_waits) { TOGETHER } else { OPPOSED };
    mean_correlation(&columns).is_some_and(|mean| mean < limit)
}

/// What tells stages of a pipeline from separate jobs.
pub(crate) fn need(group: &[Waiting<'_>]) -> Need {
    Need::new(
        "k8s.pod.name",
        "they wait one after another, not at the same time: the pod of each tells stages of one pipeline, which \
         wait for each other, from separate jobs with late input",
        group.iter().map(|waiting| waiting.gpu),
    )
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Gpu;
    use phasemeter_policy::testing::{bouncing, window};

    use crate::{Settings, recommend};

    /// The same utilization, by a number of points later.
    fn later(gpu: &Gpu, points: usize) -> Gpu {
        let mut later = gpu.clone();
        later.id += "-later";
        later.utilization.rotate_right(points);
        later
    }

    #[test]
    fn loader_is_not_the_cause_of_waits_in_turn() {
        let first = bouncing(600, 20, 0.5);
        let respond = |gpus| recommend(&Settings::default(), &window(gpus));
        let at_once = respond(vec![first.clone(), later(&first, 0)]);
        assert_eq!(at_once.recommendations.len(), 2);
        let in_turn = respond(vec![first.clone(), later(&first, 10)]);
        assert!(in_turn.recommendations.is_empty());
        assert_eq!(in_turn.needs[0].missing, "k8s.pod.name");

        let mut pods = vec![first.clone(), later(&first, 10)];
        for (gpu, pod) in pods.iter_mut().zip(["a", "b"]) {
            gpu.attributes.push(("k8s.pod.name".to_owned(), pod.to_owned()));
        }
        assert_eq!(respond(pods).recommendations.len(), 2);
    }
}
