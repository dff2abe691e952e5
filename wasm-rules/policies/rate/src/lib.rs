//! Recommends lower rates: spot capacity, commitments, another region or provider.
//!
//! Independent of utilization, but needs a known on-demand price. Prices come from the project's
//! tables, each with its date; negotiated discounts are not included.

mod commitment;

use phasemeter_policy::format::{decimal, percent, usd};
use phasemeter_policy::{
    Accounts, Gpu, Plan, Policy, Price, Recommendation, Recommender, Saving, Target, Window,
    groups, log, same_model,
};
use phasemeter_specs::{Model, instance};

use commitment::{Commitment, HOURS_PER_MONTH};

phasemeter_policy::settings! {
    /// Whether the jobs may be interrupted.
    interruptible: flag = true;
    /// Hours of use per month, of 720; 0 if unknown.
    hours_per_month: number = 0.0 in 0.0..=744.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
    /// Minimum observed time for commitments, in seconds.
    min_commit_seconds: number = 3600.0 in 0.0..=86400.0;
    /// Minimum price difference for another region or provider, as a share.
    min_discount: number = 0.05 in 0.0..=1.0;
}

/// Share of the work repeated after interruptions: low saving, expected, high. An assumption; it
/// depends on how often a job saves its state.
const REWORK: [f64; 3] = [0.15, 0.05, 0.0];

/// Share of a lower list price that remains after the costs of moving: low, expected, high. An
/// assumption.
const REMAINING: [f64; 3] = [0.0, 0.5, 1.0];

/// Maximum idle share of the time for a commitment.
const MAX_IDLE: f64 = 0.5;

struct Rate;

impl Policy for Rate {
    const NAME: &'static str = "rate";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Recommends lower rates: spot, commitments, another region or provider.";
    type Settings = Settings;
}

/// A GPU with an hourly price.
struct Priced<'a> {
    gpu: &'a Gpu,
    price: &'a Price,
}

impl Recommender for Rate {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let priced = window.observed_gpus(settings.min_seconds).into_iter().filter_map(|gpu| {
            let price = gpu.price.as_ref()?;
            let is_hourly = matches!(price.plan, None | Some(Plan::OnDemand));
            (is_hourly && gpu.bill() > 0).then_some(Priced { gpu, price })
        });
        let similar = |a: &Priced<'_>, b: &Priced<'_>| {
            same_model(&a.gpu.model, &b.gpu.model)
                && a.price.nano_usd_per_gpu_hour == b.price.nano_usd_per_gpu_hour
                && a.price.provider == b.price.provider
                && a.price.region == b.price.region
                && a.price.instance_type == b.price.instance_type
        };
        let mut found = Vec::new();
        for group in groups(priced, similar) {
            if settings.interruptible {
                found.extend(spot(&group));
            }
            found.extend(commitments(&group, settings));
            found.extend(region(&group, settings));
            found.extend(provider(&group, settings));
        }
        found
    }
}

/// The varying parts of a recommendation.
struct Draft<'a> {
    code: &'a str,
    lever: &'a str,
    title: String,
    action: String,
    rationale: String,
    saving: [f64; 3],
    confidence: f64,
    evidence: Vec<(&'a str, f64)>,
}

fn recommend(group: &[Priced<'_>], draft: Draft<'_>) -> Recommendation {
    let confidence = group.iter().map(|priced| priced.gpu.confidence());
    Recommendation {
        code: draft.code.to_owned(),
        target: Target::Rate,
        lever: draft.lever.to_owned(),
        title: draft.title,
        action: draft.action,
        rationale: draft.rationale,
        saving: Saving::part(1.0, draft.saving),
        confidence: draft.confidence * confidence.sum::<f64>() / group.len() as f64,
        evidence: draft
            .evidence
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        gpus: group.iter().map(|priced| priced.gpu.id.clone()).collect(),
    }
}

/// Recommends spot capacity.
fn spot(group: &[Priced<'_>]) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(spot) = Model::of(&gpu.model).and_then(Model::spot) else {
        log::info(&["no spot price known for ", name(gpu)].concat());
        return None;
    };
    let same_provider = price.provider.as_deref() == Some(spot.provider);
    let saving = REWORK.map(|rework| 1.0 - (1.0 - spot.discount) * (1.0 + rework));
    let rationale = format!(
        "Spot {} costs {} less than on demand in {} at {}, the cheapest region, and up to {} less \
         elsewhere ({}). {} rework is assumed.{}",
        spot.model,
        percent(spot.discount),
        spot.region,
        spot.provider,
        percent(spot.max_discount),
        spot.as_of,
        percent(REWORK[1]),
        match &price.provider {
            _ if same_provider => "",
            Some(_) => " Spot prices of this provider are unknown.",
            None => " The provider of these GPUs is unknown.",
        }
    );
    Some(recommend(
        group,
        Draft {
            code: "rate.spot",
            lever: "spot",
            title: "Run interruptible work on spot capacity".to_owned(),
            action: "Save state every few minutes and on the interruption notice, and restart \
                     automatically. Keep interactive work on demand: spot capacity is reclaimed \
                     within seconds to minutes, and may be unavailable."
                .to_owned(),
            rationale,
            saving,
            confidence: if same_provider { 0.6 } else { 0.4 },
            evidence: vec![
                ("spot.discount", spot.discount),
                ("spot.rework_share", REWORK[1]),
                ("current.usd_per_hour", dollars(price.nano_usd_per_gpu_hour)),
            ],
        },
    ))
}

/// Recommends commitments of one and three years.
fn commitments(group: &[Priced<'_>], settings: &Settings) -> Vec<Recommendation> {
    let eligible = group.iter().filter(|priced| {
        let accounts = priced.gpu.accounts;
        accounts.observed().seconds >= settings.min_commit_seconds
            && priced.gpu.share(Accounts::idle) <= MAX_IDLE
    });
    let eligible: Vec<_> = eligible.map(|Priced { gpu, price }| Priced { gpu, price }).collect();
    let Some(Priced { price, .. }) = eligible.first() else { return Vec::new() };
    let rate = price.nano_usd_per_gpu_hour;
    let terms = [
        ("rate.reserved-1y", "reserved_1y", "one year", Commitment::ONE_YEAR),
        ("rate.reserved-3y", "reserved_3y", "three years", Commitment::THREE_YEARS),
    ];
    let recommendations = terms.into_iter().filter_map(|(code, lever, term, commitment)| {
        let hours = settings.hours_per_month;
        let break_even = commitment.break_even_hours();
        let max = commitment.saving(HOURS_PER_MONTH);
        let (saving, confidence, usage) = if hours > 0.0 {
            let saving = commitment.saving(hours.min(HOURS_PER_MONTH)).max(0.0);
            ([saving; 3], 0.6, [&*decimal(hours, 0), " hours"].concat())
        } else {
            ([0.0, commitment.expected_saving(), max], 0.3, "unknown hours".to_owned())
        };
        let rationale = format!(
            "A commitment is paid for every hour, used or not. It costs less than on demand from {} \
             of 720 hours per month. It saves {} at {usage} of use and {} at full use. On demand \
             costs {} per hour; a committed hour costs about {}. The ratio is that of published \
             terms ({} on demand, {} committed, no upfront, aws): request the terms of this model. \
             Remove avoidable idle time first.",
            decimal(break_even, 0),
            percent(saving[1]),
            percent(max),
            usd(rate),
            usd((rate as f64 * commitment.ratio()) as u64),
            usd(commitment.on_demand),
            usd(commitment.committed),
        );
        (saving[2] > 0.0).then(|| recommend(&eligible, Draft {
            code,
            lever,
            title: ["Commit to GPUs in constant use for ", term].concat(),
            action: format!(
                "Check the hours of use in the last months. Commit for {term} only to GPUs used at \
                 least {} hours per month.",
                decimal(break_even, 0),
            ),
            rationale,
            saving,
            confidence,
            evidence: vec![
                ("break_even.hours_per_month", break_even),
                ("committed.share_of_list", commitment.ratio()),
                ("current.usd_per_hour", dollars(rate)),
            ],
        }))
    });
    recommendations.collect()
}

/// Recommends the same instance type in another region.
fn region(group: &[Priced<'_>], settings: &Settings) -> Option<Recommendation> {
    let Priced { price, .. } = group.first()?;
    let (provider, current) = (price.provider.as_deref()?, price.region.as_deref()?);
    let other = instance(provider, price.instance_type.as_deref()?)?;
    let now = price.nano_usd_per_gpu_hour;
    let discount = discount(other.nano_usd_per_gpu_hour, now);
    if other.region == current || discount < settings.min_discount {
        return None;
    }
    let draft = Draft {
        code: "rate.region",
        lever: "region",
        title: ["Run in ", other.region].concat(),
        action: format!(
            "Run these jobs in {} if their data may be stored there. Include the cost of data \
             transfer and the latency for users.",
            other.region,
        ),
        rationale: format!(
            "{} costs {} per GPU-hour in {current} and is listed at {} in {} ({provider}, {}), {} \
             less.",
            other.instance_type,
            usd(now),
            usd(other.nano_usd_per_gpu_hour),
            other.region,
            other.as_of,
            percent(discount),
        ),
        saving: REMAINING.map(|share| share * discount),
        confidence: 0.4,
        evidence: vec![
            ("alternative.usd_per_hour", dollars(other.nano_usd_per_gpu_hour)),
            ("current.usd_per_hour", dollars(now)),
        ],
    };
    Some(recommend(group, draft))
}

/// Recommends another provider. Compares list prices, because negotiated discounts do not transfer.
fn provider(group: &[Priced<'_>], settings: &Settings) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(provider) = price.provider.as_deref() else {
        log::info(&["provider of ", name(gpu), " unknown: no other provider recommended"].concat());
        return None;
    };
    let model = Model::of(&gpu.model)?;
    let (current, other) = (model.lowest(Some(provider))?, model.lowest(None)?);
    let discount = discount(other.nano_usd_per_gpu_hour, current.nano_usd_per_gpu_hour);
    if other.provider == provider || discount < settings.min_discount {
        return None;
    }
    let draft = Draft {
        code: "rate.provider",
        lever: "provider",
        title: ["Request a quote from ", other.provider].concat(),
        action: format!(
            "Request a quote from {} for {} in {}, and confirm capacity. Include the cost of moving \
             data and of replacing {provider} services.",
            other.provider, other.instance_type, other.region,
        ),
        rationale: format!(
            "{} is listed at {} per GPU-hour at {} ({}, {}) and at {} at {provider} ({}, {}), {} \
             less. Both are the cheapest regions.",
            current.model,
            usd(other.nano_usd_per_gpu_hour),
            other.provider,
            other.region,
            other.as_of,
            usd(current.nano_usd_per_gpu_hour),
            current.region,
            current.as_of,
            percent(discount),
        ),
        saving: REMAINING.map(|share| share * discount),
        confidence: 0.3,
        evidence: vec![
            ("alternative.usd_per_hour", dollars(other.nano_usd_per_gpu_hour)),
            ("current.usd_per_hour", dollars(current.nano_usd_per_gpu_hour)),
        ],
    };
    Some(recommend(group, draft))
}

/// Returns how far `price` is below `current`, as a share of `current`.
fn discount(price: u64, current: u64) -> f64 {
    1.0 - price as f64 / current.max(1) as f64
}

/// Returns the model, for people.
fn name(gpu: &Gpu) -> &str {
    if gpu.model.is_empty() { "a GPU of unknown model" } else { &gpu.model }
}

fn dollars(nano_usd: u64) -> f64 {
    nano_usd as f64 / 1e9
}

phasemeter_policy::recommender!(Rate);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{price, steady, unpriced, window};

    use super::*;

    fn recommendations(settings: &Settings, gpu: Gpu) -> Vec<Recommendation> {
        Rate::recommend(settings, &window(vec![gpu]))
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    #[test]
    fn spot_saving_accounts_for_rework() {
        let found = recommendations(&Settings::default(), steady(3_600, 0.9));
        assert_eq!(levers(&found), ["spot", "reserved_1y", "reserved_3y"]);
        let saving = found[0].saving;
        assert!(0.33 < saving.low && saving.high < 0.43, "{saving:?}");
        let never = Settings { interruptible: false, ..Settings::default() };
        assert!(!levers(&recommendations(&never, steady(3_600, 0.9))).contains(&"spot"));
        let unlisted = Gpu { model: "Tesla T4".to_owned(), ..steady(3_600, 0.9) };
        assert!(!levers(&recommendations(&Settings::default(), unlisted)).contains(&"spot"));
    }

    #[test]
    fn commitment_saving_depends_on_hours() {
        let at = |hours_per_month| {
            let settings = Settings { hours_per_month, ..Settings::default() };
            let found = recommendations(&settings, steady(3_600, 0.9));
            found.into_iter().find(|one| one.lever == "reserved_1y").map(|a| a.saving.expected)
        };
        assert!((at(720.0).unwrap() - 0.4052).abs() < 1e-4);
        assert_eq!(at(400.0), None, "below break-even it costs more");
        let unknown = at(0.0).unwrap();
        assert!((unknown - 0.0963).abs() < 1e-3, "{unknown}");
    }

    #[test]
    fn commitment_requires_busy_and_long_observation() {
        for gpu in [steady(7_200, 0.0), steady(1_800, 0.9)] {
            let found = recommendations(&Settings::default(), gpu);
            assert_eq!(levers(&found), ["spot"]);
        }
    }

    #[test]
    fn lower_prices_are_dated() {
        let mut gpu = steady(1_800, 0.9);
        gpu.price = Some(Price {
            provider: Some("gcp".to_owned()),
            region: Some("europe-west3".to_owned()),
            instance_type: Some("a3-highgpu-8g".to_owned()),
            nano_usd_per_gpu_hour: 14_000_000_000,
            ..price()
        });
        let found = recommendations(&Settings { interruptible: false, ..Settings::default() }, gpu);
        assert_eq!(levers(&found), ["region", "provider"]);
        assert!(
            found[0].rationale.contains("us-central1 (gcp, 2026-08-06)"),
            "{}",
            found[0].rationale
        );
        assert!(found[1].rationale.contains("$6.88 per GPU-hour at aws"), "{}", found[1].rationale);
        assert!(found.iter().all(|one| one.saving.low == 0.0));
    }

    #[test]
    fn unpriced_and_non_hourly_gpus_are_skipped() {
        assert!(recommendations(&Settings::default(), unpriced(steady(3_600, 0.9))).is_empty());
        let owned = Price { plan: Some(Plan::Owned), ..price() };
        assert!(
            recommendations(&Settings::default(), Gpu { price: Some(owned), ..steady(3_600, 0.9) })
                .is_empty()
        );
        assert!(recommendations(&Settings::default(), steady(50, 0.9)).is_empty());
    }
}
