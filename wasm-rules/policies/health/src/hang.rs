//! Jobs that hang. What waits as it did before, or while others of its job work, is a need: a restart would end work.

use phasemeter_diagnoses::{Stall, is_lost, stall};
use phasemeter_policy::format::{decimal, duration};
use phasemeter_policy::{
    Gpu, Need, Recommendation, Remediation, Response, Window, Workload, evidence, groups,
};

use crate::cost::{so_far, so_far_and_further};
use crate::{SURE_DEAD, Settings, risk};

/// Time without work until the end, relative to that of the hang, from which a GPU of the job stopped then.
const STOPPED: f64 = 0.9;

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Response {
    let stalled = window.gpus.iter().filter_map(|gpu| {
        let stall = stall(gpu, window)?;
        (stall.seconds >= settings.hang_seconds).then_some((gpu, stall))
    });
    let (waiting, hung): (Vec<_>, Vec<_>) = stalled.partition(|(_, stall)| stall.may_wait());
    let groups = groups(hung, |a: &(&Gpu, Stall), b| a.0.workload == b.0.workload);
    let need = Need::if_any(
        "work",
        "full at a flat low power, as in earlier plateaus that ended by themselves, or while others of the job \
         work: the steps that it does (--work, or a work log) tell a job that waits from one that hangs",
        waiting.iter().map(|(gpu, _)| *gpu),
    );
    Response {
        recommendations: groups.iter().filter_map(|group| warn(group, window)).collect(),
        needs: need.into_iter().collect(),
    }
}

fn warn(stalled: &[(&Gpu, Stall)], window: &Window) -> Option<Recommendation> {
    let hung: Vec<_> = stalled.iter().map(|(gpu, stall)| (*gpu, stall.seconds)).collect();
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
        Some(gpu) => {
            let after = gpu.activity.after_work;
            let rank = if after.held_seconds >= STOPPED * after.seconds {
                " has had no work since then, and its process holds memory: look at that rank first."
            } else {
                " has had no work since then: its rank is gone."
            };
            [" ", &gpu.name(), rank].concat()
        }
        None if texts.has_ranks && hung.len() > 1 => {
            " This is typical of a collective that waits for a rank that is gone.".to_owned()
        }
        None => String::new(),
    };
    let rationale = format!(
        "{}: {} was at 100% with a flat {} of {} W for {}, so most likely a kernel runs that computes \
         nothing.{rank}",
        so_far_and_further(&hung),
        if hung.len() == 1 { "it" } else { "each" },
        decimal(watts, 0),
        decimal(limit, 0),
        duration(since),
    );
    let title = [texts.what, " hangs, ", &so_far(&hung), ": ", texts.remedy, " it"].concat();
    Some(Recommendation {
        evidence: evidence([
            ("hung.time", since, "s"),
            ("power", watts, "W"),
            ("power.share_of_limit", watts / limit, "1"),
        ]),
        // Shorter plateaus ended by themselves: a person decides.
        remediation: stalled
            .iter()
            .all(|(_, stall)| stall.before.is_none())
            .then(|| restart(window)),
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
        assert!(found.recommendations.len() <= 1 && found.needs.is_empty());
        found.recommendations.pop()
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
        gpus.push(Gpu { metrics, utilization: Vec::new(), ..steady(60, 0.9) });
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
            recommend(&Settings::default(), &window).recommendations[0].remediation.clone().unwrap()
        };
        let job = remediation(vec![("slurm.job.id".to_owned(), "4711".to_owned())]);
        assert_eq!(job.kind, "slurm.requeue");
        assert_eq!(job.parameters, [("job_id".to_owned(), "4711".to_owned())]);
        assert_eq!(remediation(Vec::new()).kind, "job.restart");
    }

    /// Points of 32 s: works at 620 W, and stalls at 125 W in these points.
    fn stalled_in(points: &[(usize, usize)]) -> Gpu {
        let mut gpu = with_power(steady(18_000, 1.0), 620.0);
        for (from, to) in points {
            gpu.power[*from..*to].fill(125.0);
        }
        gpu
    }

    #[test]
    fn wait_is_a_need_and_no_restart() {
        let before = stalled_in(&[(100, 140), (300, 335), (520, 563)]);
        let beside = vec![stalled_in(&[(300, 563)]), stalled_in(&[])];
        for gpus in [vec![before], beside] {
            let found = recommend(&Settings::default(), &window(gpus));
            assert!(found.recommendations.is_empty());
            assert_eq!((&*found.needs[0].missing, found.needs[0].gpus.len()), ("work", 1));
            assert!(found.needs[0].reason.len() <= 300, "{}", found.needs[0].reason.len());
        }
    }

    #[test]
    fn hang_after_shorter_waits_is_not_automated() {
        let one = found(vec![stalled_in(&[(100, 140), (200, 563)])]).unwrap();
        assert!(one.code == "health.hang" && one.remediation.is_none());
        assert!(found(vec![stalled_in(&[(200, 563)])]).unwrap().remediation.is_some());
    }
}
