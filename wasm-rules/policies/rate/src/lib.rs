//! Recommends lower rates: spot capacity, commitments, another region or provider.
//!
//! Independent of utilization, but needs a known on-demand price: an estimate promises nothing. Spot
//! capacity is only for work that its owner has declared interruptible, and saves what this provider's
//! spot price in this region gives. Prices come from the project's tables, each with its date.

mod commitment;

use phasemeter_policy::format::{decimal, percent, usd};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Need, Plan, Policy, Price, Recommendation, Recommender,
    Response, Saving, Target, Window, groups, log, same_model,
};
use phasemeter_specs::{Model, instance};

use commitment::{Commitment, HOURS_PER_MONTH};

phasemeter_policy::settings! {
    /// Whether all jobs may be interrupted, also those without the attribute phasemeter.interruptible.
    interruptible: flag = false;
    /// Hours of use per month, of 720; 0 if unknown.
    hours_per_month: number = 0.0 in 0.0..=744.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 3600.0 in 0.0..=86400.0;
    /// Minimum observed time for commitments, in seconds.
    min_commit_seconds: number = 604800.0 in 0.0..=31536000.0;
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
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let priced = window.observed_gpus(settings.min_seconds).into_iter().filter_map(|gpu| {
            let price = gpu.price.as_ref()?;
            let is_hourly = matches!(price.plan, None | Some(Plan::OnDemand));
            (is_hourly && !price.estimated && gpu.bill() > 0).then_some(Priced { gpu, price })
        });
        let similar = |a: &Priced<'_>, b: &Priced<'_>| {
            same_model(&a.gpu.model, &b.gpu.model)
                && a.gpu.interruptible == b.gpu.interruptible
                && a.price.nano_usd_per_gpu_hour == b.price.nano_usd_per_gpu_hour
                && a.price.provider == b.price.provider
                && a.price.region == b.price.region
                && a.price.instance_type == b.price.instance_type
        };
        let (mut found, mut needs) = (Vec::new(), Vec::new());
        for group in groups(priced, similar) {
            if settings.interruptible || group.iter().all(|priced| priced.gpu.interruptible) {
                match spot(&group) {
                    Some(spot) => found.push(spot),
                    None => needs.push(Need::new(
                        "spot_price",
                        "with this provider's spot price of this instance in this region, the saving can \
                         be computed; a pricing policy can give it",
                        group.iter().map(|priced| priced.gpu),
                    )),
                }
            }
            found.extend(commitments(&group, settings));
            found.extend(region(&group, settings));
            found.extend(provider(&group, settings));
        }
        Response { recommendations: found, needs }
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
    evidence: Vec<(&'a str, f64, &'a str)>,
}

fn recommend(group: &[Priced<'_>], draft: Draft<'_>) -> Recommendation {
    let confidence = group.iter().map(|priced| priced.gpu.confidence());
    Recommendation {
        title: draft.title,
        action: draft.action,
        rationale: draft.rationale,
        saving: Saving::part(1.0, draft.saving),
        confidence: draft.confidence * confidence.sum::<f64>() / group.len() as f64,
        evidence: draft
            .evidence
            .into_iter()
            .map(|(name, value, unit)| Evidence::new(name, value, unit))
            .collect(),
        effort: Effort::High,
        reversible: draft.lever == "spot",
        ..Recommendation::new(
            draft.code,
            Target::Rate,
            draft.lever,
            group.iter().map(|priced| priced.gpu),
        )
    }
}

/// Recommends spot capacity.
fn spot(group: &[Priced<'_>]) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let spot = Model::of(&gpu.model).and_then(Model::spot)?;
    let is_listed = price.provider.as_deref() == Some(spot.provider)
        && price.region.as_deref() == Some(spot.region);
    if !is_listed {
        return None;
    }
    let rationale = format!(
        "Spot {} costs {} less than on demand in {} at {} ({}). {} rework is assumed.",
        spot.model,
        percent(spot.discount),
        spot.region,
        spot.provider,
        spot.as_of,
        percent(REWORK[1]),
    );
    // Relative to the price paid.
    let listed = Model::of(&gpu.model)?.lowest(Some(spot.provider))?;
    let hourly = (1.0 - spot.discount) * listed.nano_usd_per_gpu_hour as f64;
    let paid = price.nano_usd_per_gpu_hour as f64;
    let saving = REWORK.map(|rework| f64::max(1.0 - hourly * (1.0 + rework) / paid, 0.0));
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
            confidence: 0.9,
            evidence: vec![
                ("spot.discount", spot.discount, "1"),
                ("spot.rework_share", REWORK[1], "1"),
                ("current.price", dollars(price.nano_usd_per_gpu_hour), "{USD}/h"),
            ],
        },
    ))
}

/// Recommends commitments of one and three years.
fn commitments(group: &[Priced<'_>], settings: &Settings) -> Vec<Recommendation> {
    let eligible = group.iter().filter(|priced| {
        let accounts = priced.gpu.accounts;
        let has_terms = Commitment::is_for(&priced.gpu.model, priced.price.provider.as_deref());
        has_terms
            && accounts.observed().seconds >= settings.min_commit_seconds
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
             costs {} per hour; a committed hour costs about {}. Published terms: {} on demand, {} \
             committed, no upfront, aws. Remove avoidable idle time first.",
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
                ("break_even", break_even, "h/mo"),
                ("committed.share_of_list", commitment.ratio(), "1"),
                ("current.price", dollars(rate), "{USD}/h"),
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
            ("alternative.price", dollars(other.nano_usd_per_gpu_hour), "{USD}/h"),
            ("current.price", dollars(now), "{USD}/h"),
        ],
    };
    Some(recommend(group, draft))
}

/// Recommends another provider. Compares its list price with the price paid.
fn provider(group: &[Priced<'_>], settings: &Settings) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(provider) = price.provider.as_deref() else {
        log::info(&["provider of ", name(gpu), " unknown: no other provider recommended"].concat());
        return None;
    };
    let model = Model::of(&gpu.model)?;
    let other = model.lowest(None)?;
    let now = price.nano_usd_per_gpu_hour;
    let discount = discount(other.nano_usd_per_gpu_hour, now);
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
            "{} costs {} per GPU-hour at {provider} and is listed at {} at {} ({}, {}), {} less.",
            model.name,
            usd(now),
            usd(other.nano_usd_per_gpu_hour),
            other.provider,
            other.region,
            other.as_of,
            percent(discount),
        ),
        saving: REMAINING.map(|share| share * discount),
        confidence: 0.35,
        evidence: vec![
            ("alternative.price", dollars(other.nano_usd_per_gpu_hour), "{USD}/h"),
            ("current.price", dollars(now), "{USD}/h"),
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

    fn respond(settings: &Settings, gpu: Gpu) -> Response {
        Rate::recommend(settings, &window(vec![gpu]))
    }

    fn recommendations(settings: &Settings, gpu: Gpu) -> Vec<Recommendation> {
        respond(settings, gpu).recommendations
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    fn at(provider: &str, region: &str, instance_type: &str, nano_usd: u64) -> Option<Price> {
        Some(Price {
            provider: Some(provider.to_owned()),
            region: Some(region.to_owned()),
            instance_type: Some(instance_type.to_owned()),
            nano_usd_per_gpu_hour: nano_usd,
            ..price()
        })
    }

    fn interruptible(price: Option<Price>) -> Gpu {
        let model = "NVIDIA A100-SXM4-80GB".to_owned();
        Gpu { price, model, interruptible: true, ..steady(3_600, 0.9) }
    }

    #[test]
    fn spot_needs_declared_work_and_a_price_of_this_region() {
        let listed = at("gcp", "us-central1", "a2-ultragpu-1g", 5_068_799_996);
        let settings = Settings::default();
        let found = recommendations(&settings, interruptible(listed.clone()));
        let spot = found.iter().find(|one| one.lever == "spot").unwrap();
        assert!(spot.saving.expected < 0.456 && spot.saving.expected > 0.4, "{:?}", spot.saving);
        let undeclared = Gpu { interruptible: false, ..interruptible(listed) };
        assert!(!levers(&recommendations(&settings, undeclared.clone())).contains(&"spot"));
        let always = Settings { interruptible: true, ..Settings::default() };
        assert!(levers(&recommendations(&always, undeclared)).contains(&"spot"));
        let azure = at("azure", "eastus", "Standard_NC24ads_A100_v4", 3_673_000_000);
        let response = respond(&settings, interruptible(azure));
        assert!(!levers(&response.recommendations).contains(&"spot"));
        assert_eq!(response.needs[0].missing, "spot_price");
    }

    fn v100(seconds: usize) -> Gpu {
        let model = "Tesla V100-SXM2-16GB".to_owned();
        let price = at("aws", "us-east-1", "p3.2xlarge", 3_060_000_000);
        Gpu { model, price, ..steady(seconds, 0.9) }
    }

    #[test]
    fn commitment_saving_depends_on_hours() {
        let at = |hours_per_month| {
            let settings =
                Settings { hours_per_month, min_commit_seconds: 3_600.0, ..Settings::default() };
            let found = recommendations(&settings, v100(3_600));
            found.into_iter().find(|one| one.lever == "reserved_1y").map(|a| a.saving.expected)
        };
        assert!((at(720.0).unwrap() - 0.4052).abs() < 1e-4);
        assert_eq!(at(400.0), None, "below break-even it costs more");
        let unknown = at(0.0).unwrap();
        assert!((unknown - 0.0963).abs() < 1e-3, "{unknown}");
    }

    #[test]
    fn commitment_needs_a_week_and_terms_of_its_model() {
        let reserved = |settings: &Settings, gpu| {
            levers(&recommendations(settings, gpu)).contains(&"reserved_1y")
        };
        assert!(!reserved(&Settings::default(), v100(86_400)));
        let short = Settings { min_commit_seconds: 3_600.0, ..Settings::default() };
        assert!(reserved(&short, v100(3_600)));
        assert!(!reserved(&short, steady(3_600, 0.9)), "no terms for an H100");
    }

    #[test]
    fn lower_prices_are_dated_and_compared_with_the_price_paid() {
        let mut gpu = steady(3_600, 0.9);
        gpu.price = at("gcp", "europe-west3", "a3-highgpu-8g", 14_000_000_000);
        let found = recommendations(&Settings::default(), gpu.clone());
        assert_eq!(levers(&found), ["region", "provider"]);
        assert!(
            found[0].rationale.contains("us-central1 (gcp, 2026-08-06)"),
            "{}",
            found[0].rationale
        );
        assert!(found[1].rationale.contains("costs $14.00"), "{}", found[1].rationale);
        assert!(found.iter().all(|one| one.saving.low == 0.0));
        gpu.price = at("gcp", "europe-west3", "a3-highgpu-8g", 6_000_000_000);
        assert!(recommendations(&Settings::default(), gpu).is_empty(), "it pays less already");
    }

    #[test]
    fn estimated_unpriced_and_other_plans_are_skipped() {
        let settings = Settings { interruptible: true, ..Settings::default() };
        assert!(recommendations(&settings, unpriced(steady(3_600, 0.9))).is_empty());
        for change in [
            |price| Price { plan: Some(Plan::Owned), ..price },
            |price| Price { plan: Some(Plan::Spot), ..price },
            |price| Price { estimated: true, ..price },
        ] {
            let price = at("gcp", "europe-west3", "a3-highgpu-8g", 14_000_000_000).map(change);
            assert!(
                respond(&settings, Gpu { price, ..steady(3_600, 0.9) }).recommendations.is_empty()
            );
        }
        assert!(recommendations(&settings, steady(1_200, 0.9)).is_empty(), "20 minutes");
    }
}
