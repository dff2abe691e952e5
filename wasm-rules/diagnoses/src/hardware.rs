//! Defects of the hardware that the driver reports: errors, and PCIe links that are slower than they could be.

use phasemeter_policy::{Gpu, Window};

use crate::nvlink;

/// Lanes of a PCIe link, relative to the most that GPU and slot are capable of, from which it is narrow if a
/// GPU like it has more: links lose half of them or more.
const NARROW: f64 = 0.5;

/// The same if there is none: many boards and cloud instances connect GPUs by eight of sixteen lanes.
const NARROW_ALONE: f64 = 0.25;

/// XID codes of faulty hardware (NVIDIA's XID catalog): memory errors, the bus, NVLink, the GPU's own
/// processor. Others are mostly of applications.
const HARDWARE_XIDS: [u64; 11] = [48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120];

/// XID codes of programs (the same): an exception of a kernel, a page fault, and a channel that was stopped.
const PROGRAM_XIDS: [u64; 3] = [13, 31, 43];

/// Use of NVLink that counts as none, at most. An assumption.
const NO_TRAFFIC: f64 = 0.002;

/// Use of NVLink that counts as traffic, at least. An assumption.
const TRAFFIC: f64 = 0.02;

/// Whether the driver lost it, or its source lists it no more.
pub fn is_lost(gpu: &Gpu) -> bool {
    gpu.metric("lost.seconds").is_some_and(|seconds| seconds > 0.0)
}

/// The uncorrectable memory errors of a GPU, if any.
pub fn memory_errors(gpu: &Gpu) -> Option<f64> {
    gpu.metric("memory.errors").filter(|count| *count > 0.0)
}

/// The hardware errors of a GPU: codes and counts.
pub fn hardware_xids(gpu: &Gpu) -> impl Iterator<Item = (u64, u32)> {
    xids(gpu, &HARDWARE_XIDS)
}

/// The errors of programs on a GPU: codes and counts.
pub fn program_xids(gpu: &Gpu) -> impl Iterator<Item = (u64, u32)> {
    xids(gpu, &PROGRAM_XIDS)
}

fn xids<'a>(gpu: &'a Gpu, codes: &'static [u64]) -> impl Iterator<Item = (u64, u32)> + 'a {
    let xids = gpu.sensors.xids.iter().map(|xid| (xid.code, xid.count));
    xids.filter(|(code, _)| codes.contains(code))
}

/// A PCIe link that is at most half as fast as it could be, by what the link has, and what it could have.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlowLink {
    /// Lanes, and the most that GPU and slot are capable of.
    Lanes(f64, f64),
    /// The generation, each twice as fast as the one before, and the highest of GPUs like it.
    Generation(f64, f64),
}

/// Why a GPU's PCIe link is slow, if it is. The link of a GPU that has not worked may be so to save power.
pub fn slow_link(gpu: &Gpu, window: &Window) -> Option<SlowLink> {
    if gpu.accounts.busy().seconds <= 0.0 {
        return None;
    }
    let best = |name: &str| {
        let alike = window.gpus.iter().filter(|other| other.metric(name).is_some());
        let alike = alike.filter(|other| other.is_alike(gpu));
        alike.filter_map(|other| other.metric(name)).fold(0.0, f64::max)
    };
    let lanes = || {
        let (most, lanes) = (gpu.metric("pcie.link.max_width")?, gpu.metric("pcie.link.width")?);
        let narrow = if best("pcie.link.width") > lanes { NARROW } else { NARROW_ALONE };
        (lanes <= narrow * most).then_some(SlowLink::Lanes(lanes, most))
    };
    let generation = || {
        let (own, best) = (gpu.metric("pcie.link.generation")?, best("pcie.link.generation"));
        (own < best).then_some(SlowLink::Generation(own, best))
    };
    lanes().or_else(generation)
}

/// Whether a GPU that works has no traffic over NVLink, and most of the GPUs of its node that do the same have.
pub fn is_unlinked(gpu: &Gpu, window: &Window) -> bool {
    let is_silent = nvlink(gpu).is_some_and(|share| share <= NO_TRAFFIC);
    is_silent && gpu.accounts.busy().seconds > 0.0 && {
        let is_linked = |gpu: &Gpu| nvlink(gpu).is_some_and(|share| share >= TRAFFIC);
        let job = || {
            let alike = window.gpus.iter().filter(|other| other.is_alike(gpu));
            alike.filter(|other| other.node() == gpu.node())
        };
        2 * job().filter(|other| is_linked(other)).count() > job().count()
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    #[test]
    fn links_are_down_if_most_others_have_traffic() {
        let with = |share: f64| {
            let mut gpu = steady(3_600, 0.99);
            gpu.metrics.push(("nvlink.activity".to_owned(), share));
            gpu
        };
        let unlinked = |shares: [f64; 4]| {
            let window = window(shares.map(with).to_vec());
            window.gpus.iter().filter(|gpu| is_unlinked(gpu, &window)).count()
        };
        assert_eq!(unlinked([0.1, 0.1, 0.1, 0.0]), 1);
        assert_eq!(unlinked([0.1, 0.1, 0.0, 0.0]), 0, "half of them may be another job");
        assert_eq!(unlinked([0.0; 4]), 0);
    }

    #[test]
    fn link_is_narrow_beside_a_wider_one_or_far_below_its_slot() {
        let linked = |lanes: f64, level: f64| {
            let mut gpu = steady(3_600, level);
            let metrics = [("pcie.link.width", lanes), ("pcie.link.max_width", 16.0)];
            gpu.metrics.extend(metrics.map(|(name, value)| (name.to_owned(), value)));
            gpu
        };
        let first = |gpus| {
            let window = window(gpus);
            slow_link(&window.gpus[0], &window)
        };
        let narrow = |lanes| Some(SlowLink::Lanes(lanes, 16.0));
        assert_eq!(first(vec![linked(8.0, 0.9), linked(16.0, 0.9)]), narrow(8.0));
        assert_eq!(first(vec![linked(4.0, 0.9)]), narrow(4.0));
        let old = |generation: f64, level: f64| {
            let mut gpu = linked(16.0, level);
            gpu.metrics.push(("pcie.link.generation".to_owned(), generation));
            gpu
        };
        let slow = Some(SlowLink::Generation(3.0, 5.0));
        assert_eq!(first(vec![old(3.0, 0.9), old(5.0, 0.9)]), slow);
        assert_eq!(first(vec![old(5.0, 0.9), old(3.0, 0.9)]), None);
        assert_eq!(first(vec![old(3.0, 0.9), old(3.0, 0.9)]), None, "the host's");
        assert_eq!(first(vec![old(1.0, 0.0), old(5.0, 0.9)]), None, "it saves power");
        assert_eq!(first(vec![linked(8.0, 0.9), linked(8.0, 0.9)]), None, "by design");
        assert_eq!(first(vec![linked(1.0, 0.0)]), None, "it may save power");
    }
}
