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
    Response::of(
        found.iter().map(|group| recommendation(group)),
        open.iter().filter_map(|group| need(group)),
    )
}

/// What differs between reasons.
struct Words {
    code: &'static str,
    target: Target,
    lever: &'static str,
    title: &'static str,
    why: String,
}

fn words(group: &[Finding<'_>], level: f64, ratio: f64, there: &str) -> Words {
    let Finding { gpu, offer, reason, .. } = group[0];
    let gpus = subject(group.len());
    let level = percent(level);
    let peak =
        gpu.memory_peak().map_or_else(String::new, |it| [", with up to ", &gib(it)].concat());
    let (code, target, lever, title, why) = match reason {
        Reason::Smaller { oversized } => {
            let how = if oversized { "far too large" } else { "too large" };
            let why = format!(
                "is {how} for its work: it runs at {level}{peak}. {there}Its peaks do not exclude it"
            );
            ("sizing.smaller", Target::Underload, "smaller_gpu", "Use a smaller GPU", why)
        }
        Reason::FewSms { activity } => {
            let why = format!(
                "has {} of its SMs active while it works, though its utilization is {level}{peak}. {there}By measured \
                 activity its peaks do not exclude it",
                percent(activity),
            );
            ("sizing.smaller", Target::Rate, "smaller_gpu", "Use a smaller GPU", why)
        }
        Reason::Session => {
            let why = format!(
                "works {} of the time, at {level}{peak}. {there}Its peaks do not exclude it, but what runs may take \
                 longer{}",
                percent(mean(group, |it| it.gpu.share(Accounts::busy))),
                if lacks_bf16(gpu, offer) { ", and it has no BF16" } else { "" },
            );
            ("sizing.smaller-session", Target::Rate, "smaller_gpu", "Use a smaller GPU", why)
        }
        Reason::MoreMemory => {
            let why = format!(
                "runs at {level} with its memory full ({}): memory limits the batch. {there}Twice the batch fits there",
                percent(gpu.memory_share().unwrap_or(1.0)),
            );
            ("sizing.larger", Target::Underload, "larger_gpu", "A GPU with more memory", why)
        }
        Reason::Newer => {
            let why = format!(
                "can be replaced by a newer one. {there}By its peaks of arithmetic and bandwidth it is at least as fast"
            );
            ("sizing.newer", Target::Rate, "larger_gpu", "Use a newer GPU", why)
        }
        Reason::Bandwidth { ratio } => {
            let why = format!(
                "uses {} of its memory bandwidth, which most likely limits it. {there}It has {} times the bandwidth",
                percent(mean(group, |it| it.gpu.sensors.dram_activity.unwrap_or(0.0))),
                decimal(ratio, 1),
            );
            (
                "sizing.bandwidth-price",
                Target::Throughput,
                "larger_gpu",
                "A GPU with more bandwidth",
                why,
            )
        }
    };
    let pays = ["; it pays from ", &*decimal(ratio, 2), " times the work per hour."].concat();
    Words { code, target, lever, title, why: [gpus, " ", &*why, &pays].concat() }
}

/// Recommends another GPU for GPUs with the same one in view.
fn recommendation(group: &[Finding<'_>]) -> Recommendation {
    let Finding { gpu, paid, offer, .. } = group[0];
    let level = mean(group, |it| it.gpu.accounts.busy().level());
    let [now, then] = [paid.nano_usd_per_gpu_hour, offer.price.nano_usd_per_gpu_hour];
    let ratio = then as f64 / now.max(1) as f64;
    let size = offer.memory_bytes.map(|it| ["has ", &gib(it as f64), " and "].concat());
    let there = format!(
        "{} {}costs {} per hour there ({}), and this one {}. ",
        offer.model,
        size.unwrap_or_default(),
        usd(then),
        offer.price.source,
        usd(now),
    );
    let words = words(group, level, ratio, &there);
    let mut values = evidence([
        ("busy.utilization", level, "1"),
        ("current.price", now as f64 / 1e9, "{USD}/h"),
        ("other.price", then as f64 / 1e9, "{USD}/h"),
        ("break_even.throughput_ratio", ratio, "1"),
    ]);
    values.extend(gpu.memory_share().map(|it| Evidence::new("memory.peak_share", it, "1")));
    let or_keep = match words.lever {
        "smaller_gpu" => {
            " Or keep this GPU and give it more work: sharing and moving are alternatives."
        }
        _ => "",
    };
    Recommendation {
        title: format!(
            "{}: {} at {}, now {}",
            words.title,
            offer.model.strip_prefix("NVIDIA ").unwrap_or(&offer.model),
            usd(then),
            usd(now),
        ),
        action: format!(
            "Try {} with the same work, and compare dollars per unit of it{}. Check the CPUs and the memory of its \
             host.{or_keep}",
            name(offer),
            work_now(gpu),
        ),
        rationale: words.why,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(group, |it| it.confidence),
        evidence: values,
        effort: Effort::Medium,
        remediation: offer.price.instance_type.is_some().then(|| {
            Remediation::to_place("instance.resize", &offer.price)
                .unless("a trial there takes longer by more than the price is lower")
        }),
        ..Recommendation::new(
            words.code,
            words.target,
            words.lever,
            group.iter().map(|finding| finding.gpu),
        )
    }
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
    let reason = &reason[..reason.floor_char_boundary(300)];
    Some(Need::new(missing, reason, group.iter().map(|question| question.gpu)))
}
