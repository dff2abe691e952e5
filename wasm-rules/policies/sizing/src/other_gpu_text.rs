//! What is written about another GPU.

use phasemeter_diagnoses::SIMILAR;
use phasemeter_policy::format::{decimal, gib, percent, subject, usd};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Need, Offer, Recommendation, Remediation, Response, Saving,
    Target, evidence, groups, mean,
};

use crate::current::lacks_bf16;
use crate::other_gpu::{Finding, Missing, Question, Reason};

/// Recommends what was chosen, and names the throughput that decides as missing.
pub(crate) fn response(findings: Vec<Finding<'_>>, questions: Vec<Question<'_>>) -> Response {
    let same = |a: &Finding<'_>, b: &Finding<'_>| {
        let apart = (a.gpu.accounts.busy().level() - b.gpu.accounts.busy().level()).abs();
        std::ptr::eq(a.offer, b.offer) && a.reason == b.reason && apart <= SIMILAR
    };
    let alike = |a: &Question<'_>, b: &Question<'_>| {
        std::ptr::eq(a.offer, b.offer) && a.missing == b.missing
    };
    let (found, open) = (groups(findings, same), groups(questions, alike));
    Response {
        recommendations: found.iter().filter_map(|group| recommendation(group)).collect(),
        needs: open.iter().filter_map(|group| need(group)).collect(),
    }
}

/// Recommends another GPU for GPUs with the same one in view.
fn recommendation(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let Finding { gpu, paid, offer, reason, .. } = *first;
    let level = mean(group, |it| it.gpu.accounts.busy().level());
    let [now, then] = [paid.nano_usd_per_gpu_hour, offer.price.nano_usd_per_gpu_hour];
    let ratio = then as f64 / now.max(1) as f64;
    let (code, target) = match reason {
        Reason::Smaller { .. } => ("sizing.smaller", Target::Underload),
        Reason::Session => ("sizing.smaller-session", Target::Rate),
        Reason::FewSms { .. } => ("sizing.smaller", Target::Rate),
        Reason::MoreMemory => ("sizing.larger", Target::Underload),
        Reason::Newer => ("sizing.newer", Target::Rate),
        Reason::Bandwidth { .. } => ("sizing.bandwidth-price", Target::Throughput),
    };
    let (lever, title) = match reason {
        Reason::MoreMemory => ("larger_gpu", "A GPU with more memory"),
        Reason::Newer => ("larger_gpu", "Use a newer GPU"),
        Reason::Bandwidth { .. } => ("larger_gpu", "A GPU with more bandwidth"),
        _ => ("smaller_gpu", "Use a smaller GPU"),
    };
    let size = offer.memory_bytes.map(|it| ["has ", &gib(it as f64), " and "].concat());
    let there = format!(
        "{} {}costs {} per hour there ({}), and this one {}. ",
        offer.model,
        size.unwrap_or_default(),
        usd(then),
        offer.price.source,
        usd(now),
    );
    let gpus = subject(group.len());
    let peak =
        |words: &str| gpu.memory_peak().map_or_else(String::new, |it| words.to_owned() + &gib(it));
    let why = match reason {
        Reason::Smaller { oversized } => format!(
            "{gpus} is {} for its work: it runs at {}{}. {there}Its peaks do not exclude it; it pays if it does \
             at least {} of the work per hour.",
            if oversized { "far too large" } else { "too large" },
            percent(level),
            peak(" with up to "),
            percent(ratio),
        ),
        Reason::Session => format!(
            "{gpus} works {} of the time, at {}{}. {there}Its peaks do not exclude it, but what runs may take longer{}.",
            percent(mean(group, |it| it.gpu.share(Accounts::busy))),
            percent(level),
            peak(", with up to "),
            if lacks_bf16(gpu, offer) { ", and it has no BF16" } else { "" },
        ),
        Reason::FewSms { activity } => format!(
            "{gpus} has {} of its SMs active while it works, though its utilization is {}{}. {there}By measured \
             activity its peaks do not exclude it; it pays if it does at least {} of the work per hour.",
            percent(activity),
            percent(level),
            peak(", and uses up to "),
            percent(ratio),
        ),
        Reason::MoreMemory => format!(
            "{gpus} runs at {} with its memory full ({}): memory limits the batch. {there}Twice the batch \
             fits there, and it saves money if it does {} times as much per hour.",
            percent(level),
            percent(gpu.memory_share().unwrap_or(1.0)),
            decimal(ratio, 2),
        ),
        Reason::Newer => format!(
            "{gpus} can be replaced by a newer one at {} of its price. {there}By its peaks of arithmetic and \
             bandwidth it is at least as fast.",
            percent(ratio),
        ),
        Reason::Bandwidth { ratio: times } => format!(
            "{gpus} uses {} of its memory bandwidth, which most likely limits it. {there}It has {} times the bandwidth \
             for {} times the price, and pays from {} times the work per hour.",
            percent(mean(group, |it| it.gpu.sensors.dram_activity.unwrap_or(0.0))),
            decimal(times, 1),
            decimal(ratio, 2),
            decimal(ratio, 2),
        ),
    };
    let mut values = evidence([
        ("busy.utilization", level, "1"),
        ("current.price", now as f64 / 1e9, "{USD}/h"),
        ("other.price", then as f64 / 1e9, "{USD}/h"),
        ("break_even.throughput_ratio", ratio, "1"),
    ]);
    values.extend(gpu.memory_share().map(|it| Evidence::new("memory.peak_share", it, "1")));
    Some(Recommendation {
        title: format!(
            "{title}: {} at {}, now {}",
            offer.model.strip_prefix("NVIDIA ").unwrap_or(&offer.model),
            usd(then),
            usd(now),
        ),
        action: format!(
            "Try {} with the same work, and compare dollars per unit of it{}. Check the CPUs and the memory \
             of its host.{}",
            name(offer),
            work_now(gpu),
            match reason {
                Reason::Smaller { .. } | Reason::Session | Reason::FewSms { .. } => {
                    " Or keep this GPU and give it more work: sharing and moving are alternatives."
                }
                _ => "",
            },
        ),
        rationale: why.trim_end().to_owned(),
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(group, |it| it.confidence),
        evidence: values,
        effort: Effort::Medium,
        remediation: offer.price.instance_type.is_some().then(|| {
            Remediation::to_place("instance.resize", &offer.price)
                .unless("a trial there takes longer by more than the price is lower")
        }),
        ..Recommendation::new(code, target, lever, group.iter().map(|finding| finding.gpu))
    })
}

/// `NVIDIA L4 (g6.xlarge, aws us-east-1)`.
fn name(offer: &Offer) -> String {
    let price = &offer.price;
    let [instance_type, provider, region] = [&price.instance_type, &price.provider, &price.region]
        .map(|part| part.as_deref().unwrap_or_default());
    format!("{} ({instance_type}, {provider} {region})", offer.model)
}

/// What a million units of its work cost now; empty if the work is unknown.
fn work_now(gpu: &Gpu) -> String {
    let work = gpu.work_done.iter().find(|(_, done)| *done > 0.0);
    work.map_or_else(String::new, |(unit, done)| {
        format!(", now {} per million {unit}", usd((gpu.bill() as f64 / done * 1e6) as u64))
    })
}

/// What decides: throughput, or activity.
fn need(group: &[Question<'_>]) -> Option<Need> {
    let Question { gpu, paid, offer, missing } = *group.first()?;
    let hourly = offer.price.nano_usd_per_gpu_hour;
    let ratio = hourly as f64 / paid.nano_usd_per_gpu_hour.max(1) as f64;
    let (missing, reason) = match missing {
        Missing::Throughput => (
            "throughput",
            format!(
                "a trial on {} at {} per GPU-hour: it pays from {} times the work per hour here{}; {} full",
                name(offer),
                usd(hourly),
                decimal(ratio, 2),
                work_now(gpu),
                if group.len() == 1 { "this GPU is" } else { "these GPUs are" },
            ),
        ),
        Missing::Activity => (
            "sm.activity",
            format!(
                "{} at {} per hour instead of {} has enough memory: activity of the SMs{} shows whether it carries the \
                 load, which utilization overstates",
                name(offer),
                usd(hourly),
                usd(paid.nano_usd_per_gpu_hour),
                gpu.vendor().choose(" (GPM or DCGM)", "", ""),
            ),
        ),
    };
    // The contract allows 300 bytes.
    let end = reason.char_indices().map(|(at, _)| at).take_while(|at| *at <= 299).last();
    let reason = if reason.len() > 300 { &reason[..end.unwrap_or(0)] } else { &reason };
    Some(Need::new(missing, reason, group.iter().map(|question| question.gpu)))
}
