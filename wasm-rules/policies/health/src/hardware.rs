//! Faulty hardware: lost GPUs and those that are listed no more, errors that the driver reported, slow PCIe links, and NVLink that is down.

use phasemeter_diagnoses::{
    SlowLink, confidence, hardware_xids, is_unlinked, memory_errors, nvlink, slow_link,
};
use phasemeter_policy::format::{count, decimal, duration, instant, percent, subject};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Target, Window, evidence, groups};

use crate::cost::{repair, so_far, so_far_and_further};
use crate::risk;

/// Difference of the times up to which GPUs vanished together, and the shortest such time, in
/// seconds. An assumption.
const SAME_TIME: f64 = 60.0;

/// GPUs that are named in a text, at most.
const NAMED: usize = 8;

/// GPUs that no longer respond.
pub(crate) fn lost(window: &Window) -> Option<Recommendation> {
    let seconds = |gpu: &Gpu| {
        let lost = gpu.metric("lost.seconds").filter(|seconds| *seconds > 0.0);
        lost.filter(|_| unlisted_seconds(gpu).is_none())
    };
    let lost: Vec<_> = window.gpus.iter().filter_map(|gpu| Some((gpu, seconds(gpu)?))).collect();
    let (first, seconds) = *lost.first()?;
    let rationale = format!(
        "{}: {} has not responded for {}. A lost GPU costs the same, and does not come back by itself.",
        so_far_and_further(&lost),
        if lost.len() == 1 { "it" } else { "each" },
        duration(seconds),
    );
    let which = if lost.len() == 1 { "this GPU" } else { "these GPUs" };
    let title = ["The driver lost ", which, ", ", &so_far(&lost)].concat();
    let action = repair(
        first,
        "Drain the node, reset the GPU or restart the node, and have it replaced if it is lost again.",
        first.vendor().choose(
            "The kernel log has the XID error.",
            "The kernel log has the error.",
            "The kernel log has the error.",
        ),
    );
    Some(Recommendation {
        evidence: evidence([("lost.time", seconds, "s")]),
        remediation: Some(reset(first)),
        ..risk(
            "health.lost",
            "restart",
            lost.iter().map(|(gpu, _)| *gpu),
            [&title, &action],
            rationale,
            confidence::NEARLY_CERTAIN,
        )
    })
}

/// A reset of the GPU, for automation.
fn reset(gpu: &Gpu) -> Remediation {
    Remediation::new(gpu.vendor().choose("nvidia.gpu-reset", "gpu.reset", "gpu.reset"), [])
        .unless("a process on the GPU or on one that a link connects to it still works")
}

/// GPUs that their source lists no more, each with since when.
pub(crate) fn vanished(window: &Window) -> Vec<Recommendation> {
    let gone: Vec<_> =
        window.gpus.iter().filter_map(|gpu| Some((gpu, unlisted_seconds(gpu)?))).collect();
    let groups = groups(gone, |a, b| (a.1 - b.1).abs() <= SAME_TIME);
    groups.iter().filter_map(|group| find(group, window)).collect()
}

/// Time since the source of a GPU stopped listing it, if that is longer than a delay of a reading.
fn unlisted_seconds(gpu: &Gpu) -> Option<f64> {
    gpu.metric("vanished.seconds").filter(|seconds| *seconds >= SAME_TIME)
}

fn find(gone: &[(&Gpu, f64)], window: &Window) -> Option<Recommendation> {
    let (first, seconds) = *gone.first()?;
    let at = instant(window.end.saturating_sub((seconds * 1e9) as u64));
    let names: Vec<_> = gone.iter().take(NAMED).map(|(gpu, _)| gpu.name()).collect();
    let more = match gone.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => [" and ", &*more.to_string(), " more"].concat(),
    };
    let which = if gone.len() == 1 { "A GPU is" } else { "GPUs are" };
    let title = format!("{which} no longer listed since {at}, {}", so_far(gone));
    let rationale = format!(
        "{}: {}{more} had no readings for {}, while others of the run went on. Either it fell off the bus, and costs \
         the same until the node is restarted, or its instance is gone, and then it costs nothing (--missing=absent).",
        so_far_and_further(gone),
        names.join(", "),
        duration(seconds),
    );
    let [look, list] = first.vendor().choose(
        [
            "Look for the GPU with nvidia-smi -L and for XID 79 in the kernel log; if it is missing, drain the node, \
             restart it, and have the GPU replaced if it vanishes again.",
            "nvidia-smi -L lists the GPUs, and the kernel log has XID 79 if one fell off the bus.",
        ],
        [
            "Look for the GPU with amd-smi list and in the kernel log; if it is missing, drain the node, restart it, \
             and have the GPU replaced if it vanishes again.",
            "amd-smi list lists the GPUs.",
        ],
        [
            "Look for the GPU in the kernel log; if it is missing, drain the node, restart it, and have the GPU \
             replaced if it vanishes again.",
            "The kernel log shows it.",
        ],
    );
    let action = repair(first, look, list);
    Some(Recommendation {
        evidence: evidence([
            ("vanished.time", seconds, "s"),
            ("vanished.gpus", gone.len() as f64, "{GPU}"),
        ]),
        ..risk(
            "health.vanished",
            "restart",
            gone.iter().map(|(gpu, _)| *gpu),
            [&title, &action],
            rationale,
            confidence::VERY_LIKELY,
        )
    })
}

/// GPUs that reported hardware errors, those with the same errors together.
pub(crate) fn faulty(window: &Window) -> Vec<Recommendation> {
    let is_faulty =
        |gpu: &&Gpu| hardware_xids(gpu).next().is_some() || memory_errors(gpu).is_some();
    let alike = |a: &&Gpu, b: &&Gpu| {
        hardware_xids(a).eq(hardware_xids(b)) && memory_errors(a) == memory_errors(b)
    };
    let groups = groups(window.gpus.iter().filter(is_faulty), alike);
    groups.iter().filter_map(|group| replace(group)).collect()
}

fn replace(group: &[&Gpu]) -> Option<Recommendation> {
    let first = group.first()?;
    let mut reported: Vec<_> =
        hardware_xids(first).map(|(code, _)| ["XID ", &code.to_string()].concat()).collect();
    let memory = memory_errors(first);
    if let Some(errors) = memory {
        let noun = if errors <= 1.0 {
            " uncorrectable memory error"
        } else {
            " uncorrectable memory errors"
        };
        reported.insert(0, [&*decimal(errors, 0), noun].concat());
    }
    let which = if group.len() == 1 { "This GPU" } else { "Each GPU" };
    let title = [which, " reported ", reported.first()?].concat();
    let xids: u32 = hardware_xids(first).map(|(_, count)| count).sum();
    let pauses = &first.activity.pauses;
    // A process that ended left the GPU free; one that waits holds it.
    let free = pauses.quiet.seconds - pauses.quiet.held_seconds;
    let crashes = if free > 0.5 * pauses.quiet.seconds {
        let times = count(pauses.count as usize, "pause");
        format!(", and was free for {} in {times}, probably after crashes", duration(free))
    } else {
        String::new()
    };
    let rationale = format!(
        "It reported {}{crashes}. A GPU that does so mostly does so again, and then ends the job.",
        reported.join(", "),
    );
    let mut action = repair(
        first,
        first.vendor().choose(
            "Save the state of the job, drain the node, reset the GPU, and run dcgmi diag -r 3.",
            "Save the state of the job, drain the node, reset the GPU, and run the ROCm Validation Suite.",
            "Save the state of the job, drain the node, reset the GPU, and test it.",
        ),
        "Have it replaced if errors return.",
    );
    let has_crashed = !crashes.is_empty();
    if has_crashed {
        action += " Requeue jobs automatically (sbatch --requeue, restartPolicy: OnFailure), so that none waits \
                   for a person.";
    }
    Some(Recommendation {
        target: if has_crashed { Target::Idle } else { Target::Throughput },
        evidence: evidence([
            ("memory.errors", memory.unwrap_or(0.0), "{error}"),
            ("xids", f64::from(xids), "{error}"),
        ]),
        remediation: Some(reset(first)),
        ..risk(
            "health.errors",
            "restart",
            group.iter().copied(),
            [&title, &action],
            rationale,
            confidence::VERY_LIKELY,
        )
    })
}

/// GPUs whose PCIe links have too few lanes, or are of a lower generation than those of others.
pub(crate) fn slow_links(window: &Window) -> Vec<Recommendation> {
    let slow = window.gpus.iter().filter_map(|gpu| Some((slow_link(gpu, window)?, gpu)));
    let groups = groups(slow, |a, b| a.0 == b.0 && a.1.is_bouncing() == b.1.is_bouncing());
    groups.iter().filter_map(|group| mend(group)).collect()
}

fn mend(group: &[(SlowLink, &Gpu)]) -> Option<Recommendation> {
    let (link, first) = group.first()?;
    let action = repair(
        first,
        "Reseat the card, replace its riser or cable, and restart the node.",
        first.vendor().choose(
            "nvidia-smi -q -d PCIE shows lanes and generation.",
            "amd-smi metric --pcie shows lanes and generation.",
            "lspci -vv shows lanes and speed.",
        ),
    );
    let which = if group.len() == 1 { "this GPU" } else { "each GPU" };
    let (has, most, of, speed) = match *link {
        SlowLink::Lanes(has, most) => (
            has,
            most,
            format!("has {} of {} lanes", decimal(has, 0), decimal(most, 0)),
            has / most,
        ),
        SlowLink::Generation(has, most) => {
            let of =
                format!("is of generation {}, others of {}", decimal(has, 0), decimal(most, 0));
            (has, most, of, (has - most).exp2())
        }
    };
    let title = format!("The PCIe link of {which} {of}");
    let rationale = format!(
        "The link {of}, so data crosses it at {} of the speed, and in one job all GPUs wait for that.",
        percent(speed),
    );
    Some(Recommendation {
        // What it waits for.
        target: if first.is_bouncing() { Target::Starvation } else { Target::Underload },
        evidence: evidence([("link", has, "1"), ("link.most", most, "1")]),
        ..risk(
            "health.pcie",
            "other",
            group.iter().map(|(_, gpu)| *gpu),
            [&title, &action],
            rationale,
            confidence::VERY_LIKELY,
        )
    })
}

/// GPUs without traffic over NVLink, most of whose job has it.
pub(crate) fn unlinked(window: &Window) -> Option<Recommendation> {
    let gpus: Vec<_> = window.gpus.iter().filter(|gpu| is_unlinked(gpu, window)).collect();
    let action = repair(
        gpus.first()?,
        "Restart the fabric manager, and have the node replaced if links stay down.",
        "nvidia-smi nvlink --status and the kernel log show them.",
    );
    let others = window.gpus.iter().filter_map(nvlink).fold(0.0, f64::max);
    let rationale = format!(
        "{} has no traffic over NVLink, and others like it use up to {} of it. In one job its exchange takes a \
         slower path, and all GPUs wait for it; a job of its own may need none.",
        subject(gpus.len()),
        percent(others),
    );
    let title = ["NVLink carries nothing for ", &count(gpus.len(), "GPU")].concat();
    Some(Recommendation {
        evidence: evidence([("nvlink.use.others", others, "1")]),
        ..risk(
            "health.nvlink",
            "other",
            gpus.iter().copied(),
            [&title, &action],
            rationale,
            confidence::VERY_LIKELY,
        )
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Pauses, Quiet, Xid};

    use super::*;

    fn with_xid(code: u64) -> Gpu {
        let mut gpu = steady(3_600, 0.9);
        gpu.sensors.xids = vec![Xid { code, count: 2 }];
        gpu
    }

    #[test]
    fn gpu_that_is_listed_no_more_has_since_when_and_its_cost() {
        let gone = |seconds: f64| Gpu {
            metrics: vec![("vanished.seconds".to_owned(), seconds)],
            ..steady(36_000, 0.9)
        };
        let found = vanished(&window(vec![steady(36_000, 0.9), gone(18_000.0), gone(7_200.0)]));
        assert_eq!((found.len(), &*found[0].gpus[0]), (2, "GPU-1"));
        let one = &found[0];
        assert!(one.title.contains("since 2026-07-27 05:00 UTC, $18.00 so far"), "{}", one.title);
        assert!(one.rationale.contains("GPU-1 had no readings for 5 h"), "{}", one.rationale);
        assert!(vanished(&window(vec![steady(60, 0.9)])).is_empty());
    }

    #[test]
    fn xids_of_hardware_are_risks_and_those_of_applications_are_not() {
        let found = faulty(&window(vec![with_xid(79), with_xid(13)]));
        assert_eq!(
            (found.len(), &*found[0].code, &*found[0].gpus[0]),
            (1, "health.errors", "GPU-0")
        );
        assert!(found[0].rationale.contains("XID 79"), "{}", found[0].rationale);
        assert!(faulty(&window(vec![with_xid(13)])).is_empty(), "an exception of a kernel");
    }

    #[test]
    fn free_time_after_crashes_is_named() {
        let mut gpu = with_xid(48);
        let pauses = |held_seconds| Pauses {
            count: 2,
            quiet: Quiet { seconds: 7_200.0, held_seconds },
            shortest_seconds: 3_000.0,
            longest_seconds: 4_200.0,
        };
        gpu.activity.pauses = pauses(0.0);
        let one = &faulty(&window(vec![gpu.clone()]))[0];
        assert!(one.rationale.contains("free for 2 h in 2 pauses"), "{}", one.rationale);
        assert!(one.action.contains("Requeue"), "{}", one.action);
        assert_eq!(one.target, Target::Idle);
        gpu.activity.pauses = pauses(7_200.0);
        let one = &faulty(&window(vec![gpu]))[0];
        assert!(!one.rationale.contains("crashes"), "its process waited: {}", one.rationale);
    }
}
