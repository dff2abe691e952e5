//! What is written about instances without work.

use phasemeter_policy::column::observed;
use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Remediation, Saving, Target, Window, Workload,
    evidence, mean,
};

use phasemeter_diagnoses::{Allocation, confidence, names_holders, time};

use crate::action::Action;
use crate::idle::When;
use crate::{Finding, Settings, idle_saving};

/// Days from which the hours of a schedule are usual, so that a controller may stop by the clock. An assumption.
const USUAL_DAYS: f64 = 5.0;

/// The recommendation for instances with the same action.
pub(crate) fn recommendation(
    group: &[Finding<'_>],
    settings: &Settings,
    window: &Window,
) -> Recommendation {
    let first = &group[0];
    let gpus = || group.iter().flat_map(|it| it.unit.gpus.iter().copied());
    let idle = mean(group, |it| it.idle.seconds());
    let time = [duration(idle), duration(mean(group, |it| it.idle.length))].join(" of ");
    let words = words(first, &time, group.len(), settings, window);
    let is_slow = matches!(
        first.action,
        Action::Schedule | Action::ScaleToZero | Action::Prepare | Action::Gang
    );
    Recommendation {
        title: words.title,
        action: if is_never_used(first) { unless_on_cpu(&words.action) } else { words.action },
        rationale: why(group, window),
        saving: Saving::combined(group.iter().flat_map(|it| idle_saving(it.unit, it.saved))),
        confidence: words.sure * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("idle.time", idle, "s"),
            ("idle.longest", mean(group, |it| it.idle.longest()), "s"),
            ("idle.share_of_time", mean(group, |it| it.idle.share()), "1"),
            ("idle.ends_after", first.idle.ends_after(first.workload, settings), "s"),
        ]),
        kind: match first.unit.is_returnable() && first.action != Action::Gang {
            true => RecommendationKind::Saving,
            false => RecommendationKind::Capacity,
        },
        effort: if is_slow { Effort::Medium } else { Effort::Low },
        reversible: !matches!(first.action, Action::EndSession | Action::EndHeld),
        remediation: words.remediation,
        ..Recommendation::new(words.code, Target::Idle, words.lever, gpus())
    }
}

/// Whether a job is known, and no process ever held its GPUs.
fn is_never_used(finding: &Finding<'_>) -> bool {
    let never = finding.when == When::Always && finding.idle.held_seconds <= 0.0;
    never && finding.idle.is_known && finding.workload.is_job()
}

/// The same action, unless the job was meant to use them.
fn unless_on_cpu(action: &str) -> String {
    let unless = "Unless a job that was meant to use it runs on the CPU (see its device, build and access), ";
    let (first, rest) = action.split_at_checked(1).unwrap_or_default();
    [unless, &first.to_lowercase(), rest].concat()
}

/// For how long they had no work, when, and what held them.
fn why(group: &[Finding<'_>], window: &Window) -> String {
    let first = &group[0];
    let subject = match group.iter().filter(|it| it.unit.is_whole).count() {
        0 => subject(group.iter().map(|it| it.unit.gpus.len()).sum()).to_owned(),
        1 => "The instance".to_owned(),
        instances => format!("Each of {}", count(instances, "instance")),
    };
    let [seconds, length] = [mean(group, |it| it.idle.seconds()), mean(group, |it| it.idle.length)];
    let held = mean(group, |it| f64::min(it.idle.held_seconds, it.idle.seconds()));
    let memory =
        group.iter().flat_map(|it| &it.unit.gpus).filter_map(|gpu| observed(&gpu.memory).last());
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
    let held = if held >= time::LASTING {
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

/// What differs between actions.
struct Words {
    code: &'static str,
    lever: &'static str,
    title: String,
    action: String,
    sure: f64,
    remediation: Option<Remediation>,
}

/// What to do. `time` is that without work, of all.
fn words(
    first: &Finding<'_>,
    time: &str,
    instances: usize,
    settings: &Settings,
    window: &Window,
) -> Words {
    let after = settings.release_after_seconds;
    let session = first.idle.ends_after(first.workload, settings);
    let is_quiet = first.schedule.as_ref().is_none_or(|it| it.is_quiet(&first.idle));
    let release_later = || automated(window, after_idle("instance.release", after));
    match first.action {
        Action::Release if first.when == When::Before => Words {
            code: "lifecycle.release",
            lever: "autoscale",
            title: ["Start the instance with its work: none for ", time].concat(),
            action: "Prepare data and code elsewhere, and start the instance with the first step.".to_owned(),
            sure: confidence::LIKELY,
            remediation: release_later(),
        },
        Action::Release => Words {
            code: "lifecycle.release",
            lever: "autoscale",
            title: ["Return the instance when it has no work: ", time].concat(),
            action: format!(
                "If its CPUs have no work either{}, return it {} after the last, and start one with the next.",
                match first.idle.held_seconds >= time::LASTING {
                    true => ", and what its GPUs hold is saved",
                    false => "",
                },
                duration(after)
            ),
            sure: confidence::CERTAIN,
            remediation: release_later(),
        },
        Action::Schedule => {
            let (why, doubt, sure) = match is_quiet {
                true => (["no work for ", time].concat(), "", confidence::VERY_LIKELY),
                false => (
                    "hardly any work".to_owned(),
                    " It drew a little in these hours, so ask whether somebody uses it.",
                    confidence::DOUBTFUL,
                ),
            };
            let hours = first.hours(window);
            // Of few days, a clock may end work that takes longer on another.
            let usual = first.schedule.as_ref().filter(|it| it.days >= USUAL_DAYS);
            let few = match usual {
                Some(_) => "",
                None => " These are few days: if its work ends at other times on others, end it when it is idle.",
            };
            Words {
                code: "lifecycle.schedule",
                lever: "schedule",
                title: ["Stop it by a schedule: ", &why].concat(),
                action: format!("Stop it {hours}, by a schedule. Start it in time for the next use.{few}{doubt}"),
                sure,
                remediation: usual.and_then(|it| automated(window, it.remediation(window))),
            }
        }
        Action::EndSession | Action::EndHeld => {
            let (code, then, sure) = match first.action {
                Action::EndHeld => {
                    ("lifecycle.end-held", "let other jobs use the GPUs", confidence::PROBABLE)
                }
                // It may be a service without requests.
                _ if first.workload == Workload::Unknown => {
                    ("lifecycle.end-session", "return the instance", confidence::EVEN)
                }
                _ => ("lifecycle.end-session", "return the instance", confidence::VERY_LIKELY),
            };
            let (what, action) = match &first.allocation {
                Some(of) => ("End the allocation with its work: none for ", release(of, session)),
                None => (
                    "Find out what holds these GPUs, and end it: no work for ",
                    format!(
                        "Ask its owner, and read its log: it may serve, work on the CPU, or wait. Else resume it, or save what it holds, \
                         end it and {then}; later, end what is idle after {}.",
                        duration(session),
                    ),
                ),
            };
            Words {
                code,
                lever: "release_memory",
                title: [what, time].concat(),
                action,
                sure,
                // What holds a GPU may work on the CPU, or be somebody's state: nothing here shows that it is neither.
                remediation: (!first.idle.is_held).then(|| after_idle("process.end", session)),
            }
        }
        Action::Replica => Words {
            code: "lifecycle.replica",
            lever: "replicas",
            title: "Remove this replica".to_owned(),
            action: "Serve with one replica less and return its instance, unless it is a standby that is worth its \
                     price."
                .to_owned(),
            sure: match first.idle.is_held || !first.idle.is_known {
                true => confidence::VERY_LIKELY,
                false => confidence::CERTAIN,
            },
            remediation: release_later(),
        },
        Action::ScaleToZero => Words {
            code: "lifecycle.scale-to-zero",
            lever: "autoscale",
            title: ["Scale to zero without requests: no work for ", time].concat(),
            action: "Stop the server and return its instance while no requests come, if users accept to wait for its \
                     start; for good, if another version took over."
                .to_owned(),
            sure: confidence::VERY_LIKELY,
            remediation: Some(Remediation::new(
                "k8s.autoscale",
                [("min_replicas", "0".to_owned()), ("max_replicas", instances.to_string())],
            )
            .unless("users do not wait for the start of a server")),
        },
        Action::Prepare => Words {
            code: "lifecycle.prepare",
            lever: "storage",
            title: "Prepare the job before it takes GPUs".to_owned(),
            action: "If it loaded or compiled, do that before the GPUs are rented, or keep data and images on storage beside \
                     them; if it waited for GPUs of others, start such jobs only when all of theirs are free."
                .to_owned(),
            sure: confidence::LIKELY,
            remediation: None,
        },
        Action::Gang => Words {
            code: "lifecycle.gang",
            lever: "bin_pack",
            title: "Start the job when all of its GPUs are free".to_owned(),
            action: "Let the scheduler start such jobs whole or not at all (gang scheduling), and give these GPUs to other \
                     jobs until then."
                .to_owned(),
            sure: confidence::PROBABLE,
            remediation: None,
        },
        Action::Fill => Words {
            code: "lifecycle.fill",
            lever: "bin_pack",
            title: match is_quiet {
                true => ["Give unused hours to other jobs: ", time].concat(),
                false => "Give hours with hardly any work to other jobs".to_owned(),
            },
            action: match &first.allocation {
                Some(of) if of.is_job() => release(of, session),
                _ => fill(first, window),
            },
            sure: confidence::PROBABLE,
            remediation: None,
        },
    }
}

/// How other jobs use the hours; a server that holds memory leaves none for them.
fn fill(first: &Finding<'_>, window: &Window) -> String {
    let hours = match first.hours(window) {
        hours if hours.is_empty() => hours,
        hours => [" ", &hours].concat(),
    };
    match (first.idle.is_held, first.workload) {
        (true, Workload::Serving) => format!(
            "Scale the service down{hours}, and let a queue place other jobs on its GPUs then. Start it in time for \
             the next requests."
        ),
        (is_held, _) => {
            let beside = if is_held {
                ", in the memory that is free beside what is held, if their user agrees"
            } else {
                ""
            };
            format!("Let a queue place other jobs on them{hours}{beside}.")
        }
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

/// An action for automation that stops an instance, if a source shows that nothing has it.
pub(crate) fn automated(window: &Window, action: Remediation) -> Option<Remediation> {
    names_holders(window).then_some(action)
}

/// An action for automation after this time without work.
pub(crate) fn after_idle(kind: &str, seconds: f64) -> Remediation {
    Remediation::new(kind, [("idle_seconds", decimal(seconds, 0).replace(',', ""))]).unless(
        "it works on the CPU meanwhile, somebody comes back to state that is only in memory, or capacity may be short later",
    )
}
