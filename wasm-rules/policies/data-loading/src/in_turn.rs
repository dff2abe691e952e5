//! GPUs that wait in turn: late input makes the GPUs of a job wait at once, a pipeline one stage after the
//! other.
//!
//! Must not depend on what is recommended.

use phasemeter_policy::column::mean_correlation;
use phasemeter_policy::{Gpu, Need};

use crate::Waiting;

/// Difference of periods, relative to the longer, up to which GPUs may keep step. An assumption.
const SAME_PERIOD: f64 = 0.02;

/// Correlation of utilization below which GPUs do not wait at once: 1 if they do, 0 if they have nothing in
/// common. An assumption.
const AT_ONCE: f64 = 0.5;

/// The same, if points are too long to show each wait: what remains of them in the means of points has the same
/// sign, unless GPUs wait in turn. An assumption.
const OPPOSED: f64 = -0.1;

/// Points per period that show each wait.
const POINTS_PER_PERIOD: f64 = 4.0;

/// Whether they may be stages of one job: alike, with one period, and nothing shows that their jobs are separate.
pub(crate) fn keep_step(a: &Waiting<'_>, b: &Waiting<'_>) -> bool {
    let same_period = (a.period - b.period).abs() <= SAME_PERIOD * a.period.max(b.period);
    same_period && a.gpu.is_alike(b.gpu) && !are_separate(a.gpu, b.gpu)
}

/// Whether GPUs that keep step wait in turn.
pub(crate) fn is_seen(group: &[Waiting<'_>], step_seconds: f64) -> bool {
    let columns: Vec<_> = group.iter().map(|it| it.gpu.utilization.as_slice()).collect();
    let shows_waits = |it: &Waiting<'_>| POINTS_PER_PERIOD * step_seconds <= it.period;
    let limit = if group.iter().all(shows_waits) { AT_ONCE } else { OPPOSED };
    mean_correlation(&columns).is_some_and(|mean| mean < limit)
}

/// Whether they are of different pods.
fn are_separate(a: &Gpu, b: &Gpu) -> bool {
    let attribute = |gpu: &Gpu, name| gpu.attribute(name).map(str::to_owned);
    let pod = |gpu: &Gpu| attribute(gpu, "k8s.pod.uid").or_else(|| attribute(gpu, "k8s.pod.name"));
    pod(a).zip(pod(b)).is_some_and(|(a, b)| a != b)
}

/// What tells stages of a pipeline from separate jobs.
pub(crate) fn need(group: &[Waiting<'_>]) -> Need {
    Need::new(
        "k8s.pod.name",
        "they wait in turn, not at once: the pod of each tells stages of one pipeline, where each waits for \
         another, from separate jobs with late input",
        group.iter().map(|waiting| waiting.gpu),
    )
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, window};
    use phasemeter_policy::{Gpu, Recommender};

    use crate::{DataLoading, Settings};

    /// The same utilization, so many seconds later.
    fn later(gpu: &Gpu, points: usize) -> Gpu {
        let mut later = gpu.clone();
        later.id += "-later";
        later.utilization.rotate_right(points);
        later
    }

    #[test]
    fn loader_is_not_the_cause_of_waits_in_turn() {
        let first = bouncing(600, 20, 0.5);
        let respond = |gpus| DataLoading::recommend(&Settings::default(), &window(gpus));
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
