//! What is written about instances without work.

use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Remediation, Saving, Target, Window, Workload,
    evidence, mean,
};

use phasemeter_diagnoses::{Allocation, confidence};

use crate::action::Action;
use crate::idle::When;
use crate::{Finding, Settings, idle_saving};

/// Shortest time for which it is worth writing that a process held GPUs, in seconds. An assumption.
const MIN_HELD_SECONDS: f64 = 600.0;

/// The recommendation for instances with the same action.
pub(crate) fn recommendation(
    group: &[Finding<'_>],
    settings: &Settings,
    window: &Window,
) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().flat_map(|it| it.unit.gpus.iter().copied());
    let idle = mean(group, |it| it.idle.seconds());
    let time = [duration(idle), duration(mean(group, |it| it.idle.length))].join(" of ");
    let draft = Recommendation {
        rationale: why(group, window),
        saving: Saving::combined(group.iter().flat_map(|it| idle_saving(it.unit, it.saved))),
        confidence: mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("idle.time", idle, "s"),
            ("idle.longest", mean(group, |it| it.idle.longest()), "s"),
            ("idle.share_of_time", mean(group, |it| it.idle.share()), "1"),
        ]),
        kind: match first.unit.is_returnable() {
            true => RecommendationKind::Saving,
            false => RecommendationKind::Capacity,
        },
        ..Recommendation::new("lifecycle.release", Target::Idle, "autoscale", gpus())
    };
    Some(complete(draft, first, &time, group.len(), settings, window))
}

/// For how long they had no work, when, and what held them.
fn why(group: &[Finding<'_>], window: &Window) -> String {
    let Some(first) = group.first() else { return String::new() };
    let subject = match group.iter().filter(|it| it.unit.is_whole).count() {
        0 => subject(group.iter().map(|it| it.unit.gpus.len()).sum()).to_owned(),
        1 => "The instance".to_owned(),
        instances => format!("Each of {}", count(instances, "instance")),
    };
    let [seconds, length] = [mean(group, |it| it.idle.seconds()), mean(group, |it| it.idle.length)];
    let held = mean(group, |it| f64::min(it.idle.held_seconds, it.idle.seconds()));
    let memory = group.iter().flat_map(|it| &it.unit.gpus).filter_map(|gpu| last(&gpu.memory));
    let since = match memory.reduce(f64::max) {
        Some(memory) if first.idle.is_held => [" with ", &gib(memory), " held"].concat(),
        _ => String::new(),
    };
    let when = match (first.when, &first.schedule) {
        (_, Some(schedule)) => format!(
            ", and none {} on any of {} days",
            schedule.text(window),
            decimal(schedule.days, 0),
        ),
        (When::Always, _) => String::new(),
        (When::Before, _) => ", before its first work".to_owned(),
        (When::After, _) => [", since its last work", &since].concat(),
        (When::Around, _) => ", before its first work and after its last".to_owned(),
        (When::Between, _) => format!(
            ", in {} of up to {}",
            count(first.idle.periods.len(), "period"),
            duration(mean(group, |it| it.idle.longest())),
        ),
    };
    if let Some(schedule) = first.schedule.as_ref().filter(|it| !it.is_quiet(&first.idle)) {
        return format!(
            "{subject} was below {} {} on each of {} days ({} of the time), and never without work.",
            percent(window.thresholds().idle),
            schedule.text(window),
            decimal(schedule.days, 0),
            percent(schedule.share),
        );
    }
    let held = if held >= MIN_HELD_SECONDS {
        format!(". A process held it for {} of that", duration(held))
    } else {
        String::new()
    };
    let paid = match first.unit {
        unit if unit.is_committed => {
            " The hours are paid for, used or not, so this frees capacity and saves no money."
        }
        unit if !unit.is_whole => {
            " Other GPUs of the instance work then, so this frees capacity and saves no money by itself."
        }
        _ => "",
    };
    format!(
        "{subject} had no work for {} of {} ({}){when}{held}.{paid}",
        duration(seconds),
        duration(length),
        percent(mean(group, |it| it.idle.share())),
    )
}

/// Writes what to do. `time` is that without work, of all.
fn complete(
    draft: Recommendation,
    first: &Finding<'_>,
    time: &str,
    instances: usize,
    settings: &Settings,
    window: &Window,
) -> Recommendation {
    let after = settings.release_after_seconds;
    let session = first.idle.ends_after(first.workload, settings);
    let likely = draft.confidence;
    let free = Recommendation {
        title: ["Return the instance when it has no work: ", time].concat(),
        confidence: confidence::CERTAIN * likely,
        remediation: Some(after_idle("instance.release", after)),
        ..draft
    };
    match first.action {
        Action::Release if first.when == When::Before => Recommendation {
            title: ["Start the instance with its work: none for ", time].concat(),
            action: "Prepare data and code elsewhere, and start the instance with the first step.".to_owned(),
            confidence: confidence::LIKELY * likely,
            ..free
        },
        Action::Release if first.when == When::Always => Recommendation {
            title: "Return this instance: it never worked".to_owned(),
            action: "Return it, and start an instance with the next work.".to_owned(),
            ..free
        },
        Action::Release => {
            let with = match first.workload {
                Workload::Interactive => "its session",
                Workload::Serving => "the first request",
                _ => "its job",
            };
            Recommendation {
                action: format!(
                    "Start the instance with {with}, and return it {} after its last work.",
                    duration(after)
                ),
                ..free
            }
        }
        Action::Schedule => {
            let hours = first.hours(window);
            let is_quiet = first.schedule.as_ref().is_some_and(|it| it.is_quiet(&first.idle));
            let (title, doubt, sure) = match is_quiet {
                true => (["Stop it by a schedule: no work for ", time].concat(), "", confidence::VERY_LIKELY),
                false => (
                    "Stop it by a schedule: hardly any work".to_owned(),
                    " It drew a little in these hours, so ask whether somebody uses it.",
                    confidence::DOUBTFUL,
                ),
            };
            Recommendation {
                code: "lifecycle.schedule".to_owned(),
                lever: "schedule".to_owned(),
                title,
                action: format!(
                    "Stop it {hours}, by a schedule. Start it in time for the next use.{doubt}"
                ),
                confidence: sure * likely,
                effort: Effort::Medium,
                remediation: first.schedule.as_ref().map(|it| it.remediation(window)),
                ..free
            }
        }
        Action::EndSession | Action::EndHeld => Recommendation {
            title: match &first.allocation {
                Some(_) => ["End the allocation with its work: none for ", time].concat(),
                None => ["End what holds these GPUs: no work for ", time].concat(),
            },
            code: match first.action {
                Action::EndHeld => "lifecycle.end-held",
                _ => "lifecycle.end-session",
            }
            .to_owned(),
            lever: "release_memory".to_owned(),
            action: if let Some(of) = &first.allocation {
                release(of, session)
            } else {
                let then = match first.action {
                    Action::EndHeld => "let other jobs use the GPUs",
                    _ => "return the instance",
                };
                format!(
                    "Resume it, or end it and {then}; later, end sessions after {} without work. First save what \
                     it holds.",
                    duration(session),
                )
            },
            confidence: likely * if first.action == Action::EndHeld { confidence::PROBABLE } else { confidence::VERY_LIKELY },
            reversible: false,
            remediation: Some(after_idle("process.end", session)),
            ..free
        },
        Action::Replica => Recommendation {
            code: "lifecycle.replica".to_owned(),
            lever: "replicas".to_owned(),
            title: "Remove this replica".to_owned(),
            action: "Serve with one replica less and return its instance, unless it is a standby that is worth \
                     its price."
                .to_owned(),
            confidence: likely
                * if first.idle.is_held || !first.idle.is_known { confidence::VERY_LIKELY } else { confidence::CERTAIN },
            ..free
        },
        Action::ScaleToZero => Recommendation {
            code: "lifecycle.scale-to-zero".to_owned(),
            title: ["Scale to zero without requests: no work for ", time].concat(),
            action: match first.when {
                When::After => "If another version took over, stop this one and return its instance. Otherwise \
                                scale to zero while no requests come, if users accept to wait for its start.",
                _ => "Stop the server and return its instance while no requests come, if users accept to wait \
                      for its start.",
            }
            .to_owned(),
            confidence: confidence::VERY_LIKELY * likely,
            effort: Effort::Medium,
            remediation: Some(Remediation::new(
                "k8s.autoscale",
                [("min_replicas", "0".to_owned()), ("max_replicas", instances.to_string())],
            )
            .unless("users do not wait for the start of a server")),
            ..free
        },
        Action::Prepare => Recommendation {
            code: "lifecycle.prepare".to_owned(),
            lever: "storage".to_owned(),
            title: "Prepare the job before it takes GPUs".to_owned(),
            action: "Stage data and images, and compile, before the GPUs are rented, or keep them on storage \
                     beside them."
                .to_owned(),
            confidence: confidence::LIKELY * likely,
            effort: Effort::Medium,
            remediation: None,
            ..free
        },
        Action::Fill => Recommendation {
            code: "lifecycle.fill".to_owned(),
            lever: "bin_pack".to_owned(),
            title: match &first.schedule {
                Some(schedule) if !schedule.is_quiet(&first.idle) => {
                    "Give hours with hardly any work to other jobs".to_owned()
                }
                _ => ["Give unused hours to other jobs: ", time].concat(),
            },
            action: match &first.allocation {
                Some(of) if of.is_job() => release(of, session),
                _ => fill(first, window),
            },
            confidence: confidence::PROBABLE * likely,
            remediation: None,
            ..free
        },
    }
}

/// How other jobs use the hours; a server that holds memory leaves none for them.
fn fill(first: &Finding<'_>, window: &Window) -> String {
    let is_service = first.workload == Workload::Serving;
    let hours = match first.hours(window) {
        hours if hours.is_empty() => hours,
        hours => [" ", &hours].concat(),
    };
    match first.idle.is_held {
        true if is_service => format!(
            "Scale the service down{hours}, and let a queue place other jobs on its GPUs then. Start it in time for \
             the next requests."
        ),
        true => format!(
            "Let a queue place other jobs on them{hours}, in the memory that is free beside what is held, if their \
             user agrees."
        ),
        false => format!("Let a queue place other jobs on them{hours}."),
    }
}

/// How the holder of an allocation ends it after its last work.
fn release(allocation: &Allocation, idle: f64) -> String {
    format!(
        "Of {}: {}, {} after its last work. A scheduler places nothing else on GPUs that it has allocated. First \
         save what the process holds.",
        allocation.name,
        allocation.release(),
        duration(idle)
    )
}

/// An action for automation after this time without work.
pub(crate) fn after_idle(kind: &str, seconds: f64) -> Remediation {
    Remediation::new(kind, [("idle_seconds", decimal(seconds, 0).replace(',', ""))]).unless(
        "somebody comes back to state that is only in memory, or capacity may be short later",
    )
}

/// The last observed value of a column.
fn last(column: &[f64]) -> Option<f64> {
    column.iter().rev().copied().find(|value| !value.is_nan())
}
