//! Faulty hardware: errors that the driver reported, PCIe links with too few lanes, and NVLink that is down.
//!
//! Must not depend on what a job computes.

use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{Gpu, Recommendation, Remediation, Window, evidence, groups};
use phasemeter_specs::nvlink;

use crate::risk;

/// Use of NVLink that counts as none, at most, and as traffic, at least. Assumptions.
const NO_TRAFFIC: f64 = 0.002;
const TRAFFIC: f64 = 0.02;

/// Confidence in errors that hardware reports itself, and in lanes that are missing. Assumptions.
const SURE: f64 = 0.8;

/// Lanes of a PCIe link, relative to the most that GPU and slot are capable of, from which it is narrow if a
/// GPU like it has more: links lose half of them or more.
const NARROW: f64 = 0.5;

/// The same if there is none: many boards and cloud instances connect GPUs by eight of sixteen lanes.
const NARROW_ALONE: f64 = 0.25;

/// XID codes of faulty hardware (NVIDIA's XID catalog): memory errors, the bus, NVLink, the GPU's own
/// processor. Others are mostly of applications.
const HARDWARE_XIDS: [u64; 11] = [48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120];

/// The uncorrectable memory errors of a GPU, if any.
fn memory_errors(gpu: &Gpu) -> Option<f64> {
    gpu.metric("memory.errors").filter(|count| *count > 0.0)
}

/// The hardware errors of a GPU: codes and counts.
fn hardware_xids(gpu: &Gpu) -> impl Iterator<Item = (u64, u32)> {
    let xids = gpu.sensors.xids.iter().map(|xid| (xid.code, xid.count));
    xids.filter(|(code, _)| HARDWARE_XIDS.contains(code))
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
        reported.push([&*decimal(errors, 0), " uncorrectable memory errors"].concat());
    }
    let count: u32 = hardware_xids(first).map(|(_, count)| count).sum();
    let rationale = [
        "It reported ",
        &reported.join(", "),
        ". A GPU that does so once mostly does so again, and ends the job.",
    ];
    Some(Recommendation {
        evidence: evidence([
            ("memory.errors", memory.unwrap_or(0.0), "{error}"),
            ("xids", f64::from(count), "{error}"),
        ]),
        remediation: Some(Remediation::new("nvidia.gpu-reset", [])),
        ..risk(
            "health.errors",
            "restart",
            group.iter().copied(),
            [
                "Drain this GPU and reset it",
                "Save the state of the job, drain the node, reset the GPU, and run dcgmi diag -r 3. Have it \
                 replaced if errors return.",
            ],
            rationale.concat(),
            SURE,
        )
    })
}

/// The lanes of a GPU's PCIe link, and the most that it is capable of, if it is narrow. The link of a GPU
/// that has not worked may be so to save power.
fn lanes(gpu: &Gpu, window: &Window) -> Option<(f64, f64)> {
    let most = gpu.metric("pcie.link.max_width")?;
    let lanes = gpu.metric("pcie.link.width").filter(|_| gpu.accounts.busy().seconds > 0.0)?;
    let is_wider = |other: &Gpu| other.metric("pcie.link.width").is_some_and(|it| it > lanes);
    let has_wider = window.gpus.iter().any(|other| other.is_alike(gpu) && is_wider(other));
    let narrow = if has_wider { NARROW } else { NARROW_ALONE };
    (lanes <= narrow * most).then_some((lanes, most))
}

/// GPUs whose PCIe links are narrow.
pub(crate) fn narrow(window: &Window) -> Vec<Recommendation> {
    let narrow = window.gpus.iter().filter_map(|gpu| Some((lanes(gpu, window)?, gpu)));
    let groups = groups(narrow, |a, b| a.0 == b.0);
    groups.iter().filter_map(|group| repair(group)).collect()
}

fn repair(group: &[((f64, f64), &Gpu)]) -> Option<Recommendation> {
    let ((lanes, most), _) = group.first()?;
    let rationale = [
        "Its PCIe link runs at ",
        &decimal(*lanes, 0),
        " of ",
        &decimal(*most, 0),
        " lanes, so data arrives at that fraction of the speed.",
    ];
    Some(Recommendation {
        evidence: evidence([("lanes", *lanes, "{lane}"), ("lanes.max", *most, "{lane}")]),
        ..risk(
            "health.pcie",
            "other",
            group.iter().map(|(_, gpu)| *gpu),
            [
                "Repair the PCIe link of this GPU",
                "Reseat the card, replace its riser or cable, and restart the node. nvidia-smi -q -d PCIE \
                 shows the lanes.",
            ],
            rationale.concat(),
            SURE,
        )
    })
}

/// GPUs without traffic over NVLink, most of whose job has it.
pub(crate) fn unlinked(window: &Window) -> Option<Recommendation> {
    let is_linked = |gpu: &Gpu| nvlink(gpu).is_some_and(|share| share >= TRAFFIC);
    let is_unlinked = |gpu: &&Gpu| {
        let works = gpu.accounts.busy().seconds > 0.0;
        works && nvlink(gpu).is_some_and(|share| share <= NO_TRAFFIC) && {
            let job = || {
                let alike = window.gpus.iter().filter(|other| other.is_alike(gpu));
                alike.filter(|other| other.node() == gpu.node())
            };
            2 * job().filter(|other| is_linked(other)).count() > job().count()
        }
    };
    let gpus: Vec<_> = window.gpus.iter().filter(is_unlinked).collect();
    let others = window.gpus.iter().filter(|gpu| is_linked(gpu)).filter_map(nvlink);
    let others = others.fold(0.0, f64::max);
    let rationale = format!(
        "{} has no traffic over NVLink, and others of its job use up to {} of it: the exchange takes a slower \
         path, and all GPUs wait for it.",
        subject(gpus.len()),
        percent(others),
    );
    (!gpus.is_empty()).then(|| Recommendation {
        evidence: evidence([("nvlink.use.others", others, "1")]),
        ..risk(
            "health.nvlink",
            "other",
            gpus.iter().copied(),
            [
                "Repair the NVLink links of these GPUs",
                "Look at nvidia-smi nvlink --status and at the kernel log, restart the fabric manager, and have \
                 the node replaced if links stay down.",
            ],
            rationale,
            SURE,
        )
    })
}
