//! Faulty hardware: errors that the driver reported, and PCIe links with too few lanes.
//!
//! Must not depend on the load of a GPU.

use phasemeter_policy::format::decimal;
use phasemeter_policy::{Gpu, Recommendation, evidence};

use crate::risk;

/// XID codes of faulty hardware (NVIDIA's XID catalog): memory errors, the bus, NVLink, the GPU's own
/// processor. Others are mostly of applications.
const HARDWARE_XIDS: [u64; 11] = [48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120];

/// A GPU that reported hardware errors.
pub(crate) fn faulty(gpu: &Gpu) -> Option<Recommendation> {
    let memory = gpu.metric("memory.errors").filter(|count| *count > 0.0);
    let xids = gpu.sensors.xids.iter().filter(|xid| HARDWARE_XIDS.contains(&xid.code));
    let codes: Vec<_> = xids.clone().map(|xid| ["XID ", &xid.code.to_string()].concat()).collect();
    let count: u32 = xids.map(|xid| xid.count).sum();
    let reported = match memory {
        Some(errors) => {
            let errors = [&*decimal(errors, 0), " uncorrectable memory errors"].concat();
            codes.iter().cloned().chain([errors]).collect::<Vec<_>>().join(", ")
        }
        None if codes.is_empty() => return None,
        None => codes.join(", "),
    };
    let rationale = [
        "It reported ",
        &reported,
        ". A GPU that does so once mostly does so again, and ends the job.",
    ];
    Some(Recommendation {
        evidence: evidence([
            ("memory.errors", memory.unwrap_or(0.0), "{error}"),
            ("xids", f64::from(count), "{error}"),
        ]),
        ..risk(
            "health.errors",
            "restart",
            [gpu],
            [
                "Drain this GPU and reset it",
                "Save the state of the job, drain the node, reset the GPU, and run dcgmi diag -r 3. Have it \
                 replaced if errors return.",
            ],
            rationale.concat(),
            0.8,
        )
    })
}

/// A GPU whose PCIe link has fewer lanes than its slot.
pub(crate) fn narrow(gpu: &Gpu) -> Option<Recommendation> {
    let (lanes, most) = (gpu.metric("pcie.link.width")?, gpu.metric("pcie.link.max_width")?);
    if lanes > most / 2.0 {
        return None;
    }
    let rationale = [
        "Its PCIe link runs at ",
        &decimal(lanes, 0),
        " of ",
        &decimal(most, 0),
        " lanes, so data arrives at that fraction of the speed.",
    ];
    Some(Recommendation {
        evidence: evidence([("lanes", lanes, "{lane}"), ("lanes.max", most, "{lane}")]),
        ..risk(
            "health.pcie",
            "other",
            [gpu],
            [
                "Repair the PCIe link of this GPU",
                "Reseat the card, replace its riser or cable, and restart the node. nvidia-smi -q -d PCIE \
                 shows the lanes.",
            ],
            rationale.concat(),
            0.8,
        )
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Recommender, Xid};

    use super::*;
    use crate::{Health, Settings};

    #[test]
    fn errors_of_hardware_and_narrow_links_are_named() {
        let codes = |gpu: Gpu| {
            let found = Health::recommend(&Settings::default(), &window(vec![gpu]));
            found.recommendations.into_iter().map(|one| one.code).collect::<Vec<_>>()
        };
        let with = |metrics: &[(&str, f64)], xids: &[u64]| {
            let mut gpu = steady(3_600, 0.9);
            gpu.metrics =
                metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            gpu.sensors.xids = xids.iter().map(|code| Xid { code: *code, count: 1 }).collect();
            gpu
        };
        assert_eq!(codes(with(&[], &[79])), ["health.errors"]);
        assert!(codes(with(&[], &[13, 31, 43])).is_empty(), "errors of an application");
        assert_eq!(codes(with(&[("memory.errors", 3.0)], &[])), ["health.errors"]);
        assert!(codes(with(&[("memory.errors", 0.0)], &[])).is_empty());
        let link = |lanes| with(&[("pcie.link.max_width", 16.0), ("pcie.link.width", lanes)], &[]);
        assert_eq!(codes(link(1.0)), ["health.pcie"]);
        assert!(codes(link(16.0)).is_empty());
    }
}
