//! What makes late input faster: at most two actions for GPUs with similar waits.

use phasemeter_diagnoses::{computes_in_fp64, confidence};
use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Evidence, Gpu, Recommendation, Remediation, Saving, Target, Vendor, evidence, mean,
};

use crate::waiting::Waiting;

/// Part of the waiting, for input or for copies, that ends: low, expected, high. It ends if the cause was found and not
/// otherwise, and then the next stage may be late. An assumption.
pub(crate) const ENDED: [f64; 3] = [0.0, 0.4, 0.6];

/// What waits may be for.
#[derive(Clone, Copy)]
pub(crate) struct Input {
    /// Also for an exchange between GPUs.
    pub(crate) may_exchange: bool,
    /// How many full GPUs wait in a collective for these.
    pub(crate) others: usize,
    /// For the loader of a model: a simulation or a renderer has none.
    pub(crate) has_loader: bool,
}

/// Recommends at most two actions for GPUs with similar waits, and one if nothing shows a loader.
pub(crate) fn recommend(group: &[Waiting<'_>], input: Input) -> Vec<Recommendation> {
    let Input { may_exchange, others, has_loader } = input;
    let [first, ..] = group else { return Vec::new() };
    let gpus = || group.iter().map(|waiting| waiting.gpu);
    let (period, busy) = (mean(group, |it| it.period), mean(group, |it| it.busy));
    let (wait, lost) = (mean(group, Waiting::wait), mean(group, |it| it.lost));
    let speedup = if busy > 0.0 { 1.0 / busy } else { f64::INFINITY };
    let saving = Saving::combined(group.iter().map(|it| (it.gpu, Saving::part(it.lost, ENDED))));
    let what = if may_exchange { "input or exchange" } else { "input" };
    let likely = if may_exchange { "" } else { "most likely " };
    let collective = match others {
        0 => String::new(),
        _ => format!(
            " {} of this kind {} busy all the time, but the power falls whenever these wait: most likely a \
             collective that waits for them, so late input costs all.",
            count(others, "other GPU"),
            if others == 1 { "is" } else { "are" },
        ),
    };
    let rationale = format!(
        "{} {likely}waits for {what} {} in every {}: it works {} of each cycle. This wastes {} of the bill. A bouncing \
         GPU lacks data, not work: to stay busy, it needs {} {}× as fast.{collective}",
        subject(group.len()),
        duration(wait),
        duration(period),
        percent(busy),
        percent(lost),
        if may_exchange { "that" } else { "input" },
        decimal(speedup, 1),
    );
    let mut evidence = evidence([
        ("pattern.period", period, "s"),
        ("pattern.busy", busy, "1"),
        ("wait", wait, "s"),
        ("starvation.share_of_bill", lost, "1"),
    ]);
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max);
    let memory = peak.zip(first.gpu.memory_share());
    if let Some((_, share)) = memory {
        evidence.push(Evidence::new("memory.peak_share", share, "1"));
    }
    let cause = if may_exchange { confidence::EVEN } else { 1.0 };
    let confidence = cause * mean(gpus(), Gpu::confidence);
    let make = |code: &str, lever: &str, title: &str, action: String, detail: String, sure: f64| {
        Recommendation {
            title: title.to_owned(),
            action,
            rationale: rationale.clone() + &detail,
            saving,
            confidence: sure * confidence,
            evidence: evidence.clone(),
            effort: if lever == "num_workers" { Effort::Low } else { Effort::Medium },
            ..Recommendation::new(code, Target::Starvation, lever, gpus())
        }
    };
    if !has_loader {
        let ahead = make(
            "data-loading.ahead",
            // A solver in FP64 assembles its matrices; others read items.
            if computes_in_fp64(first.gpu) { "overlap" } else { "prefetch" },
            "Let the host work while the GPU computes",
            "See what the host does in a wait (py-spy dump, perf top): it reads, prepares or writes. Do that ahead or \
             afterwards on threads of its own, with asynchronous copies, or on the GPU. Or let two tasks share the GPU, so \
             that one computes while the other waits."
                .to_owned(),
            String::new(),
            confidence::PROBABLE,
        );
        return vec![ahead];
    }
    let mut workers = make(
        "data-loading.workers",
        "num_workers",
        "Use more loader workers",
        format!(
            "Raise num_workers about {}×, up to the number of CPU cores. Then check whether CPU or storage is the \
             bottleneck.",
            decimal(speedup, 1),
        ),
        String::new(),
        confidence::PROBABLE,
    );
    let factor = ("factor", decimal(speedup, 1).replace(',', ""));
    workers.remediation = Some(
        Remediation::new("job.parameter", [("name", "num_workers".to_owned()), factor])
            .unless("all CPU cores or the memory of the host are in use"),
    );
    let second = if first.can_decode() == Some(true) {
        let peak =
            memory.map_or_else(String::new, |(peak, _)| format!(": its peak is {}", gib(peak)));
        make(
            "data-loading.decode",
            "dali",
            "Decode on the GPU",
            format!(
                "Move decoding and preprocessing from the workers to {}. If the CPU is the bottleneck, more workers do \
                 not help.",
                Vendor::of(gpus()).choose("DALI", "rocAL", "the GPU"),
            ),
            [" GPU memory suffices", &peak, "."].concat(),
            confidence::EVEN,
        )
    } else if first.waits_long() {
        make(
            "data-loading.storage",
            "storage",
            "Find out what the host does, then move the data closer",
            "See what the host does in a wait (py-spy dump --pid PID). If it reads, stage the data set on local NVMe, or \
             pack it into large shards; if it computes, as an optimizer or a simulation on the CPU does, let it do so \
             beside the GPU or on it."
                .to_owned(),
            " Waits this long exceed any queue of batches.".to_owned(),
            confidence::UNLIKELY,
        )
    } else {
        return vec![workers];
    };
    vec![workers, second]
}
