//! Jobs that hang. What waits as it did before, or while others of its job work, is a need: a restart would end work.
//! Waits that ended are named as such. Automation restarts only what lasts, and what no history explains.

use phasemeter_diagnoses::{
    MATTERS, Stall, Waits, confidence, is_lost, power_limit, share, stall, waits,
};
use phasemeter_policy::format::{count, decimal, duration, percent};
use phasemeter_policy::{
    Effort, Gpu, Need, Recommendation, Remediation, Response, Target, Window, Workload, evidence,
    groups,
};

use crate::cost::{so_far, so_far_and_further};
use crate::{Settings, risk};

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
    let hangs = groups.iter().filter_map(|group| warn(group, settings, window));
    Response::of(hangs.chain(waiting_jobs(window)), need)
}

/// Jobs that wait at full utilization again and again.
fn waiting_jobs(window: &Window) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter(|gpu| has_ranks(gpu.workload));
    let found = found.filter_map(|gpu| {
        let matters = MATTERS * gpu.accounts.observed().seconds;
        Some((gpu, waits(gpu, window).filter(|waits| waits.seconds >= matters)?))
    });
    let groups = groups(found, |a: &(&Gpu, Waits), b| a.0.is_alike(b.0));
    groups.iter().filter_map(|group| name_waits(group)).collect()
}

fn name_waits(group: &[(&Gpu, Waits)]) -> Option<Recommendation> {
    let (first, waits) = group.first()?;
    let lost: Vec<_> = group.iter().map(|(gpu, waits)| (*gpu, waits.seconds)).collect();
    let share = waits.seconds / first.accounts.observed().seconds;
    let limit = power_limit(first)?;
    Some(Recommendation {
        title: ["Find what the job waits for at full utilization, ", &so_far(&lost)].concat(),
        action: "Dump the stacks of all processes in the next wait, for example with py-spy dump. If one rank evaluates \
                 or saves alone, divide that among all, or do it beside the training."
            .to_owned(),
        rationale: format!(
            "{} at 100% with a flat {} of {} W in {} of up to {}, {} of the time, and worked on after each. It \
             neither hung nor worked: a collective waits, most likely for an evaluation or a checkpoint.",
            if group.len() == 1 { "It was" } else { "Each was" },
            decimal(waits.watts, 0),
            decimal(limit, 0),
            count(waits.count, "wait"),
            duration(waits.longest),
            percent(share),
        ),
        confidence: confidence::VERY_LIKELY,
        evidence: evidence([
            ("wait.time", waits.seconds, "s"),
            ("wait.longest", waits.longest, "s"),
            ("wait.power", waits.watts, "W"),
        ]),
        effort: Effort::Medium,
        ..Recommendation::new(
            "health.waits",
            Target::Throughput,
            "measure",
            group.iter().map(|(gpu, _)| *gpu),
        )
    })
}

fn warn(stalled: &[(&Gpu, Stall)], settings: &Settings, window: &Window) -> Option<Recommendation> {
    let hung: Vec<_> = stalled.iter().map(|(gpu, stall)| (*gpu, stall.seconds)).collect();
    let (first, since) = *hung.first()?;
    let watts = *first.power.iter().rev().find(|power| !power.is_nan())?;
    let limit = power_limit(first)?;
    let [what, remedy, guard] = texts(first.workload);
    let has_ranks = has_ranks(first.workload);
    let stopped = window.gpus.iter().find(|gpu| {
        let after = gpu.activity.after_work.seconds;
        let has_stopped = after >= share::NEARLY_ALL * since || is_lost(gpu);
        gpu.is_alike(first) && gpu.node() == first.node() && has_stopped
    });
    let rank = match stopped.filter(|_| has_ranks) {
        Some(gpu) if is_lost(gpu) => {
            " The driver lost a GPU of the job: its rank is gone.".to_owned()
        }
        Some(gpu) => {
            let after = gpu.activity.after_work;
            let rank = if after.held_seconds >= share::NEARLY_ALL * after.seconds {
                " has had no work since then, and its process holds memory: look at that rank first."
            } else {
                " has had no work since then: its rank is gone."
            };
            [" ", &gpu.name(), rank].concat()
        }
        None if has_ranks && hung.len() > 1 => {
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
    let lasts = hung.iter().all(|(_, seconds)| *seconds >= settings.restart_seconds);
    let cost = so_far(&hung);
    let title = if lasts {
        [what, " hangs, ", &cost, ": ", remedy, " it"].concat()
    } else {
        [what, " may hang, ", &cost, ": look at its stacks"].concat()
    };
    let from = match first.workload {
        Workload::Training => " from the last saved state",
        _ => "",
    };
    let action = format!(
        "Dump the stacks of its processes first, for example with py-spy dump, to find the one that stopped. Then \
         {remedy} it{from}. {guard} would do so by itself."
    );
    Some(Recommendation {
        evidence: evidence([
            ("hung.time", since, "s"),
            ("power", watts, "W"),
            ("power.share_of_limit", watts / limit, "1"),
        ]),
        // If shorter plateaus ended by themselves, or work was never seen, a person decides.
        remediation: (lasts
            && stalled.iter().all(|(_, stall)| stall.before.is_none() && stall.has_worked))
        .then(|| restart(window)),
        ..risk(
            "health.hang",
            "restart",
            hung.iter().map(|(gpu, _)| *gpu),
            [&title, &action],
            rationale,
            if lasts { confidence::NEARLY_CERTAIN } else { confidence::PROBABLE },
        )
    })
}

/// Texts for a kind of workload: what hangs, what to do with it, and what would have ended it by itself.
const fn texts(workload: Workload) -> [&'static str; 3] {
    match workload {
        Workload::Training => ["The job", "restart", "A watchdog (NCCL's timeout)"],
        Workload::Serving => {
            ["The server", "restart", "A liveness probe that sends a request with little work"]
        }
        Workload::Interactive => ["The session", "interrupt", "A limit on the time of a cell"],
        Workload::Batch | Workload::Unknown => ["The work", "restart", "A time limit"],
    }
}

/// Whether its GPUs may wait for one another.
const fn has_ranks(workload: Workload) -> bool {
    !matches!(workload, Workload::Serving | Workload::Interactive)
}

/// Restarts the job, by Slurm if it is one of its jobs.
fn restart(window: &Window) -> Remediation {
    let restart = match window.attribute("slurm.job.id") {
        Some(id) => Remediation::new("slurm.requeue", [("job_id", id.to_owned())]),
        None => Remediation::new("job.restart", []),
    };
    restart.unless(
        "it waits for an evaluation, a checkpoint or a rank that is late, or has saved no state",
    )
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_power};
    use phasemeter_policy::{Percentiles, Quiet, RecommendationKind};

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
        assert_eq!(one.title, "The job may hang, $7.18 so far: look at its stacks");
        assert!(found(hung(1)).is_none());
        let short = vec![with_power(steady(400, 1.0), 125.0); 2];
        assert!(found(short).is_none());
        let mut unlimited = hung(2);
        unlimited.iter_mut().for_each(|gpu| gpu.power_limit_watts = None);
        assert!(found(unlimited).unwrap().rationale.contains("of 700 W"), "the model's");
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
            let window = Window { attributes, ..window(vec![stalled_in(&[(200, 563)])]) };
            recommend(&Settings::default(), &window).recommendations[0].remediation.clone().unwrap()
        };
        let job = remediation(vec![("slurm.job.id".to_owned(), "4711".to_owned())]);
        assert_eq!(job.kind, "slurm.requeue");
        assert_eq!(job.parameters[0], ("job_id".to_owned(), "4711".to_owned()));
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
    fn hang_without_history_or_after_shorter_waits_is_not_automated() {
        let one = found(vec![stalled_in(&[(530, 563)])]).unwrap();
        assert!(one.title.starts_with("The job may hang") && one.remediation.is_none());
        assert!(found(hung(2)).unwrap().remediation.is_none(), "work was never seen");
        let one = found(vec![stalled_in(&[(100, 140), (200, 563)])]).unwrap();
        assert!(one.code == "health.hang" && one.remediation.is_none());
        assert!(found(vec![stalled_in(&[(200, 563)])]).unwrap().remediation.is_some());
    }

    #[test]
    fn waits_that_ended_are_named() {
        let with_percentiles = |mut gpu: Gpu, low: f64| {
            let of = |p5| Percentiles { p5, p50: 620.0, p95: 620.0, max: 620.0 };
            gpu.sensors.busy_power = Some(of(low));
            gpu
        };
        let often = || with_percentiles(stalled_in(&[(100, 120), (300, 320)]), 125.0);
        let one = found(vec![often(), often()]).unwrap();
        assert_eq!((&*one.code, one.gpus.len(), one.saving.high), ("health.waits", 2, 0.0));
        assert!(
            one.rationale.contains("in 2 waits of up to 10 min 40 s, 7.1% of the time"),
            "{one:?}"
        );
        assert!(found(vec![with_percentiles(stalled_in(&[(100, 110)]), 620.0)]).is_none(), "once");
        let serving = Gpu { workload: Workload::Serving, ..often() };
        assert!(found(vec![serving]).is_none(), "it waits for requests");
    }
}
