//! Two roles of one job, on GPUs of their own, of which one works while the other waits.

use phasemeter_diagnoses::{IN_STEP, SHORTENED, confidence, share};
use phasemeter_policy::column::mean_correlation;
use phasemeter_policy::format::{count, percent};
use phasemeter_policy::{
    Accounts, Effort, Gpu, Recommendation, Saving, Target, Workload, evidence, groups, mean,
};

use crate::text::about;

/// GPUs that work in turn; the first role is that of the first GPU.
pub(crate) struct Roles<'a> {
    first: Vec<&'a Gpu>,
    other: Vec<&'a Gpu>,
}

/// The roles of each job among GPUs that pause.
pub(crate) fn roles<'a>(pausing: &[&'a Gpu]) -> Vec<Roles<'a>> {
    let waits = pausing.iter().copied().filter(|gpu| gpu.workload == Workload::Training);
    let waiting: Vec<_> = waits.collect();
    let in_turn = waiting.iter().copied().filter(|one| {
        waiting.iter().any(|other| {
            let both = idle(one) + idle(other);
            both >= share::MOST && correlation(one, other).is_some_and(|it| it <= -IN_STEP)
        })
    });
    let are_of_one_job =
        |a: &&Gpu, b: &&Gpu| correlation(a, b).is_some_and(|it| it.abs() >= IN_STEP);
    let jobs = groups(in_turn, are_of_one_job).into_iter().map(|job| {
        let lead = job[0];
        let (first, other) =
            job.into_iter().partition(|one| correlation(lead, one).is_some_and(|it| it > 0.0));
        Roles { first, other }
    });
    jobs.filter(|roles| !roles.other.is_empty()).collect()
}

fn idle(gpu: &Gpu) -> f64 {
    gpu.share(Accounts::idle)
}

/// That of the utilization of alike GPUs.
fn correlation(a: &Gpu, b: &Gpu) -> Option<f64> {
    if !a.is_alike(b) {
        return None;
    }
    mean_correlation(&[&a.utilization, &b.utilization])
}

impl Roles<'_> {
    fn all(&self) -> impl Iterator<Item = &Gpu> {
        self.first.iter().chain(&self.other).copied()
    }

    pub(crate) fn contains(&self, gpu: &Gpu) -> bool {
        self.all().any(|one| std::ptr::eq(one, gpu))
    }

    pub(crate) fn recommendation(&self) -> Recommendation {
        let [first, other] = [&self.first, &self.other].map(|role| mean(role, |gpu| idle(gpu)));
        let periods: Vec<_> =
            self.all().filter_map(|gpu| gpu.activity.pauses.period_seconds).collect();
        let period = mean(&periods, |period| *period);
        let cycles = [", in cycles of about ", &about(period)].concat();
        let wait = |gpus: usize| if gpus == 1 { " waits " } else { " wait " };
        // A cycle is at least as long as the longer role works.
        let most = self.all().map(Gpu::lost_idle).fold(1.0, f64::min);
        let rationale = format!(
            "{}{}{} of the time, and {}{}{}, each while the others work{cycles}. The role that works longer sets the \
             pace, so at most {} of the bill can be saved.",
            count(self.first.len(), "GPU"),
            wait(self.first.len()),
            percent(first),
            count(self.other.len(), "other"),
            wait(self.other.len()),
            percent(other),
            percent(most),
        );
        let saving = |gpu: &Gpu| Saving::part(most.min(gpu.lost_idle()), SHORTENED);
        Recommendation {
            title: "Let both roles work at once".to_owned(),
            action: self.action(),
            rationale,
            saving: Saving::combined(self.all().map(|gpu| (gpu, saving(gpu)))),
            confidence: confidence::EVEN * mean(self.all(), Gpu::confidence),
            evidence: evidence([
                ("idle.share_of_time", first, "1"),
                ("idle.share_of_time.others", other, "1"),
                ("cycle", period, "s"),
            ]),
            effort: Effort::Medium,
            ..Recommendation::new("gaps.roles", Target::Idle, "overlap", self.all())
        }
    }

    fn action(&self) -> String {
        let most = |role: &[&Gpu]| {
            let shares = role.iter().map(|gpu| gpu.memory_share());
            shares.collect::<Option<Vec<_>>>().map(|all| all.into_iter().fold(0.0, f64::max))
        };
        let both = most(&self.first).zip(most(&self.other)).map(|(first, other)| first + other);
        let shared = match both {
            Some(both) if both > share::NEARLY_ALL => "",
            Some(_) => " Or run both on the same GPUs: their memory fits.",
            None => " Or run both on the same GPUs, if their memory fits.",
        };
        format!(
            "Let one role work on the next batch while the other works on the last one (one step stale), or give the \
             one that waits more fewer GPUs.{shared}"
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, window, with_memory};

    use super::*;
    use crate::{Settings, recommend};

    /// Works in the first `work` of each 130 s, or after them; a driver reports 1% now and then in between.
    fn role(hours: usize, is_first: bool, gib: f64) -> Gpu {
        let gpu = gpu(PatternKind::Mixed, hours * 3_600, move |second| {
            if (second % 130 < 76) == is_first { 0.95 } else { 0.01 * (second % 2) as f64 }
        });
        with_memory(gpu, gib)
    }

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus)).recommendations
    }

    #[test]
    fn both_roles_get_one_recommendation() {
        let eight = |hours, gib: f64| {
            let role = |index: usize| role(hours, index < 4, gib);
            found((0..8).map(role).collect())
        };
        let full = eight(5, 66.0);
        assert_eq!((full.len(), full[0].lever.as_str(), full[0].gpus.len()), (1, "overlap", 8));
        let text = &full[0].rationale;
        assert!(text.starts_with("4 GPUs wait 41% of the time, and 4 others wait 59%"), "{text}");
        assert!(text.contains("cycles of about 2 min 10 s"), "{text}");
        // The shorter wait ends.
        assert!(full[0].saving.high < 0.4 && full[0].saving.low == 0.0, "{:?}", full[0].saving);
        assert!(!full[0].action.contains("same GPUs"), "{}", full[0].action);
        assert!(eight(5, 30.0)[0].action.contains("their memory fits"));
        // Points that are longer than a cycle.
        let long = eight(20, 66.0);
        assert_eq!((long.len(), long[0].gpus.len()), (1, 8));
        assert!(long[0].rationale.contains("cycles of about 2 min 10 s"), "{}", long[0].rationale);
    }

    #[test]
    fn gpus_that_wait_at_the_same_time_have_one_role() {
        let both = found(vec![role(5, true, 66.0), role(5, true, 66.0)]);
        assert!(both.iter().all(|one| one.code != "gaps.roles"), "{both:?}");
    }
}
