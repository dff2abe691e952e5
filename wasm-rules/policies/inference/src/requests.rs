//! Services that can take more requests: with capacity left at their busiest, and full ones whose power shows that
//! arithmetic is far from full.
//!
//! That is capacity. It saves what replicas on instances of their own are then not needed. A service of which
//! fewer replicas suffice as it is has no use for it.

use phasemeter_diagnoses::{
    ABOVE, BURSTS, LOW_POWER, Replay, SIMILAR, SMALLEST, Unit, confidence, power_share, seldom,
    share, spins,
};
use phasemeter_policy::format::{count, decimal, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Need, Recommendation, RecommendationKind, Response, Saving, Target, Window,
    evidence, groups, mean,
};

use crate::replicas::are_replicas;
use crate::{Settings, serves};

/// Utilization above which a service is at its busiest.
const SERVING_FULL: f64 = 0.65;

/// GPU time of batched requests relative to now: expected, and at best. An assumption; it needs a trial.
const REQUESTS_BATCHED: [f64; 2] = [0.85, 0.6];

/// The most requests that are stated as possible, relative to now. An assumption.
const MOST_REQUESTS: f64 = 10.0;

/// A service with capacity left.
struct Finding<'a> {
    gpu: &'a Gpu,
    /// Utilization at its busiest: above it for [`BURSTS`] of the time.
    peak: f64,
    /// Share of the time above [`SERVING_FULL`].
    above: f64,
    /// Replicas on instances of their own that suffice if requests are batched, and all of them.
    replicas: Option<(usize, usize)>,
    saving: Saving,
}

/// Recommends more requests at a time. `has_fewer` are services of which fewer replicas
/// suffice, `has_hidden` whether that could not be checked for any.
pub(crate) fn recommend(
    gpus: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
    has_fewer: impl Fn(&Gpu) -> bool,
    has_hidden: bool,
) -> Response {
    // Requests that come one at a time leave gaps.
    let lost = |gpu: &Gpu| gpu.lost_underload() + gpu.lost_starvation();
    let loses = |gpu: &&Gpu| serves(gpu) && lost(gpu) >= settings.min_lost;
    let serving: Vec<_> = gpus.iter().copied().filter(loses).collect();
    let peaks = gpus.iter().filter(|gpu| serves(gpu) && !serving.is_empty());
    let peak = |gpu: &Gpu| Some(Replay::of(&[gpu], window)?.exceeded(BURSTS));
    let peaks = peaks.filter_map(|gpu| Some((*gpu, peak(gpu)?)));
    let peaks: Vec<_> = peaks.collect();
    let findings = serving.iter().filter_map(|gpu| {
        let mostly_works = gpu.is_steady() || gpu.quiet_share() < share::MOST;
        let applies = (mostly_works || gpu.is_bouncing())
            && !gpu.memory_use(window.step_seconds).is_rising()
            && !has_fewer(gpu);
        applies.then(|| find(gpu, &peaks, units, window)).flatten()
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        a.replicas == b.replicas && (a.peak - b.peak).abs() <= SIMILAR
    };
    let groups = groups(findings, similar);
    let productive = window.thresholds().productive;
    let batched = groups.iter().filter_map(|group| batch(group, productive));
    // Idle time between requests is as much in question, unless nothing runs at all for most of it.
    let asks = |gpu: &&Gpu| {
        let (underload, idle) = (gpu.lost_underload(), gpu.lost_idle());
        let waits = gpu.quiet_share() < share::MOST && underload + idle >= settings.min_lost;
        serves(gpu) && (underload >= settings.min_lost || waits)
    };
    let asked: Vec<_> = gpus.iter().copied().filter(asks).collect();
    let is_counted = window.metric("work.requests").is_some_and(|done| done > 0.0);
    let missing = if is_counted { "latency" } else { "requests" };
    let hidden = if has_hidden {
        ". Fewer replicas were not checked: their load together was not recorded for most of the time, or readings are \
         more than 2 minutes apart"
    } else {
        ""
    };
    let why = "requests per second and their latency show how many more each GPU takes, and how much headroom its peaks \
               need";
    Response::of(
        batched.chain(at_low_power(gpus)),
        Need::if_any(missing, &[why, hidden].concat(), asked),
    )
}

/// `peaks` are the loads of all that serve at their busiest.
fn find<'a>(
    gpu: &'a Gpu,
    peaks: &[(&Gpu, f64)],
    units: &[Unit<'a>],
    window: &Window,
) -> Option<Finding<'a>> {
    let of = |gpu: &Gpu| peaks.iter().find(|it| std::ptr::eq(it.0, gpu)).map(|it| it.1);
    let peak = of(gpu)?;
    // Replicas with about the same load are judged together.
    let similar = peaks.iter().filter(|it| it.0.is_alike(gpu) && (it.1 - peak).abs() <= SIMILAR);
    let similar: Vec<_> = similar.map(|it| it.1).collect();
    if mean(&similar, |peak| *peak) >= SERVING_FULL {
        return None;
    }
    let single = units.iter().filter(|unit| unit.is_returnable() && unit.gpus.len() == 1);
    let replicas = single.flat_map(|unit| &unit.gpus).filter(|other| are_replicas(other, gpu));
    let replicas = replicas.filter(|other| other.quiet_share() < share::MOST).copied();
    let replicas: Vec<_> = replicas.collect();
    let now = replicas.len();
    let productive = window.thresholds().productive;
    let kept = REQUESTS_BATCHED.map(|time| {
        let kept = Replay::of(&replicas, window)
            .map_or(now, |replay| replay.needed(productive / time, ABOVE));
        kept.max(now.div_ceil(2)).clamp(1, now.max(1))
    });
    let returned = now > kept[1];
    let [expected, high] = kept.map(|kept| 1.0 - kept as f64 / now.max(1) as f64);
    Some(Finding {
        gpu,
        peak,
        above: Replay::of(&[gpu], window)?.above(1.0, SERVING_FULL),
        replicas: returned.then_some((if expected > 0.0 { kept[0] } else { kept[1] }, now)),
        saving: Saving::part(1.0, [0.0, expected, high]),
    })
}

/// More requests at a time for GPUs with similar loads.
fn batch(group: &[Finding<'_>], productive: f64) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let level = mean(gpus(), |gpu| gpu.accounts.busy().level());
    let (peak, lost) = (mean(group, |finding| finding.peak), mean(gpus(), Gpu::lost_underload));
    let above = mean(group, |finding| finding.above);
    let more = f64::min(productive / peak.max(SMALLEST), MOST_REQUESTS);
    let how = "Let the server wait a few milliseconds to batch requests, use continuous batching, or raise its \
               limit of concurrent requests";
    let (title, action, gain) = match first.replicas {
        Some((kept, now)) => (
            format!("Batch requests, then serve with {kept} of {}", count(now, "replica")),
            format!("{how}. Then return the instances that are not needed, and watch the latency."),
            format!(
                "If batched requests take less time, {kept} of {now} replicas carry them, if their latency allows."
            ),
        ),
        None => (
            "Serve more requests at a time".to_owned(),
            [how, ", and send each GPU more of them."].concat(),
            format!(
                "At {} it serves {} times the requests, if there are more and their latency allows. This saves no \
                 money by itself.",
                percent(productive),
                decimal(more, 1),
            ),
        ),
    };
    // Of a service, demand decides how much of the waste is idle.
    let is_idle = mean(gpus(), Gpu::lost_idle) > lost;
    let returns = first.saving.high > 0.0;
    Some(Recommendation {
        title,
        action,
        rationale: format!(
            "{} is above {} for {} of the time, in means of 10 seconds, and at {} on average while it works. {gain}",
            subject(group.len()),
            percent(SERVING_FULL),
            seldom(above),
            percent(level),
        ),
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: confidence::VERY_LIKELY * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("busy.utilization", level, "1"),
            ("time_above_target", above, "1"),
            ("underload.share_of_bill", lost, "1"),
        ]),
        kind: if returns { RecommendationKind::Saving } else { RecommendationKind::Capacity },
        effort: Effort::Medium,
        ..Recommendation::new(
            "inference.batch-requests",
            if is_idle { Target::Idle } else { Target::Underload },
            "dynamic_batching",
            gpus(),
        )
    })
}

/// Full services at low power whose activity was not measured: they take few requests at a time, or none at all.
fn at_low_power(all: &[&Gpu]) -> Vec<Recommendation> {
    let applies = |gpu: &&Gpu| {
        let sensors = &gpu.sensors;
        let activity = [sensors.sm_activity, sensors.tensor_activity, sensors.dram_activity];
        serves(gpu)
            && gpu.full_share() >= share::NEARLY_ALL
            && activity.iter().all(Option::is_none)
            && power_share(gpu).is_some_and(|share| share < LOW_POWER)
    };
    let (spinning, working): (Vec<&Gpu>, Vec<&Gpu>) =
        all.iter().copied().filter(applies).partition(|gpu| spins(gpu));
    let power = |gpus: &[&Gpu]| mean(gpus, |gpu| power_share(gpu).unwrap_or(0.0));
    let of = |gpus: Vec<&Gpu>, new: Recommendation| {
        let confidence = confidence::EVEN * mean(&gpus, |gpu| gpu.confidence());
        let evidence = evidence([("power.share_of_limit", power(&gpus), "1")]);
        (!gpus.is_empty()).then_some(Recommendation {
            confidence,
            evidence,
            effort: Effort::Medium,
            ..new
        })
    };
    let more = Recommendation {
        title: "Serve more requests at a time".to_owned(),
        action: "Raise the limit of concurrent requests, or the maximum batch, step by step. Compare latency and \
                 requests per second before adding a replica."
            .to_owned(),
        rationale: format!(
            "{} is fully busy at {} of its power limit: a kernel always runs, but most likely reads memory or waits \
             for launches, which more requests per step share. Activity of memory and tensor cores would show it.",
            subject(working.len()),
            percent(power(&working)),
        ),
        kind: RecommendationKind::Capacity,
        ..Recommendation::new(
            "inference.low-power",
            Target::Throughput,
            "concurrency",
            working.iter().copied(),
        )
    };
    let any = Recommendation {
        title: "Find out whether this server gets requests".to_owned(),
        action: "Look at its count of requests. If none come, a loop spins that waits for them: stop the server in such \
                 hours, let it sleep, or take a version that waits without spinning. If some come, send it more at a \
                 time, or fewer GPUs suffice."
            .to_owned(),
        rationale: format!(
            "{} is fully busy, but draws a constant {} of its power limit: utilization only shows that some kernel runs, \
             such as a loop that waits.",
            subject(spinning.len()),
            percent(power(&spinning)),
        ),
        ..Recommendation::new(
            "inference.spins",
            Target::Throughput,
            "measure",
            spinning.iter().copied(),
        )
    };
    [of(working, more), of(spinning, any)].into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Workload;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    #[test]
    fn requests_that_are_counted_are_not_missing() {
        let serving = Gpu { workload: Workload::Serving, ..steady(7_200, 0.5) };
        let mut window = window(vec![serving]);
        let missing = |window: &Window| {
            let gpus: Vec<_> = window.gpus.iter().collect();
            let found = recommend(&gpus, &[], window, &Settings::default(), |_| true, false);
            found.needs.into_iter().map(|need| need.missing).collect::<Vec<_>>()
        };
        assert_eq!(missing(&window), ["requests"]);
        window.metrics = vec![("work.requests".to_owned(), 900.0)];
        assert_eq!(missing(&window), ["latency"]);
    }
}
