//! Finds jobs whose GPUs wait for one another.
//!
//! A collective that waits is a kernel that runs: utilization is full, and power is low. What tells it
//! from arithmetic is how many SMs work, and how full the links are. Without these columns it returns
//! needs. Must not depend on waiting for input, which has idle time.

use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Need, Policy, Recommendation, RecommendationKind, Recommender, Response, Saving,
    Target, Window, Workload, evidence, groups,
};
use phasemeter_specs::{hangs, is_slowed, nvlink, pcie};

phasemeter_policy::settings! {
    /// Share of the link capacity from which links are busy.
    busy_link: number = 0.5 in 0.0..=1.0;
    /// SM activity up to which most SMs wait.
    waiting_sms: number = 0.6 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 900.0 in 0.0..=86400.0;
}

/// Confidence that communication is the cause. An assumption.
const SURE: f64 = 0.7;

/// Compute-bound share of the time from which a GPU is full.
const FULL: f64 = 0.5;

/// Power of a full GPU, as a share of its limit, below which arithmetic is not its limit.
const LOW_POWER: f64 = 0.55;

/// SM activity of a job that does not wait: efficient training reaches this.
const ACTIVE_SMS: f64 = 0.85;

/// Share of the waiting time that less or earlier communication saves: low, expected, high. An
/// assumption; it needs a trial.
const SAVED: [f64; 3] = [0.0, 0.3, 0.6];

struct Communication;

impl Policy for Communication {
    const NAME: &'static str = "communication";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Finds jobs whose GPUs wait for one another.";
    type Settings = Settings;
}

/// A GPU that waits for others.
struct Waiting<'a> {
    gpu: &'a Gpu,
    /// Use of its links, and which.
    link: (f64, &'static str),
    /// SM activity.
    sms: f64,
}

impl Recommender for Communication {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let observed = window.observed_gpus(settings.min_seconds);
        let together = observed.into_iter().filter(|gpu| {
            // Ranks of one job are alike; a GPU alone exchanges nothing.
            let other = |other: &&Gpu| other.id != gpu.id && other.is_alike(gpu);
            window.gpus.iter().any(|gpu| other(&gpu))
        });
        let ranks: Vec<_> = together.collect();
        let waiting = ranks.iter().filter_map(|gpu| waiting(gpu, settings));
        let groups =
            groups(waiting, |a, b| a.gpu.workload == b.gpu.workload && a.link.1 == b.link.1);
        Response {
            recommendations: groups.iter().filter_map(|group| recommend(group)).collect(),
            needs: needs(&ranks, window),
        }
    }
}

fn waiting<'a>(gpu: &'a Gpu, settings: &Settings) -> Option<Waiting<'a>> {
    let sms = gpu.sensors.sm_activity.filter(|sms| is_full(gpu) && *sms <= settings.waiting_sms)?;
    let link = [(nvlink(gpu), "NVLink"), (pcie(gpu), "PCIe")];
    let link = link.into_iter().filter_map(|(share, name)| Some((share?, name)));
    let link = link.filter(|(share, _)| *share >= settings.busy_link);
    let link = link.max_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Waiting { gpu, link, sms })
}

impl Waiting<'_> {
    /// Whether NVLink is known to connect it to another GPU of the group.
    fn has_peer(&self, group: &[Self]) -> bool {
        let peers = self.gpu.attribute("phasemeter.gpu.nvlink.peers").unwrap_or_default();
        let is_peer = |other: &Self| peers.split(' ').any(|peer| peer == other.gpu.id);
        group.iter().any(is_peer)
    }

    fn saving(&self) -> Saving {
        let waits = (1.0 - self.sms / ACTIVE_SMS).clamp(0.0, 1.0);
        Saving::part(waits * self.gpu.share(|accounts| accounts.compute_bound), SAVED)
    }
}

fn is_full(gpu: &Gpu) -> bool {
    gpu.share(|accounts| accounts.compute_bound) >= FULL && !gpu.is_bouncing()
}

fn recommend(group: &[Waiting<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean = |value: &dyn Fn(&Waiting<'_>) -> f64| {
        group.iter().map(value).sum::<f64>() / group.len() as f64
    };
    let (link, sms) = (mean(&|waiting| waiting.link.0), mean(&|waiting| waiting.sms));
    let tensor = group.iter().filter_map(|waiting| waiting.gpu.sensors.tensor_activity);
    let tensor = tensor.reduce(f64::max);
    let name = first.link.1;
    let mut rationale = [
        subject(group.len()),
        " is fully busy with ",
        &percent(sms),
        " of its SMs active and ",
        name,
        " at ",
        &percent(link),
        " of its capacity: most of the time it exchanges data with the other GPUs, and waits.",
    ]
    .concat();
    let mut values = evidence([("link.use", link, "1"), ("sm.activity", sms, "1")]);
    if let Some(tensor) = tensor {
        rationale += &[" Tensor cores are ", &percent(tensor), " active."].concat();
        values.extend(evidence([("tensor.activity", tensor, "1")]));
    }
    let action = match (first.gpu.workload, name) {
        (Workload::Training, "NVLink") => {
            "Overlap the exchange with the backward pass, use larger buckets, exchange gradients in 16 \
             bits, and accumulate over more steps. NCCL_DEBUG=INFO shows whether it uses all links."
        }
        (_, "NVLink") => {
            "Split the model over fewer GPUs if it fits, and let NCCL_DEBUG=INFO show whether all links \
             are used."
        }
        _ if group.iter().any(|waiting| waiting.has_peer(group)) => {
            "NVLink connects these GPUs, but the exchange crosses PCIe: NCCL_DEBUG=INFO shows why NCCL does \
             not use it. Look for NCCL_P2P_DISABLE, and for containers that see one GPU each."
        }
        _ => {
            "Place the ranks on GPUs that NVLink connects (nvidia-smi topo -m), and check that NCCL uses \
             it (NCCL_DEBUG=INFO). Pin host memory for what must cross PCIe."
        }
    };
    Some(Recommendation {
        title: "Exchange less between the GPUs, or while they compute".to_owned(),
        action: action.to_owned(),
        rationale,
        saving: Saving::combined(group.iter().map(|waiting| (waiting.gpu, waiting.saving()))),
        confidence: SURE * mean(&|waiting| waiting.gpu.confidence()),
        evidence: values,
        kind: RecommendationKind::Saving,
        effort: Effort::Medium,
        ..Recommendation::new(
            "communication.links",
            Target::Throughput,
            "nccl",
            group.iter().map(|waiting| waiting.gpu),
        )
    })
}

/// Columns without which communication cannot be told from other limits.
fn needs(ranks: &[&Gpu], window: &Window) -> Vec<Need> {
    let of = |missing, reason, lacks: &dyn Fn(&Gpu) -> bool| {
        let gpus: Vec<_> = ranks.iter().copied().filter(|gpu| lacks(gpu)).collect();
        (!gpus.is_empty()).then(|| Need::new(missing, reason, gpus))
    };
    let is_slow = |gpu: &Gpu| {
        let low = power_share(gpu).is_some_and(|share| share < LOW_POWER);
        let is_explained = hangs(gpu, window) || is_slowed(gpu);
        is_full(gpu) && low && gpu.workload != Workload::Serving && !is_explained
    };
    let sms = of(
        "sm.activity",
        "the share of active SMs tells a GPU that computes from one that waits in a collective",
        &|gpu| is_slow(gpu) && gpu.sensors.sm_activity.is_none(),
    );
    let links = of(
        "nvlink.activity",
        "traffic over NVLink and PCIe tells a GPU that waits for others from one that waits for memory",
        &|gpu| is_slow(gpu) && nvlink(gpu).is_none() && pcie(gpu).is_none(),
    );
    sms.into_iter().chain(links).collect()
}

/// Median power while busy, as a share of the limit.
fn power_share(gpu: &Gpu) -> Option<f64> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0)?;
    Some(gpu.sensors.busy_power?.p50 / limit)
}

phasemeter_policy::recommender!(Communication);

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    fn evaluate(gpus: Vec<Gpu>) -> (Vec<String>, Vec<String>) {
        let response = Communication::recommend(&Settings::default(), &window(gpus));
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
    fn exchange_over_pcie_beside_nvlink_is_a_question_of_settings() {
        let action = |peer: &str| {
            let mut gpu = rank(Some(0.3), &[("pcie.activity", 0.7)]);
            let peers = "phasemeter.gpu.nvlink.peers".to_owned();
            gpu.attributes = vec![(peers, format!("GPU-7 {peer}"))];
            let window = window(vec![gpu.clone(), gpu]);
            let response = Communication::recommend(&Settings::default(), &window);
            response.recommendations[0].action.clone()
        };
        assert!(action("GPU-1").contains("NCCL_P2P_DISABLE"), "{}", action("GPU-1"));
        assert!(action("GPU-8").contains("Place the ranks"), "{}", action("GPU-8"));
    }

    #[test]
    fn saving_is_a_trial_and_at_most_the_waiting_time() {
        let gpu = rank(Some(0.34), &[("nvlink.activity", 0.8)]);
        let response =
            Communication::recommend(&Settings::default(), &window(vec![gpu.clone(), gpu]));
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
    }
}
