//! Finds jobs whose GPUs wait for one another.
//!
//! A collective that waits is a kernel that runs: utilization is full, and power is low. What tells it
//! from arithmetic is how many SMs work, and how full the links are. Without these columns it returns
//! needs.

use phasemeter_diagnoses::{
    LOW_POWER, confidence, does_usual_work, has_defect, has_failed_counters, has_full_bandwidth,
    has_nvlink, is_full, is_unlinked, kind_of_speedup, nvlink, pcie, power_share, saved,
};
use phasemeter_policy::format::percent;
use phasemeter_policy::{
    Effort, Gpu, Need, Recommendation, Response, Saving, Target, Window, Workload, evidence,
    groups, mean, same_model,
};

phasemeter_policy::settings! {
    /// Share of the link capacity from which links are busy.
    busy_link: number = 0.5 in 0.0..=1.0;
    /// SM activity up to which most SMs wait.
    waiting_sms: number = 0.6 in 0.0..=1.0;
    /// Tensor activity of training up to which active SMs do not compute: kernels that exchange are active.
    idle_tensor: number = 0.1 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 900.0 in 0.0..=86400.0;
}

/// SM activity of a job that does not wait: efficient training reaches this.
const ACTIVE_SMS: f64 = 0.85;

/// Tensor activity of training that does not wait: efficient training in 16 bits reaches this.
const ACTIVE_TENSOR: f64 = 0.4;

/// A GPU that waits for others.
struct Waiting<'a> {
    gpu: &'a Gpu,
    /// Use of its links, and which.
    link: (f64, &'static str),
    /// SM activity.
    sms: f64,
    /// Share of the time with work in which it waits, at most.
    waits: f64,
    /// Whether most SMs wait; else only the tensor cores do.
    has_idle_sms: bool,
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let observed = window.observed_gpus(settings.min_seconds);
    let together = observed.into_iter().filter(|gpu| {
        // Ranks of one job are alike; a GPU alone exchanges nothing.
        let other = |other: &&Gpu| other.id != gpu.id && other.is_alike(gpu);
        window.gpus.iter().any(|gpu| other(&gpu)) && !has_failed_counters(gpu)
    });
    let ranks: Vec<_> = together.collect();
    // Broken links come first: `health` reports them.
    let linked = ranks.iter().filter(|gpu| !is_unlinked(gpu, window));
    let waiting = linked.filter_map(|gpu| waiting(gpu, settings));
    let groups = groups(waiting, |a, b| {
        a.gpu.workload == b.gpu.workload
            && a.link.1 == b.link.1
            && a.has_idle_sms == b.has_idle_sms
            && same_model(&a.gpu.model, &b.gpu.model)
    });
    Response::of(groups.iter().filter_map(|group| write(group)), needs(&ranks, settings, window))
}

fn waiting<'a>(gpu: &'a Gpu, settings: &Settings) -> Option<Waiting<'a>> {
    let sms = gpu.sensors.sm_activity.filter(|_| is_full(gpu))?;
    let link = busy_link(gpu, settings)?;
    let has_idle_sms = sms <= settings.waiting_sms;
    let waits = if has_idle_sms {
        1.0 - sms / ACTIVE_SMS
    } else {
        let tensor = idle_tensor(gpu, settings)?;
        (1.0 - tensor / ACTIVE_TENSOR).min(link.0)
    };
    Some(Waiting { gpu, link, sms, waits: waits.clamp(0.0, 1.0), has_idle_sms })
}

/// The use of its busiest link, and which, if it is busy.
fn busy_link(gpu: &Gpu, settings: &Settings) -> Option<(f64, &'static str)> {
    let links = [(nvlink(gpu), "NVLink"), (pcie(gpu), "PCIe")];
    let links = links.into_iter().filter_map(|(share, name)| Some((share?, name)));
    let busy = links.filter(|(share, _)| *share >= settings.busy_link);
    busy.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The tensor activity of a GPU that trains, if its tensor cores do little.
fn idle_tensor(gpu: &Gpu, settings: &Settings) -> Option<f64> {
    let tensor = gpu.sensors.tensor_activity.filter(|_| gpu.workload == Workload::Training);
    tensor.filter(|tensor| *tensor <= settings.idle_tensor)
}

impl Waiting<'_> {
    /// Whether NVLink is known to connect it to another GPU of the group.
    fn has_peer(&self, group: &[Self]) -> bool {
        let peers = self.gpu.attribute("phasemeter.gpu.nvlink.peers").unwrap_or_default();
        let is_peer = |other: &Self| peers.split(' ').any(|peer| peer == other.gpu.id);
        group.iter().any(is_peer)
    }
}

fn write(group: &[Waiting<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|waiting| waiting.gpu);
    let (link, sms) = (mean(group, |waiting| waiting.link.0), mean(group, |waiting| waiting.sms));
    let tensor = gpus().filter_map(|gpu| gpu.sensors.tensor_activity).reduce(f64::max);
    let name = first.link.1;
    let mut rationale = format!(
        "{name} is at {} of its capacity, with {} of the SMs active: {} {}exchanges data with the others most of the \
         time, and waits.",
        percent(link),
        percent(sms),
        if group.len() == 1 { "it" } else { "each GPU" },
        if first.has_idle_sms { "" } else { "probably " },
    );
    let mut values = evidence([("link.use", link, "1"), ("sm.activity", sms, "1")]);
    if let Some(tensor) = tensor {
        rationale += &[" Tensor cores are ", &percent(tensor), " active."].concat();
        values.extend(evidence([("tensor.activity", tensor, "1")]));
    }
    let has_peer = group.iter().any(|waiting| waiting.has_peer(group));
    let (title, action) = texts(first.gpu, name, has_peer);
    let sure = if first.has_idle_sms { confidence::LIKELY } else { confidence::EVEN };
    Some(Recommendation {
        title: title.to_owned(),
        action: action.to_owned(),
        rationale,
        saving: Saving::combined(group.iter().map(|waiting| {
            (waiting.gpu, Saving::part(waiting.waits * waiting.gpu.full_share(), saved::QUARTER))
        })),
        confidence: sure * mean(gpus(), Gpu::confidence),
        evidence: values,
        kind: kind_of_speedup(first.gpu.workload),
        effort: Effort::Medium,
        ..Recommendation::new("communication.links", Target::Throughput, "nccl", gpus())
    })
}

/// Title and action for a busy link; `has_peer` if NVLink is known to connect the GPUs.
fn texts(gpu: &Gpu, link: &str, has_peer: bool) -> (&'static str, &'static str) {
    match (link, gpu.workload) {
        ("PCIe", _) if has_peer => (
            "Exchange over NVLink instead of PCIe",
            "NVLink connects these GPUs, but the exchange crosses PCIe: NCCL_DEBUG=INFO shows why NCCL does \
             not use it. Look for NCCL_P2P_DISABLE, and for containers that see one GPU each.",
        ),
        ("PCIe", _) if has_nvlink(&gpu.model) => (
            "Exchange over NVLink instead of PCIe",
            "Place the ranks on GPUs that NVLink connects (nvidia-smi topo -m), and check that NCCL uses \
             it (NCCL_DEBUG=INFO). Pin host memory for what must cross PCIe.",
        ),
        (_, Workload::Training) => (
            "Exchange less, or while the GPUs compute",
            "Accumulate gradients over more steps, exchange them in BF16 (the hook bf16_compress_hook of DDP), \
             and overlap the exchange with the backward pass by buckets of 50 to 100 MB. NCCL_DEBUG=INFO \
             shows which links NCCL uses.",
        ),
        _ => (
            "Exchange less between the GPUs",
            "Split the model over fewer GPUs if it fits, and let NCCL_DEBUG=INFO show whether all links \
             are used.",
        ),
    }
}

/// Columns without which communication cannot be told from other limits.
fn needs(ranks: &[&Gpu], settings: &Settings, window: &Window) -> Vec<Need> {
    let is_slow = |gpu: &Gpu| {
        let low = power_share(gpu).is_some_and(|share| share < LOW_POWER);
        low && gpu.workload != Workload::Serving
    };
    let is_open =
        |gpu: &Gpu| is_full(gpu) && !has_defect(gpu, window) && does_usual_work(gpu, window);
    let ranks = || ranks.iter().copied();
    let sms = Need::by_vendor(
        "sm.activity",
        "tells a GPU that computes from one that waits in a collective",
        ": dcgmi dmon -e 1002,1004,1005, or phasemeter run on Hopper and later, record it",
        ranks().filter(|gpu| {
            let may_wait = is_slow(gpu) || busy_link(gpu, settings).is_some();
            gpu.sensors.sm_activity.is_none() && may_wait && is_open(gpu)
        }),
    );
    let lacks_links = |gpu: &Gpu| {
        // Replicas of a service exchange nothing, and full memory bandwidth explains waiting SMs.
        let is_job = gpu.workload != Workload::Serving;
        let waits = gpu.sensors.sm_activity.is_some_and(|sms| sms <= settings.waiting_sms);
        let waits = waits && is_job && !has_full_bandwidth(gpu);
        let may_wait = is_slow(gpu) || waits || idle_tensor(gpu, settings).is_some();
        nvlink(gpu).is_none() && pcie(gpu).is_none() && may_wait && is_open(gpu)
    };
    let links = |missing, tools, has: bool| {
        Need::by_vendor(
            missing,
            "tells a GPU that waits for others from one that waits for memory",
            tools,
            ranks().filter(|gpu| lacks_links(gpu) && has_nvlink(&gpu.model) == has),
        )
    };
    let nvlink = links(
        "nvlink.activity",
        ": dcgmi dmon -e 1009,1010,1011,1012 records traffic over PCIe and NVLink",
        true,
    );
    let pcie = links("pcie.activity", ": dcgmi dmon -e 1009,1010 records traffic over PCIe", false);
    sms.into_iter().chain(nvlink).chain(pcie).collect()
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn evaluate(gpus: Vec<Gpu>) -> (Vec<String>, Vec<String>) {
        let response = recommend(&Settings::default(), &window(gpus));
        let codes = response.recommendations.into_iter().map(|one| one.code);
        (codes.collect(), response.needs.into_iter().map(|need| need.missing).collect())
    }

    fn rank(sms: Option<f64>, metrics: &[(&str, f64)]) -> Gpu {
        let mut gpu = steady(3_600, 0.98);
        gpu.sensors.sm_activity = sms;
        gpu.metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        gpu
    }

    #[test]
    fn busy_links_and_idle_sms_are_communication() {
        let found = |gpu: Gpu| evaluate(vec![gpu.clone(), gpu]).0;
        assert_eq!(found(rank(Some(0.33), &[("nvlink.activity", 0.8)])), ["communication.links"]);
        assert!(found(rank(Some(0.33), &[("nvlink.activity", 0.2)])).is_empty());
        assert!(found(rank(Some(0.9), &[("nvlink.activity", 0.8)])).is_empty());
        assert!(found(rank(None, &[("nvlink.activity", 0.8)])).is_empty());
        assert!(
            evaluate(vec![rank(Some(0.33), &[("nvlink.activity", 0.8)])]).0.is_empty(),
            "alone"
        );
    }

    #[test]
    fn broken_links_are_no_matter_of_settings() {
        let gpus = |share: f64| {
            let linked = rank(Some(0.33), &[("nvlink.activity", 0.1)]);
            let cut_off = [("nvlink.activity", share), ("pcie.activity", 0.9)];
            vec![linked.clone(), linked, rank(Some(0.33), &cut_off)]
        };
        assert!(evaluate(gpus(0.0)).0.is_empty());
        assert_eq!(evaluate(gpus(0.1)).0, ["communication.links"]);
    }

    #[test]
    fn busy_links_and_idle_tensor_cores_are_communication_of_training() {
        let ranks = |tensor: f64, workload| {
            let mut gpu = rank(Some(0.8), &[("nvlink.activity", 0.8)]);
            gpu.sensors.tensor_activity = Some(tensor);
            gpu.workload = workload;
            vec![gpu.clone(), gpu]
        };
        let response = recommend(&Settings::default(), &window(ranks(0.07, Workload::Training)));
        let one = &response.recommendations[0];
        assert!(
            one.confidence < confidence::LIKELY && one.rationale.contains("probably"),
            "{one:?}"
        );
        // At most the use of the links, of which a quarter is expected.
        assert!((one.saving.expected - 0.25 * 0.8).abs() < 0.01, "{:?}", one.saving);
        assert!(evaluate(ranks(0.3, Workload::Training)).0.is_empty(), "they compute");
        assert!(evaluate(ranks(0.07, Workload::Serving)).0.is_empty(), "decoding uses few");
    }

    #[test]
    fn model_without_nvlink_exchanges_less() {
        let mut gpu = rank(Some(0.3), &[("pcie.activity", 0.8)]);
        gpu.model = "NVIDIA L40S".to_owned();
        let response = recommend(&Settings::default(), &window(vec![gpu.clone(), gpu.clone()]));
        let one = &response.recommendations[0];
        assert!(!one.action.contains("NVLink"), "{}", one.action);
        assert!(one.action.contains("Accumulate gradients"), "{}", one.action);
        gpu.metrics.clear();
        assert_eq!(evaluate(vec![gpu.clone(), gpu]).1, ["pcie.activity"]);
    }

    #[test]
    fn exchange_over_pcie_beside_nvlink_is_a_question_of_settings() {
        let action = |peer: &str| {
            let mut gpu = rank(Some(0.3), &[("pcie.activity", 0.7)]);
            let peers = "phasemeter.gpu.nvlink.peers".to_owned();
            gpu.attributes = vec![(peers, format!("GPU-7 {peer}"))];
            let window = window(vec![gpu.clone(), gpu]);
            let response = recommend(&Settings::default(), &window);
            response.recommendations[0].action.clone()
        };
        assert!(action("GPU-1").contains("NCCL_P2P_DISABLE"), "{}", action("GPU-1"));
        assert!(action("GPU-8").contains("Place the ranks"), "{}", action("GPU-8"));
    }

    #[test]
    fn saving_is_a_trial_and_at_most_the_waiting_time() {
        let gpu = rank(Some(0.34), &[("nvlink.activity", 0.8)]);
        let response = recommend(&Settings::default(), &window(vec![gpu.clone(), gpu]));
        let saving = response.recommendations[0].saving;
        assert!(saving.low == 0.0 && saving.high < 0.4 && saving.expected > 0.1, "{saving:?}");
    }

    #[test]
    fn missing_columns_are_needs() {
        let slow = |watts: f64| {
            let mut gpu = rank(None, &[]);
            gpu.sensors.busy_power =
                Some(Percentiles { p5: watts, p50: watts, p95: watts, max: watts });
            vec![gpu.clone(), gpu]
        };
        assert_eq!(evaluate(slow(280.0)).1, ["sm.activity", "nvlink.activity"]);
        assert!(evaluate(slow(600.0)).1.is_empty());
        let links = |metrics: &[(&str, f64)], sms| {
            let gpu = rank(sms, metrics);
            evaluate(vec![gpu.clone(), gpu]).1
        };
        assert_eq!(links(&[], Some(0.3)), ["nvlink.activity"], "whatever the power");
        assert_eq!(links(&[("nvlink.activity", 0.8)], None), ["sm.activity"]);
        assert!(links(&[("nvlink.activity", 0.8)], Some(0.3)).is_empty(), "both are measured");
    }
}
