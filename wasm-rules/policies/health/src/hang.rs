//! Jobs that hang. Must not depend on other risks.

use phasemeter_policy::format::{decimal, duration, subject};
use phasemeter_policy::{Recommendation, Remediation, Window, evidence};
use phasemeter_specs::hung_seconds;

use crate::{SURE_DEAD, Settings, risk};

/// Time without work until the end, relative to that of the hang, from which a GPU of the job stopped then.
const STOPPED: f64 = 0.9;

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Option<Recommendation> {
    let hung = window.gpus.iter().filter_map(|gpu| {
        let since = hung_seconds(gpu, window)?;
        (since >= settings.hang_seconds).then_some((gpu, since))
    });
    let hung: Vec<_> = hung.collect();
    let (first, since) = *hung.first()?;
    let watts = *first.power.iter().rev().find(|power| !power.is_nan())?;
    let limit = first.power_limit_watts?;
    let stopped = window.gpus.iter().find(|gpu| {
        let after = gpu.activity.after_work.seconds;
        gpu.is_alike(first) && gpu.node() == first.node() && after >= STOPPED * since
    });
    let rank = stopped.map_or_else(
        || " This is typical of a collective that waits for a rank that is gone.".to_owned(),
        |gpu| [" ", &gpu.name(), " has had no work since then: its rank is gone."].concat(),
    );
    let rationale = format!(
        "{} has been at 100% with a flat {} of {} W for {}: a kernel runs, but computes nothing.{rank}",
        subject(hung.len()),
        decimal(watts, 0),
        decimal(limit, 0),
        duration(since),
    );
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
            [
                "Restart this job: it hangs",
                "Dump the stacks of all ranks first, for example with py-spy dump, to find the one that \
                 stopped. Then restart from the last saved state. A watchdog (NCCL's timeout) would end \
                 the job after minutes.",
            ],
            rationale,
            SURE_DEAD,
        )
    })
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
    use phasemeter_policy::{Gpu, Quiet, RecommendationKind};

    use super::*;

    fn hung(count: usize) -> Vec<Gpu> {
        vec![with_power(steady(3_600, 1.0), 125.0); count]
    }

    fn found(gpus: Vec<Gpu>) -> Option<Recommendation> {
        recommend(&Settings::default(), &window(gpus))
    }

    #[test]
    fn hang_of_a_job_is_one_risk() {
        let one = found(hung(2)).unwrap();
        assert_eq!((one.code.as_str(), one.gpus.len()), ("health.hang", 2));
        assert_eq!((one.kind, one.saving.high), (RecommendationKind::Risk, 0.0));
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
    }

    #[test]
    fn job_of_slurm_is_requeued() {
        let remediation = |attributes| {
            let window = Window { attributes, ..window(hung(2)) };
            recommend(&Settings::default(), &window).unwrap().remediation.unwrap()
        };
        let job = remediation(vec![("slurm.job.id".to_owned(), "4711".to_owned())]);
        assert_eq!(job.kind, "slurm.requeue");
        assert_eq!(job.parameters, [("job_id".to_owned(), "4711".to_owned())]);
        assert_eq!(remediation(Vec::new()).kind, "job.restart");
    }
}
