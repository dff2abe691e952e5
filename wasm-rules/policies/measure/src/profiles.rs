//! Profiles whose result decides between causes that look alike.

use phasemeter_diagnoses::{
    FEW_SMS, FULL_ENGINE, LITTLE_POWER, LOW_POWER, NEARLY_FULL, confidence, does_usual_work,
    draws_more_at_times, has_defect, has_full_bandwidth, is_full, multiplies_matrices, nvlink,
    pcie, power_share,
};
use phasemeter_policy::format::{decimal, percent, subject, usd};
use phasemeter_policy::{
    Gpu, Percentiles, Recommendation, RecommendationKind, Target, Vendor, Window, Workload,
    evidence, groups, mean,
};

use crate::Settings;
use crate::load::{has_pool, is_part_load, is_steady_part_load, is_undersampled};

/// What a profile would decide.
pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
    let of = |chosen: &dyn Fn(&Gpu) -> bool| -> Vec<&Gpu> {
        let chosen = window.gpus.iter().filter(long).filter(|gpu| chosen(gpu));
        chosen.filter(|gpu| !is_explained(gpu, window)).collect()
    };
    let busy = of(&has_little_power);
    let few = of(&|gpu| !has_little_power(gpu) && has_few_sms(gpu, window));
    let varying = of(&|gpu| {
        let is_other = !has_little_power(gpu) && !has_few_sms(gpu, window);
        gpu.workload == Workload::Training && is_full(gpu) && is_other && draws_more_at_times(gpu)
    });
    let unclear = of(&|gpu| match gpu.workload {
        Workload::Unknown => gpu.is_bouncing() || is_steady_part_load(gpu, window),
        // If it hardly uses the SMs, its video engines come first: a need.
        Workload::Batch => is_steady_part_load(gpu, window),
        // Others advise on larger batches if the memory in use is known.
        Workload::Training => {
            is_undersampled(gpu, window) || (is_part_load(gpu, window) && has_pool(gpu, window))
        }
        Workload::Serving | Workload::Interactive => false,
    });
    let unclear =
        groups(unclear, |a, b| a.is_bouncing() == b.is_bouncing() && a.workload == b.workload);
    let bound = of(&|gpu| {
        matches!(gpu.workload, Workload::Batch | Workload::Unknown)
            && is_full(gpu)
            && has_full_bandwidth(gpu)
            && !multiplies_matrices(gpu, window)
    });
    let fp64 = of(&|gpu| {
        is_full(gpu)
            && gpu.vendor() == Vendor::Nvidia
            && gpu.metric("fp64.activity") >= Some(FULL_ENGINE)
    });
    let known = at_low_power(&busy).into_iter().chain(at_few_sms(&few));
    let known = known.chain(at_varying_power(&varying));
    let known = known.chain(at_full_bandwidth(&bound));
    let known = known.chain(at_full_fp64(&fp64));
    known.chain(unclear.iter().filter_map(|gpus| at_part_load(gpus))).collect()
}

/// Whether the health of the GPU or of another of its job, or a full video engine, explains its load.
fn is_explained(gpu: &Gpu, window: &Window) -> bool {
    let video = ["decoder.utilization", "encoder.utilization"];
    video.iter().any(|engine| gpu.metric(engine).is_some_and(|it| it >= FULL_ENGINE))
        || has_defect(gpu, window)
        || !does_usual_work(gpu, window)
}

/// Whether it is full at so little power that arithmetic is not its limit.
fn has_little_power(gpu: &Gpu) -> bool {
    is_full(gpu)
        && gpu.workload != Workload::Serving
        && power_share(gpu).is_some_and(|share| share < LOW_POWER)
        && (power_share(gpu) >= Some(LITTLE_POWER) || draws_more_at_times(gpu))
        && gpu.sensors.tensor_activity.is_none()
}

/// Whether it is full with few of its SMs active, beside others like it, and its links were not measured: it may wait for
/// these, or have small kernels. Of one alone, or with measured links, it is known which.
fn has_few_sms(gpu: &Gpu, window: &Window) -> bool {
    let has_few = |share: Option<f64>| share.is_some_and(|share| share <= FEW_SMS);
    is_full(gpu)
        && gpu.workload != Workload::Serving
        && has_few(gpu.sensors.sm_activity)
        && has_few(gpu.sensors.dram_activity)
        && nvlink(gpu).or(pcie(gpu)).is_none()
        && window.gpus.iter().any(|other| other.id != gpu.id && other.is_alike(gpu))
}

/// What a profile shows of a full GPU whose arithmetic is not the limit.
const NOT_ARITHMETIC: &str = "kernels named nccl for most of the time mean communication; long kernels without them, memory \
                              bandwidth, which fused kernels save; gaps between short kernels, launches, which CUDA graphs, \
                              torch.compile or a larger batch save";

fn at_low_power(gpus: &[&Gpu]) -> Option<Recommendation> {
    let power = mean(gpus, |gpu| power_share(gpu).unwrap_or(0.0));
    let seen = format!(
        "{} is fully busy at {} of its power limit: memory, communication or launches limit it, not arithmetic.{}",
        subject(gpus.len()),
        percent(power),
        if gpus.iter().any(|gpu| gpu.memory_share() >= Some(NEARLY_FULL)) {
            " Its memory is nearly full: if the driver moves a part of it to the host, less of it is the remedy, such as a \
             smaller batch."
        } else {
            ""
        },
    );
    let code = "measure.busy-at-low-power";
    (!gpus.is_empty()).then(|| Recommendation {
        evidence: evidence([("power.share_of_limit", power, "1")]),
        ..profile(code, Target::Throughput, gpus, seen, NOT_ARITHMETIC, confidence::LIKELY)
    })
}

fn at_few_sms(gpus: &[&Gpu]) -> Option<Recommendation> {
    let sms = mean(gpus, |gpu| gpu.sensors.sm_activity.unwrap_or(0.0));
    let seen = format!(
        "{} is fully busy with {} of its SMs: memory, communication or launches limit it, not arithmetic.",
        subject(gpus.len()),
        percent(sms),
    );
    let code = "measure.few-sms";
    (!gpus.is_empty()).then(|| Recommendation {
        evidence: evidence([("sm.activity", sms, "1")]),
        ..profile(code, Target::Throughput, gpus, seen, NOT_ARITHMETIC, confidence::LIKELY)
    })
}

/// Training that is full, and whose power falls again and again: a part of each step waits.
fn at_varying_power(gpus: &[&Gpu]) -> Option<Recommendation> {
    let power = |of: fn(&Percentiles) -> f64| {
        mean(gpus, |gpu| gpu.sensors.busy_power.as_ref().map_or(0.0, of))
    };
    let (low, high) = (power(|it| it.p5), power(|it| it.p95));
    let seen = format!(
        "{} is fully busy, and its power falls from {} to {} W at times: in a part of the work it computes nothing.",
        subject(gpus.len()),
        decimal(high, 0),
        decimal(low, 0),
    );
    let outcomes = "if that is in each step, kernels named nccl mean an exchange that could overlap with the backward pass, and \
                    others memory, copies or the optimizer; if it is rare, it is evaluation or a checkpoint";
    let code = "measure.varying-power";
    (!gpus.is_empty()).then(|| Recommendation {
        evidence: evidence([("power.low", low, "W"), ("power.high", high, "W")]),
        ..profile(code, Target::Throughput, gpus, seen, outcomes, confidence::EVEN)
    })
}

/// Work that is not known to be a model, at full memory bandwidth: only fewer bytes make it faster.
fn at_full_bandwidth(gpus: &[&Gpu]) -> Option<Recommendation> {
    let dram = mean(gpus, |gpu| gpu.sensors.dram_activity.unwrap_or(0.0));
    let rationale = format!(
        "Memory is {} active all the time: bytes limit the work, not arithmetic. Loops over the same data that are \
         fused, blocked for the cache, or stored in fewer bytes where the result allows it, read less; a GPU with more \
         bandwidth for its price reads faster.",
        percent(dram),
    );
    (!gpus.is_empty()).then(|| Recommendation {
        title: "Find the kernels that read the most bytes".to_owned(),
        action: format!(
            "{} a short case, and start with the kernel that takes longest.",
            Vendor::of(gpus.iter().copied()).choose(
                "Run ncu --set roofline -o bytes COMMAND on",
                "Run rocprof-compute profile -n bytes -- COMMAND on",
                "Profile",
            ),
        ),
        evidence: evidence([("dram.activity", dram, "1")]),
        ..profile("measure.bandwidth", Target::Throughput, gpus, rationale, "", confidence::LIKELY)
    })
}

/// Work that the FP64 pipe limits.
fn at_full_fp64(gpus: &[&Gpu]) -> Option<Recommendation> {
    let fp64 = mean(gpus, |gpu| gpu.metric("fp64.activity").unwrap_or(0.0));
    (!gpus.is_empty()).then(|| Recommendation {
        title: "Try a model that computes FP64 at half of its FP32 rate".to_owned(),
        action: "Run a short case on a V100, A100, A30, H100 or H200, which do, unless this is one of them: others compute \
                 FP64 at a 32nd or a 64th of it. Compare dollars per result. Else only less FP64 is faster: a mixed \
                 precision of the code, where the results allow it."
            .to_owned(),
        rationale: format!(
            "{} is full, and its FP64 pipe {} active: that pipe limits the work, not memory, and not matrix products.",
            subject(gpus.len()),
            percent(fp64),
        ),
        confidence: confidence::LIKELY,
        evidence: evidence([("fp64.activity", fp64, "1")]),
        kind: RecommendationKind::Capacity,
        ..Recommendation::new("measure.fp64", Target::Throughput, "larger_gpu", gpus.iter().copied())
    })
}

fn at_part_load(gpus: &[&Gpu]) -> Option<Recommendation> {
    let first = *gpus.first()?;
    let level = mean(gpus, |gpu| gpu.accounts.observed().level());
    let lost = |gpu: &Gpu| gpu.waste.starvation.saturating_add(gpu.waste.underload);
    let lost: u64 = gpus.iter().map(|gpu| lost(gpu)).sum();
    let bill: u64 = gpus.iter().map(|gpu| gpu.bill()).sum();
    let dollars = if lost == 0 {
        String::new()
    } else {
        [&*usd(lost), " of ", &usd(bill), " was wasted, and "].concat()
    };
    let outcomes = match first.workload {
        Workload::Training => {
            "waits in the loader mean more workers; gaps between short kernels, torch.compile or CUDA graphs; kernels named \
             nccl, less exchange; none of these, a larger batch"
        }
        _ => {
            "waits for files or the network mean prefetching; gaps between short kernels, more work at a time or CUDA graphs; \
             code on the CPU, more processes"
        }
    };
    let seen = format!(
        "{} is {} busy: {dollars}what it waits for is not visible here.",
        subject(gpus.len()),
        percent(level),
    );
    let target = if first.is_bouncing() { Target::Starvation } else { Target::Underload };
    Some(Recommendation {
        evidence: evidence([("utilization", level, "1")]),
        ..profile("measure.part-load", target, gpus, seen, outcomes, confidence::EVEN)
    })
}

/// A profile of GPUs, and what follows from what it shows; without evidence.
fn profile(
    code: &str,
    target: Target,
    gpus: &[&Gpu],
    rationale: String,
    outcomes: &str,
    confidence: f64,
) -> Recommendation {
    let vendor = Vendor::of(gpus.iter().copied());
    let tool = vendor.choose("nsys", "rocprofv3", "the profiler of the vendor");
    let run = vendor.choose(
        " nsys profile -t cuda,nvtx,osrt -d 30 -o steps COMMAND writes steps.nsys-rep.",
        " rocprofv3 --sys-trace -d steps -- COMMAND writes it.",
        "",
    );
    Recommendation {
        title: "Profile a few steps".to_owned(),
        action: format!("Profile ten steps ({tool} or torch.profiler): {outcomes}.{run}"),
        rationale,
        confidence,
        ..Recommendation::new(code, target, "measure", gpus.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{bouncing, steady, window, with_memory, with_power};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus))
    }

    fn codes(gpu: Gpu) -> Vec<String> {
        recommendations(vec![gpu]).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn full_pipe_is_the_limit() {
        let with = |activity: f64| {
            let mut gpu = Gpu { workload: Workload::Batch, ..whole(0.99) };
            gpu.metrics.push(("fp64.activity".to_owned(), activity));
            codes(gpu)
        };
        assert_eq!(with(0.95), ["measure.fp64"]);
        assert!(with(0.4).is_empty());
    }

    fn whole(level: f64) -> Gpu {
        with_power(with_memory(steady(3_600, level), 20.0), 600.0)
    }

    #[test]
    fn profile_is_recommended_if_it_decides() {
        assert_eq!(codes(with_power(whole(0.99), 290.0)), ["measure.busy-at-low-power"]);
        assert!(codes(with_power(whole(0.99), 125.0)).is_empty(), "it may hang");
        let mut at_times = with_power(whole(0.99), 125.0);
        at_times.sensors.busy_power =
            at_times.sensors.busy_power.map(|it| Percentiles { p95: 500.0, ..it });
        assert_eq!(codes(at_times), ["measure.busy-at-low-power"]);
        assert!(codes(with_power(whole(0.99), 650.0)).is_empty());
        let unknown = Gpu { workload: Workload::Unknown, ..bouncing(3_600, 40, 0.5) };
        assert_eq!(codes(unknown), ["measure.part-load"]);
        assert!(codes(whole(0.5)).is_empty());
    }

    #[test]
    fn training_in_a_constant_block_is_profiled_with_its_cost() {
        let found = recommendations(vec![with_memory(steady(72_000, 0.3), 70.0)]);
        assert_eq!(found[0].code, "measure.part-load");
        let text = &found[0].rationale;
        assert!(text.starts_with("The GPU is 30% busy: $50.40 of $72.00 was wasted"), "{text}");
        let serving = Gpu { workload: Workload::Serving, ..with_memory(steady(72_000, 0.3), 70.0) };
        assert!(codes(serving).is_empty(), "its load is traffic");
    }

    #[test]
    fn explained_load_is_not_profiled() {
        let batch = || Gpu { workload: Workload::Batch, ..steady(3_600, 0.37) };
        assert_eq!(codes(batch()), ["measure.part-load"]);
        let with = |metrics: &[(&str, f64)]| {
            let mut gpu = batch();
            gpu.metrics.extend(metrics.iter().map(|(name, value)| ((*name).to_owned(), *value)));
            codes(gpu)
        };
        assert!(with(&[("decoder.utilization", 0.93)]).is_empty());
        assert!(with(&[("pcie.link.width", 4.0), ("pcie.link.max_width", 16.0)]).is_empty());
        assert_eq!(with(&[("decoder.utilization", 0.3)]), ["measure.part-load"]);
    }
}
