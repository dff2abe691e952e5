//! Jobs that hang. Must not depend on other risks.

use phasemeter_policy::format::{decimal, duration};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Window, Workload, evidence, groups};
use phasemeter_specs::{hung_seconds, is_lost};

use crate::cost::{so_far, so_far_and_further};
use crate::{SURE_DEAD, Settings, risk};

/// Time without work until the end, relative to that of the hang, from which a GPU of the job stopped then.
const STOPPED: f64 = 0.9;

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let hung = window.gpus.iter().filter_map(|gpu| {
        let since = hung_seconds(gpu, window)?;
        (since >= settings.hang_seconds).then_some((gpu, since))
    });
    let groups = groups(hung, |a, b| a.0.workload == b.0.workload);
    groups.iter().filter_map(|group| warn(group, window)).collect()
}

fn warn(hung: &[(&Gpu, f64)], window: &Window) -> Option<Recommendation> {
    let (first, since) = *hung.first()?;
    let watts = *first.power.iter().rev().find(|power| !power.is_nan())?;
    let limit = first.power_limit_watts?;
    let texts = Texts::of(first.workload);
    let stopped = window.gpus.iter().find(|gpu| {
        let after = gpu.activity.after_work.seconds;
        let has_stopped = after >= STOPPED * since || is_lost(gpu);
        gpu.is_alike(first) && gpu.node() == first.node() && has_stopped
    });
    let rank = match stopped.filter(|_| texts.has_ranks) {
        Some(gpu) if is_lost(gpu) => {
            " The driver lost a GPU of the job: its rank is gone.".to_owned()
        }
        Some(gpu) => [" ", &gpu.name(), " has had no work since then: its rank is gone."].concat(),
        None if texts.has_ranks && hung.len() > 1 => {
            " This is typical of a collective that waits for a rank that is gone.".to_owned()
        }
        None => String::new(),
    };
    let rationale = format!(
        "{}: {} was at 100% with a flat {} of {} W for {}, so most likely a kernel runs that computes \
         nothing.{rank}",
        so_far_and_further(hung),
        if hung.len() == 1 { "it" } else { "each" },
        decimal(watts, 0),
        decimal(limit, 0),
        duration(since),
    );
    let title = [texts.what, " hangs, ", &so_far(hung), ": ", texts.remedy, " it"].concat();
    Some(Recommendation {
        evidence: evidence([
            ("hung.time", since, "s"),
            ("power", watts, "W"),
            ("power.share_of_limit", watts / limit, "1"),
        ]),
        remediation: Some(restart(window)),
        ..risk(
            "health.hang",
            "restart",
            hung.iter().map(|(gpu, _)| *gpu),
            [&title, texts.action],
            rationale,
            SURE_DEAD,
        )
    })
}

/// Texts for a kind of workload.
struct Texts {
    /// What hangs, and what to do with it.
    what: &'static str,
    remedy: &'static str,
    action: &'static str,
    /// Whether its GPUs may wait for one another.
    has_ranks: bool,
}

impl Texts {
    const fn of(workload: Workload) -> Self {
        let (what, remedy, action) = match workload {
            Workload::Training => (
                "The job",
                "restart",
                "Dump the stacks of all ranks first, for example with py-spy dump, to find the one that \
                 stopped. Then restart from the last saved state. A watchdog (NCCL's timeout) would end \
                 the job after minutes.",
            ),
            Workload::Serving => (
                "The server",
                "restart",
                "Dump the stacks of the server first, for example with py-spy dump, then restart it. A \
                 liveness probe that sends a request with little work would do so after a minute.",
            ),
            Workload::Interactive => (
                "The session",
                "interrupt",
                "Interrupt the cell or the command that runs; restart the process if that has no effect.",
            ),
            Workload::Batch | Workload::Unknown => (
                "The work",
                "restart",
                "Dump the stacks of its processes first, for example with py-spy dump, to find where they \
                 stopped. Then restart it. A time limit would end it by itself.",
            ),
        };
        let has_ranks = !matches!(workload, Workload::Serving | Workload::Interactive);
        Self { what, remedy, action, has_ranks }
    }
}

/// Restarts the job, by Slurm if it is one of its jobs.
fn restart(window: &Window) -> Remediation {
    match window.attribute("slurm.job.id") {
        Some(id) => Remediation::new("slurm.requeue", [("job_id", id.to_owned())]),
        None => Remediation::new("job.restart", []),
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_power};
    use phasemeter_policy::{Quiet, RecommendationKind};

    use super::*;

    fn hung(count: usize) -> Vec<Gpu> {
        vec![with_power(steady(3_600, 1.0), 125.0); count]
    }

    fn found(gpus: Vec<Gpu>) -> Option<Recommendation> {
        let mut found = recommend(&Settings::default(), &window(gpus));
        assert!(found.len() <= 1);
        found.pop()
    }

    #[test]
    fn hang_of_a_job_is_one_risk() {
        let one = found(hung(2)).unwrap();
        assert_eq!((one.code.as_str(), one.gpus.len()), ("health.hang", 2));
        assert_eq!((one.kind, one.saving.high), (RecommendationKind::Risk, 0.0));
        assert_eq!(one.title, "The job hangs, $7.18 so far: restart it");
        assert!(found(hung(1)).is_none());
        let short = vec![with_power(steady(400, 1.0), 125.0); 2];
        assert!(found(short).is_none());
    }

    #[test]
    fn rank_that_is_gone_is_named() {
        let mut gpus = hung(2);
        let mut gone = with_power(steady(3_600, 0.0), 70.0);
        gone.activity.after_work = Quiet { seconds: 3_600.0, held_seconds: 0.0 };
        gpus.push(gone);
        let one = found(gpus).unwrap();
        assert!(one.rationale.contains("GPU-2 has had no work"), "{}", one.rationale);
        let mut gpus = hung(2);
        let metrics = vec![("lost.seconds".to_owned(), 3_600.0)];
        gpus.push(Gpu { metrics, ..steady(60, 0.9) });
        let one = found(gpus).unwrap();
        assert!(one.rationale.contains("The driver lost a GPU of the job"), "{}", one.rationale);
    }

    #[test]
    fn server_hangs_in_its_own_words() {
        let mut gpu = hung(1).remove(0);
        gpu.power[..300].fill(620.0);
        let one = found(vec![Gpu { workload: Workload::Serving, ..gpu }]).unwrap();
        let texts = [&*one.title, &one.action, &one.rationale].concat();
        for word in ["rank", "NCCL", "collective", "saved state"] {
            assert!(!texts.contains(word), "{texts}");
        }
        assert!(one.rationale.starts_with('$'), "{}", one.rationale);
    }

    #[test]
    fn job_of_slurm_is_requeued() {
        let remediation = |attributes| {
            let window = Window { attributes, ..window(hung(2)) };
            recommend(&Settings::default(), &window)[0].remediation.clone().unwrap()
        };
        let job = remediation(vec![("slurm.job.id".to_owned(), "4711".to_owned())]);
        assert_eq!(job.kind, "slurm.requeue");
        assert_eq!(job.parameters, [("job_id".to_owned(), "4711".to_owned())]);
        assert_eq!(remediation(Vec::new()).kind, "job.restart");
    }
}
