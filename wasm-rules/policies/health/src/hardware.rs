//! Faulty hardware: GPUs that are lost or listed no more, errors that the driver reported, slow PCIe links, and NVLink
//! that is down.

use phasemeter_diagnoses::{
    SlowLink, confidence, hardware_xids, is_unlinked, memory_errors, nvlink, share, slow_link, time,
};
use phasemeter_policy::format::{count, decimal, duration, instant, list, percent, subject, these};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Target, Window, evidence, groups};

use crate::cost::{repair, so_far, so_far_and_further};
use crate::risk;

/// GPUs that no longer respond, or that their source lists no more, each with since when.
pub(crate) fn gone(window: &Window) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter_map(|gpu| {
        // A shorter time is a delay of a reading.
        let unlisted = gpu.metric("vanished.seconds").filter(|seconds| *seconds >= time::BRIEF);
        // What was away for as long before, and came back, is there on demand.
        let away = |seconds: f64| gpu.metric("unrecorded.seconds").unwrap_or(0.0) - seconds;
        if unlisted.is_some_and(|seconds| away(seconds) >= seconds) {
            return None;
        }
        let lost = || gpu.metric("lost.seconds").filter(|seconds| *seconds > 0.0);
        Some((gpu, unlisted.or_else(lost)?, unlisted.is_some()))
    });
    let is_same = |a: &Gone<'_>, b: &Gone<'_>| a.2 == b.2 && (a.1 - b.1).abs() <= time::BRIEF;
    groups(found, is_same).iter().map(|group| find(group, window)).collect()
}

/// A GPU, since how many seconds it is gone, and whether its source lists it no more.
type Gone<'a> = (&'a Gpu, f64, bool);

fn find(group: &[Gone<'_>], window: &Window) -> Recommendation {
    let (first, seconds, is_unlisted) = group[0];
    let gone: Vec<_> = group.iter().map(|(gpu, seconds, _)| (*gpu, *seconds)).collect();
    let names: Vec<_> = gone.iter().map(|(gpu, _)| gpu.name()).collect();
    let at = instant(window.end.saturating_sub((seconds * 1e9) as u64));
    let (code, title, why, time, sure) = if is_unlisted {
        (
            "health.vanished",
            "No longer listed since ",
            "What read it stopped, such as an exporter; or it fell off the bus, and costs the same until the node is \
             restarted; or its instance is gone, and then it costs nothing (--missing=absent)",
            "vanished.time",
            confidence::VERY_LIKELY,
        )
    } else {
        (
            "health.lost",
            "Lost by the driver since ",
            "A lost GPU costs the same, and does not come back by itself",
            "lost.time",
            confidence::NEARLY_CERTAIN,
        )
    };
    let listed = first.vendor().choose(
        "If nvidia-smi -L on its node lists it, restart what reads it, such as the exporter. Else: ",
        "If amd-smi list on its node lists it, restart what reads it, such as the exporter. Else: ",
        "If its node lists it, restart what reads it, such as the exporter. Else: ",
    );
    let action = repair(
        first,
        "Drain the node, reset the GPU or restart the node, and have it replaced if it is lost again.",
        first.vendor().choose(
            "The kernel log has XID 79 if one fell off the bus.",
            "The kernel log has the error.",
            "The kernel log has the error.",
        ),
    );
    let action = [if is_unlisted { listed } else { "" }, &action].concat();
    Recommendation {
        evidence: evidence([(time, seconds, "s"), ("gpus", gone.len() as f64, "{GPU}")]),
        remediation: (!is_unlisted).then(|| reset(first)),
        ..risk(
            code,
            if is_unlisted { "other" } else { "restart" },
            gone.iter().map(|(gpu, _)| *gpu),
            [&[title, &*at, ", ", &so_far(&gone)].concat(), &action],
            format!(
                "{}: {} had no readings for {}, while others of the run went on. {why}.",
                so_far_and_further(&gone),
                list(&names),
                duration(seconds),
            ),
            sure,
        )
    }
}

/// A reset of the GPU, for automation.
fn reset(gpu: &Gpu) -> Remediation {
    Remediation::new(gpu.vendor().choose("nvidia.gpu-reset", "gpu.reset", "gpu.reset"), [])
        .unless("a process on the GPU or on one that a link connects to it still works")
}

/// GPUs that reported hardware errors, those with the same errors together.
pub(crate) fn faulty(window: &Window) -> Vec<Recommendation> {
    let is_faulty =
        |gpu: &&Gpu| hardware_xids(gpu).next().is_some() || memory_errors(gpu).is_some();
    let alike = |a: &&Gpu, b: &&Gpu| {
        hardware_xids(a).eq(hardware_xids(b)) && memory_errors(a) == memory_errors(b)
    };
    let groups = groups(window.gpus.iter().filter(is_faulty), alike);
    groups.iter().map(|group| replace(group)).collect()
}

fn replace(group: &[&Gpu]) -> Recommendation {
    let first = group[0];
    let memory = memory_errors(first);
    let errors = memory.map(|errors| count(errors as usize, "uncorrectable memory error"));
    let xids = hardware_xids(first).map(|(code, _)| ["XID ", &code.to_string()].concat());
    let reported: Vec<_> = errors.into_iter().chain(xids).collect();
    let title = [subject(group.len()), " reported ", &reported[0]].concat();
    let xids: u32 = hardware_xids(first).map(|(_, count)| count).sum();
    let pauses = &first.activity.pauses;
    // A process that ended left the GPU free; one that waits holds it.
    let free = pauses.quiet.seconds - pauses.quiet.held_seconds;
    let has_crashed = free > share::MOST * pauses.quiet.seconds;
    let (crashes, requeue) = if has_crashed {
        let times = count(pauses.count as usize, "pause");
        (
            format!(", and was free for {} in {times}, probably after crashes", duration(free)),
            " Requeue jobs automatically (sbatch --requeue, restartPolicy: OnFailure), so that none waits for a person.",
        )
    } else {
        (String::new(), "")
    };
    let test =
        first.vendor().choose("run dcgmi diag -r 3.", "run the ROCm Validation Suite.", "test it.");
    let own = ["Save the state of the job, drain the node, reset the GPU, and ", test].concat();
    Recommendation {
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
            [&title, &(repair(first, &own, "Have it replaced if errors return.") + requeue)],
            format!(
                "It reported {}{crashes}. A GPU that does so mostly does so again, and then ends the job.",
                reported.join(", "),
            ),
            confidence::VERY_LIKELY,
        )
    }
}

/// GPUs whose PCIe links have too few lanes, or are of a lower generation than those of others.
pub(crate) fn slow_links(window: &Window) -> Vec<Recommendation> {
    let slow = window.gpus.iter().filter_map(|gpu| Some((slow_link(gpu, window)?, gpu)));
    let groups = groups(slow, |a, b| a.0 == b.0 && a.1.is_bouncing() == b.1.is_bouncing());
    groups.iter().map(|group| mend(group)).collect()
}

fn mend(group: &[(SlowLink, &Gpu)]) -> Recommendation {
    let (link, first) = &group[0];
    let action = repair(
        first,
        "Reseat the card, replace its riser or cable, and restart the node.",
        first.vendor().choose(
            "nvidia-smi -q -d PCIE shows lanes and generation.",
            "amd-smi metric --pcie shows lanes and generation.",
            "lspci -vv shows lanes and speed.",
        ),
    );
    let (SlowLink::Lanes(has, most) | SlowLink::Generation(has, most)) = *link;
    let [own, others] = [has, most].map(|number| decimal(number, 0));
    let (of, speed) = match link {
        SlowLink::Lanes(..) => (format!("has {own} of {others} lanes"), has / most),
        SlowLink::Generation(..) => {
            (format!("is of generation {own}, others of {others}"), (has - most).exp2())
        }
    };
    Recommendation {
        // What it waits for.
        target: if first.is_bouncing() { Target::Starvation } else { Target::Underload },
        evidence: evidence([("link", has, "1"), ("link.most", most, "1")]),
        ..risk(
            "health.pcie",
            "other",
            group.iter().map(|(_, gpu)| *gpu),
            [&format!("The PCIe link of {} {of}", these(group.len())), &action],
            format!(
                "The link {of}, so data crosses it at {} of the speed, and in one job all GPUs wait for that.",
                percent(speed),
            ),
            confidence::VERY_LIKELY,
        )
    }
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
        let unlisted = |seconds: f64| Gpu {
            metrics: vec![("vanished.seconds".to_owned(), seconds)],
            ..steady(36_000, 0.9)
        };
        let found = gone(&window(vec![steady(36_000, 0.9), unlisted(18_000.0), unlisted(7_200.0)]));
        assert_eq!((found.len(), &*found[0].gpus[0]), (2, "GPU-1"));
        let one = &found[0];
        assert!(one.title.contains("since 2026-07-27 05:00 UTC, $18.00 so far"), "{}", one.title);
        assert!(one.rationale.contains("GPU-1 had no readings for 5 h"), "{}", one.rationale);
        assert!(gone(&window(vec![steady(60, 0.9)])).is_empty());
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
            ..steady(60, 0.9).activity.pauses
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
