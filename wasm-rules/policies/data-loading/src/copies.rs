//! GPUs that wait for copies, too short to see as pauses: from pageable memory, or over a busy PCIe link.
//!
//! The CPU copies pageable memory into a pinned buffer first. That takes time which traffic shows, and which
//! a copy from pinned memory spends beside the kernels.

use phasemeter_diagnoses::{BUSY_LINK, SIMILAR, confidence, nvlink, pcie, pcie_traffic, saved};
use phasemeter_policy::format::{decimal, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, Saving, Target, Window, evidence, groups, mean,
};

use crate::input::ENDED;

/// Bytes per second of a copy from pageable memory: half of the 12 GB/s that NVIDIA's guide to best practices
/// gives for pinned memory on sixteen lanes of PCIe 3. The CPU limits it, whatever the link. An assumption.
const PAGEABLE: f64 = 6e9;

/// Share of the time that copies must take to matter. An assumption.
const MIN_COPYING: f64 = 0.15;

/// Share of the time above which copies cannot be from pageable memory. An assumption.
const MAX_COPYING: f64 = 1.2;

/// Recommends pinned memory, or less traffic.
pub(crate) fn recommend(observed: &[&Gpu], window: &Window) -> Vec<Recommendation> {
    let of = |found: &dyn Fn(&Gpu) -> Option<f64>| {
        let findings = observed.iter().filter_map(|gpu| Some((*gpu, found(gpu)?)));
        groups(findings, |a, b| a.0.is_alike(b.0) && (a.1 - b.1).abs() <= SIMILAR)
    };
    let pinned = of(&|gpu| copying(gpu, window)).into_iter().filter_map(|group| pin(&group));
    let busy = of(&|gpu| busy_link(gpu, window)).into_iter().filter_map(|group| keep(&group));
    pinned.chain(busy).collect()
}

/// Use of the PCIe link of a job below capacity, if it is busier than anything else that was measured.
fn busy_link(gpu: &Gpu, window: &Window) -> Option<f64> {
    let sensors = &gpu.sensors;
    let busiest =
        [sensors.sm_activity, sensors.tensor_activity, sensors.dram_activity, nvlink(gpu)];
    let busiest = busiest.into_iter().flatten().fold(BUSY_LINK, f64::max);
    let waits =
        gpu.workload.is_job() && gpu.accounts.busy().level() < window.thresholds().productive;
    pcie(gpu).filter(|link| waits && *link >= busiest)
}

fn keep(group: &[(&Gpu, f64)]) -> Option<Recommendation> {
    let (first, link) = group.first()?;
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let level = first.accounts.busy().level();
    let target = if first.is_bouncing() { Target::Starvation } else { Target::Underload };
    let lost = |gpu: &Gpu| gpu.lost_underload() + gpu.lost_starvation();
    Some(Recommendation {
        title: "Move less over PCIe".to_owned(),
        action: "Keep on the GPU what is fetched again and again, fetch the rest a step ahead, in a smaller format, or \
                 with pinned buffers, and let kernels run meanwhile. A GPU with more memory keeps more of it."
            .to_owned(),
        rationale: format!(
            "{} works at {}, and its PCIe link is {} in use, more than anything else that was measured: copies from and \
             to the host, or an exchange between GPUs, most likely set the pace.",
            subject(group.len()),
            percent(level),
            percent(*link),
        ),
        saving: Saving::combined(gpus().map(|gpu| (gpu, Saving::part(lost(gpu), saved::QUARTER)))),
        confidence: confidence::PROBABLE * mean(gpus(), Gpu::confidence),
        evidence: evidence([("pcie.activity", *link, "1"), ("busy.utilization", level, "1")]),
        effort: Effort::Medium,
        ..Recommendation::new("data-loading.link", target, "overlap", gpus())
    })
}

/// The share of the time that copies would take from pageable memory, if that is what it waits for.
fn copying(gpu: &Gpu, window: &Window) -> Option<f64> {
    let is_productive = gpu.accounts.busy().level() >= window.thresholds().productive;
    if !gpu.is_steady() || !gpu.workload.is_job() || is_productive {
        return None;
    }
    // Ranks without NVLink exchange over PCIe.
    let exchanges = window.gpus.iter().any(|other| other.id != gpu.id && other.is_alike(gpu));
    let has_nvlink =
        nvlink(gpu).is_some() || gpu.attribute("phasemeter.gpu.nvlink.peers").is_some();
    let copying = pcie_traffic(gpu).filter(|_| !exchanges || has_nvlink)? / PAGEABLE;
    (MIN_COPYING..=MAX_COPYING).contains(&copying).then_some(copying)
}

fn pin(group: &[(&Gpu, f64)]) -> Option<Recommendation> {
    let (first, copying) = group.first()?;
    let traffic = pcie_traffic(first)?;
    let level = first.accounts.busy().level();
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let of = |(gpu, copying): &(&Gpu, f64)| f64::min(*copying, 1.0).min(gpu.lost_underload());
    let savings = group.iter().map(|it| (it.0, Saving::part(of(it), ENDED)));
    Some(Recommendation {
        title: "Copy batches from pinned memory".to_owned(),
        action: "Set pin_memory=True in the data loader and copy with non_blocking=True, one batch ahead. A \
                 profile of ten steps shows whether copies and kernels then overlap."
            .to_owned(),
        rationale: format!(
            "{} is a steady {} busy while {} GB/s cross its PCIe link. From pageable memory that takes about {} of the \
             time; from pinned memory it happens beside the kernels.",
            subject(group.len()),
            percent(level),
            decimal(traffic / 1e9, 1),
            percent(copying.min(1.0)),
        ),
        saving: Saving::combined(savings),
        confidence: confidence::DOUBTFUL * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("pcie.traffic", traffic, "By/s"),
            ("copying.share_of_time", *copying, "1"),
            ("busy.utilization", level, "1"),
        ]),
        ..Recommendation::new("data-loading.pin", Target::Underload, "pin_memory", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Workload;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn gpu(level: f64, traffic: f64) -> Gpu {
        let metrics = vec![("pcie.bytes_per_second".to_owned(), traffic)];
        Gpu { metrics, ..steady(3_600, level) }
    }

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let window = window(gpus);
        let observed: Vec<_> = window.gpus.iter().collect();
        recommend(&observed, &window)
    }

    #[test]
    fn copies_that_explain_the_load_are_pinned() {
        let one = &found(vec![gpu(0.56, 2.5e9)])[0];
        assert_eq!(one.lever, "pin_memory");
        // 42% of the time in copies, of which 40% are expected to be hidden.
        assert!((one.saving.expected - 0.167).abs() < 0.01 && one.saving.low == 0.0, "{one:?}");
        assert!(found(vec![gpu(0.56, 0.5e9)]).is_empty(), "too little");
        assert!(found(vec![gpu(0.56, 12e9)]).is_empty(), "faster than from pageable memory");
        assert!(found(vec![gpu(0.9, 2.5e9)]).is_empty(), "it hardly waits");
        assert!(found(vec![steady(3_600, 0.5)]).is_empty(), "not measured");
    }

    #[test]
    fn traffic_between_ranks_is_no_input() {
        assert!(found(vec![gpu(0.5, 2.5e9); 2]).is_empty());
        let mut rank = gpu(0.5, 2.5e9);
        rank.metrics.insert(0, ("nvlink.activity".to_owned(), 0.2));
        assert_eq!(found(vec![rank; 2])[0].gpus.len(), 2);
        let service = Gpu { workload: Workload::Serving, ..gpu(0.5, 2.5e9) };
        assert!(found(vec![service]).is_empty());
    }

    #[test]
    fn link_that_is_busier_than_the_gpu_sets_the_pace() {
        let with = |level: f64, link: f64, sms: f64| {
            let mut gpu = steady(3_600, level);
            gpu.metrics.push(("pcie.activity".to_owned(), link));
            gpu.sensors.sm_activity = Some(sms);
            found(vec![gpu; 2]).into_iter().map(|it| it.code).collect::<Vec<_>>()
        };
        assert_eq!(with(0.4, 0.6, 0.2), ["data-loading.link"]);
        assert!(with(0.4, 0.6, 0.7).is_empty(), "SMs are busier");
        assert!(with(0.4, 0.4, 0.2).is_empty(), "the link is not busy");
        assert!(with(0.9, 0.6, 0.2).is_empty(), "it hardly waits");
    }
}
