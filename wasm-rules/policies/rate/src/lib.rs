//! Recommends lower rates: spot capacity, commitments, another region or provider.
//!
//! Independent of utilization, but needs a known on-demand price: an estimate promises nothing. Spot
//! capacity is only for work that its owner has declared interruptible, and saves what this provider's
//! spot price in this region gives. Prices are the offers of the window: of the price book, or of pricing
//! policies, each with its source and date.

mod commitment;
mod place;

use phasemeter_diagnoses::{confidence, share};
use phasemeter_policy::format::{decimal, percent, usd};
use phasemeter_policy::{
    Effort, Gpu, Need, Offer, Plan, Price, Recommendation, Remediation, Response, Saving, Target,
    Window, evidence, groups, mean, same_model,
};

use commitment::{Commitment, HOURS_PER_MONTH, Observed};

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

/// What is added if GPUs can be paid for in several ways.
const ALTERNATIVES: &str =
    " Spot capacity, commitments, regions and providers are alternatives: one of them counts.";

/// A GPU with an hourly price.
struct Priced<'a> {
    gpu: &'a Gpu,
    price: &'a Price,
}

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
        let offers: Vec<_> = offers(&group, window).collect();
        let first = found.len();
        if settings.interruptible || group.iter().all(|priced| priced.gpu.interruptible) {
            match spot(&group, &offers) {
                Some(spot) => found.push(spot),
                None => needs.push(Need::new(
                    "spot_price",
                    "with this provider's spot price of this instance in this region, the saving can \
                     be computed; a pricing policy can give it",
                    group.iter().map(|priced| priced.gpu),
                )),
            }
        }
        found.extend(commitments(&group, &offers, settings));
        found.extend(place::region(&group, &offers, settings));
        found.extend(place::provider(&group, &offers, settings));
        if let [_, _, ..] = &found[first..] {
            found[first..].iter_mut().for_each(|one| one.rationale += ALTERNATIVES);
        }
    }
    Response::of(found, needs)
}

/// A lower rate for these GPUs, without texts and evidence.
fn draft(
    group: &[Priced<'_>],
    code: &str,
    lever: &str,
    saving: [f64; 3],
    sure: f64,
) -> Recommendation {
    let gpus = || group.iter().map(|priced| priced.gpu);
    Recommendation {
        saving: Saving::part(1.0, saving),
        confidence: sure * mean(gpus(), Gpu::confidence),
        effort: Effort::High,
        reversible: lever == "spot",
        ..Recommendation::new(code, Target::Rate, lever, gpus())
    }
}

/// The offers of the same model, each with a price of its own.
fn offers<'a>(group: &[Priced<'a>], window: &'a Window) -> impl Iterator<Item = &'a Offer> {
    let model = group.first().map(|priced| &*priced.gpu.model).unwrap_or_default();
    let exact = window.offers.iter().filter(|offer| !offer.price.estimated);
    exact.filter(move |offer| same_model(&offer.model, model))
}

/// Whether an offer is at the provider and in the region that are paid, and of the instance type, if that is
/// known.
fn is_here(offer: &Offer, paid: &Price) -> bool {
    let Price { provider, region, instance_type, .. } = &offer.price;
    provider.is_some()
        && *provider == paid.provider
        && *region == paid.region
        && (paid.instance_type.is_none() || *instance_type == paid.instance_type)
}

fn is_on_demand(offer: &Offer) -> bool {
    matches!(offer.price.plan, None | Some(Plan::OnDemand))
}

fn hourly(offer: &Offer) -> u64 {
    offer.price.nano_usd_per_gpu_hour
}

/// `aws us-east-1 (the price book, 2026-07-20)`.
fn origin(offer: &Offer) -> String {
    let Price { provider, region, source, as_of, .. } = &offer.price;
    let [provider, region] = [provider, region].map(|part| part.as_deref().unwrap_or_default());
    let date = as_of.as_ref().map(|date| [", ", date].concat()).unwrap_or_default();
    format!("{provider} {region} ({source}{date})")
}

/// The purchase of this offer, on the plan that the lever names.
fn buy(lever: &str, offer: &Offer) -> Remediation {
    let mut buy = Remediation::to_place("instance.plan", &offer.price);
    buy.parameters.push(("plan".to_owned(), lever.to_owned()));
    buy.unless(match lever {
        "spot" => "the work cannot be interrupted, or has saved no state",
        _ => "the work ends, or moves to another model, before the commitment does",
    })
}

/// Recommends spot capacity.
fn spot(group: &[Priced<'_>], offers: &[&Offer]) -> Option<Recommendation> {
    let Priced { price, .. } = group.first()?;
    let spot =
        offers.iter().filter(|offer| offer.price.plan == Some(Plan::Spot) && is_here(offer, price));
    let spot = spot.min_by_key(|offer| hourly(offer))?;
    let paid = price.nano_usd_per_gpu_hour;
    let saving = REWORK
        .map(|rework| f64::max(1.0 - hourly(spot) as f64 * (1.0 + rework) / paid as f64, 0.0));
    Some(Recommendation {
        title: "Run interruptible work on spot capacity".to_owned(),
        action: "Save state every few minutes and on the interruption notice, and restart automatically. Keep \
                 interactive work on demand: spot capacity is reclaimed within seconds to minutes, and may be \
                 unavailable."
            .to_owned(),
        rationale: format!(
            "Spot capacity costs {} per GPU-hour at {}, {} less than the {} paid. {} rework is assumed.",
            usd(hourly(spot)),
            origin(spot),
            percent(discount(hourly(spot), paid)),
            usd(paid),
            percent(REWORK[1]),
        ),
        evidence: evidence([
            ("spot.price", dollars(hourly(spot)), "{USD}/h"),
            ("spot.rework_share", REWORK[1], "1"),
            ("current.price", dollars(paid), "{USD}/h"),
        ]),
        remediation: Some(buy("spot", spot)),
        ..draft(group, "rate.spot", "spot", saving, confidence::NEARLY_CERTAIN)
    })
}

/// The terms: code, lever, plan, and what they are called.
const TERMS: [(&str, &str, Plan, &str); 2] = [
    ("rate.reserved-1y", "reserved_1y", Plan::ReservedOneYear, "one year"),
    ("rate.reserved-3y", "reserved_3y", Plan::ReservedThreeYears, "three years"),
];

/// Recommends commitments of one and three years, if their prices are known.
fn commitments(
    group: &[Priced<'_>],
    offers: &[&Offer],
    settings: &Settings,
) -> Vec<Recommendation> {
    let eligible = group.iter().filter(|priced| {
        let Observed { seconds, idle } = Observed::of(priced.gpu);
        seconds >= settings.min_commit_seconds && idle <= share::MOST
    });
    let eligible: Vec<_> = eligible.map(|Priced { gpu, price }| Priced { gpu, price }).collect();
    let Some(Priced { price, .. }) = eligible.first() else { return Vec::new() };
    let rate = price.nano_usd_per_gpu_hour;
    let recommendations = TERMS.into_iter().filter_map(|(code, lever, plan, term)| {
        let terms = offers.iter().filter(|offer| offer.price.plan == Some(plan) && is_here(offer, price));
        let terms = terms.min_by_key(|offer| hourly(offer))?;
        let commitment = Commitment { on_demand: rate, committed: hourly(terms) };
        let hours = settings.hours_per_month;
        let break_even = commitment.break_even_hours();
        let max = commitment.saving(HOURS_PER_MONTH);
        let (saving, confidence, usage) = if hours > 0.0 {
            let saving = commitment.saving(hours.min(HOURS_PER_MONTH)).max(0.0);
            ([saving; 3], confidence::PROBABLE, [&*decimal(hours, 0), " hours"].concat())
        } else {
            ([0.0, commitment.expected_saving(), max], confidence::UNLIKELY, "unknown hours".to_owned())
        };
        (saving[2] > 0.0).then(|| Recommendation {
            title: ["Commit to GPUs in constant use for ", term].concat(),
            action: format!(
                "Check the hours of use in the last months. Commit for {term} only to GPUs used at least {} hours per \
                 month.",
                decimal(break_even, 0),
            ),
            rationale: format!(
                "A commitment is paid for every hour, used or not. It costs less than on demand from {} of 720 hours \
                 per month. It saves {} at {usage} of use and {} at full use. On demand costs {} per hour, a committed \
                 hour {} at {}. Remove avoidable idle time first.",
                decimal(break_even, 0),
                percent(saving[1]),
                percent(max),
                usd(rate),
                usd(hourly(terms)),
                origin(terms),
            ),
            evidence: evidence([
                ("break_even", break_even, "h/mo"),
                ("committed.price", dollars(hourly(terms)), "{USD}/h"),
                ("current.price", dollars(rate), "{USD}/h"),
            ]),
            remediation: Some(buy(lever, terms)),
            ..draft(&eligible, code, lever, saving, confidence)
        })
    });
    recommendations.collect()
}

/// Returns how far `price` is below `current`, as a share of `current`.
fn discount(price: u64, current: u64) -> f64 {
    1.0 - price as f64 / current.max(1) as f64
}

fn dollars(nano_usd: u64) -> f64 {
    nano_usd as f64 / 1e9
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::HourOfWeek;
    use phasemeter_policy::testing::{price, steady, unpriced, window};

    use super::*;

    const A100: &str = "NVIDIA A100-SXM4-80GB";
    const H100: &str = "NVIDIA H100 80GB HBM3";

    fn respond(settings: &Settings, gpu: Gpu, offers: &[Offer]) -> Response {
        let window = Window { offers: offers.to_vec(), ..window(vec![gpu]) };
        recommend(settings, &window)
    }

    fn recommendations(settings: &Settings, gpu: Gpu, offers: &[Offer]) -> Vec<Recommendation> {
        respond(settings, gpu, offers).recommendations
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    fn at(provider: &str, region: &str, instance_type: &str, nano_usd: u64) -> Price {
        Price {
            provider: Some(provider.to_owned()),
            region: Some(region.to_owned()),
            instance_type: Some(instance_type.to_owned()),
            nano_usd_per_gpu_hour: nano_usd,
            ..price()
        }
    }

    fn offer(model: &str, plan: Plan, price: Price) -> Offer {
        let price = Price { plan: Some(plan), ..price };
        Offer { model: model.to_owned(), gpus: 1, memory_bytes: None, price }
    }

    fn interruptible(price: Price) -> Gpu {
        Gpu {
            price: Some(price),
            model: A100.to_owned(),
            interruptible: true,
            ..steady(3_600, 0.9)
        }
    }

    #[test]
    fn spot_needs_declared_work_and_a_price_of_this_place() {
        let here = |nano_usd| at("gcp", "us-central1", "a2-ultragpu-1g", nano_usd);
        let spot = [offer(A100, Plan::Spot, here(2_759_546_000))];
        let settings = Settings::default();
        let paid = interruptible(here(5_068_798_000));
        let found = recommendations(&settings, paid.clone(), &spot);
        let one = found.iter().find(|one| one.lever == "spot").unwrap();
        assert!(one.saving.expected < 0.456 && one.saving.expected > 0.4, "{:?}", one.saving);
        assert!(one.saving.low > 0.0, "a price of this provider and model, with its source");
        let bought = one.remediation.as_ref().unwrap().parameters.iter();
        let bought: Vec<_> = bought.map(|(_, value)| value.as_str()).collect();
        assert_eq!(bought[..4], ["gcp", "us-central1", "a2-ultragpu-1g", "spot"]);
        assert!(
            one.rationale.contains("gcp us-central1 (a test, 2026-07-20)"),
            "{}",
            one.rationale
        );
        let undeclared = Gpu { interruptible: false, ..paid.clone() };
        assert!(recommendations(&settings, undeclared.clone(), &spot).is_empty());
        let always = Settings { interruptible: true, ..Settings::default() };
        assert_eq!(levers(&recommendations(&always, undeclared, &spot)), ["spot"]);
        for other in [
            offer(A100, Plan::Spot, at("azure", "us-central1", "a2-ultragpu-1g", 2_759_546_000)),
            offer(A100, Plan::Spot, at("gcp", "us-east4", "a2-ultragpu-1g", 2_759_546_000)),
            offer(A100, Plan::Spot, at("gcp", "us-central1", "a2-ultragpu-8g", 2_759_546_000)),
            offer(H100, Plan::Spot, here(2_759_546_000)),
            offer(A100, Plan::Spot, Price { estimated: true, ..here(2_759_546_000) }),
        ] {
            let response = respond(&settings, paid.clone(), &[other]);
            assert!(response.recommendations.is_empty());
            assert_eq!(response.needs[0].missing, "spot_price");
        }
    }

    #[test]
    fn several_rates_are_called_alternatives() {
        let here = |nano_usd| at("gcp", "us-central1", "a2-ultragpu-1g", nano_usd);
        let spot = || offer(A100, Plan::Spot, here(2_759_546_000));
        let other = offer(A100, Plan::OnDemand, at("aws", "us-east-1", "p4de", 4_000_000_000));
        let found = |offers: &[Offer]| {
            recommendations(&Settings::default(), interruptible(here(5_068_798_000)), offers)
        };
        let both = found(&[spot(), other]);
        assert_eq!(levers(&both), ["spot", "provider"]);
        assert!(both.iter().all(|one| one.rationale.ends_with(ALTERNATIVES)));
        assert!(!found(&[spot()])[0].rationale.contains("alternatives"));
    }

    fn v100(seconds: usize) -> Gpu {
        let model = "Tesla V100-SXM2-16GB".to_owned();
        let price = at("aws", "us-east-1", "p3.2xlarge", 3_060_000_000);
        Gpu { model, price: Some(price), ..steady(seconds, 0.9) }
    }

    /// Published terms, as a price book of a user has them.
    fn terms() -> [Offer; 2] {
        let terms = |plan, nano_usd| {
            offer("Tesla V100-SXM2-16GB", plan, at("aws", "us-east-1", "p3.2xlarge", nano_usd))
        };
        [
            terms(Plan::ReservedOneYear, 1_820_000_000),
            terms(Plan::ReservedThreeYears, 1_310_000_000),
        ]
    }

    #[test]
    fn commitment_saving_depends_on_hours() {
        let at = |hours_per_month| {
            let settings =
                Settings { hours_per_month, min_commit_seconds: 3_600.0, ..Settings::default() };
            let found = recommendations(&settings, v100(3_600), &terms());
            found.into_iter().find(|one| one.lever == "reserved_1y").map(|a| a.saving.expected)
        };
        assert!((at(720.0).unwrap() - 0.4052).abs() < 1e-4);
        assert_eq!(at(400.0), None, "below break-even it costs more");
        let unknown = at(0.0).unwrap();
        assert!((unknown - 0.0963).abs() < 1e-3, "{unknown}");
    }

    #[test]
    fn commitment_needs_a_week_and_terms_of_its_model() {
        let found = |settings: &Settings, gpu, offers: &[Offer]| -> Vec<String> {
            recommendations(settings, gpu, offers).into_iter().map(|one| one.lever).collect()
        };
        assert!(found(&Settings::default(), v100(86_400), &terms()).is_empty());
        let week = found(&Settings::default(), v100(7 * 86_400), &terms());
        assert_eq!(week, ["reserved_1y", "reserved_3y"], "seven days by default");
        assert!(found(&Settings::default(), v100(7 * 86_400 - 3_600), &terms()).is_empty());
        // A sidecar's window is a day, of a run of a week.
        let sidecar = |idle_seconds| {
            let hour = HourOfWeek { observed_seconds: 3_600.0, idle_seconds };
            let mut gpu = v100(86_400);
            gpu.activity.week = vec![hour; 168];
            found(&Settings::default(), gpu, &terms())
        };
        assert_eq!(sidecar(600.0), week);
        assert!(sidecar(1_900.0).is_empty(), "idle half of the week, but not today");
        let short = Settings { min_commit_seconds: 3_600.0, ..Settings::default() };
        assert_eq!(found(&short, v100(3_600), &terms()), ["reserved_1y", "reserved_3y"]);
        assert!(found(&short, v100(3_600), &[]).is_empty(), "no terms");
        assert!(found(&short, steady(3_600, 0.9), &terms()).is_empty(), "no terms for an H100");
    }

    #[test]
    fn lower_prices_are_dated_and_compared_with_the_price_paid() {
        let offers = [
            offer(H100, Plan::OnDemand, at("gcp", "us-central1", "a3-highgpu-8g", 11_060_000_000)),
            offer(H100, Plan::OnDemand, at("gcp", "us-central1", "a3-highgpu-1g", 10_000_000_000)),
            offer(H100, Plan::OnDemand, at("aws", "us-east-1", "p5.48xlarge", 6_880_000_000)),
            offer(A100, Plan::OnDemand, at("aws", "us-east-1", "p4de.24xlarge", 3_430_000_000)),
        ];
        let mut gpu = steady(3_600, 0.9);
        gpu.price = Some(at("gcp", "europe-west3", "a3-highgpu-8g", 14_000_000_000));
        let found = recommendations(&Settings::default(), gpu.clone(), &offers);
        assert_eq!(levers(&found), ["region", "provider"]);
        let region = &found[0].rationale;
        assert!(region.contains("$11.06 at gcp us-central1 (a test, 2026-07-20)"), "{region}");
        let provider = &found[1].rationale;
        assert!(
            provider.contains("costs $14.00") && provider.contains("$6.88 at aws"),
            "{provider}"
        );
        assert!(found.iter().all(|one| one.saving.low == 0.0));
        gpu.price = Some(at("gcp", "europe-west3", "a3-highgpu-8g", 6_000_000_000));
        assert!(
            recommendations(&Settings::default(), gpu, &offers).is_empty(),
            "it pays less already"
        );
    }

    #[test]
    fn other_provider_is_compared_by_instances_of_one_size() {
        let of = |gpus: u32, price: Price| Offer { gpus, ..offer(H100, Plan::OnDemand, price) };
        let own = of(8, at("gcp", "us-central1", "a3-highgpu-8g", 14_000_000_000));
        let gpu = Gpu { price: Some(own.price.clone()), ..steady(3_600, 0.9) };
        let found = |others: &[Offer]| {
            let offers: Vec<_> = others.iter().chain([&own]).cloned().collect();
            recommendations(&Settings::default(), gpu.clone(), &offers)
        };
        let single = of(1, at("aws", "us-east-1", "p5.4xlarge", 6_880_000_000));
        assert!(found(&[single]).is_empty(), "eight GPUs need eight");
        let eight = of(8, at("aws", "us-east-1", "p5.48xlarge", 6_000_000_000));
        assert_eq!(levers(&found(std::slice::from_ref(&eight))), ["provider"]);
        // Another host here costs 8 of the 14 dollars, and the other provider two dollars less.
        let host = of(8, at("gcp", "us-central1", "a3-megagpu-8g", 8_000_000_000));
        let one = found(&[eight, host]).remove(0);
        assert!(one.rationale.contains("$8.00") && one.rationale.contains("25% less"));
        assert!((one.saving.high - 2.0 / 14.0).abs() < 1e-9, "{:?}", one.saving);
    }

    #[test]
    fn estimated_unpriced_and_other_plans_are_skipped() {
        let settings = Settings { interruptible: true, ..Settings::default() };
        let offers =
            [offer(H100, Plan::OnDemand, at("aws", "us-east-1", "p5.48xlarge", 6_880_000_000))];
        assert!(recommendations(&settings, unpriced(steady(3_600, 0.9)), &offers).is_empty());
        for change in [
            |price| Price { plan: Some(Plan::Owned), ..price },
            |price| Price { plan: Some(Plan::Spot), ..price },
            |price| Price { estimated: true, ..price },
        ] {
            let price = Some(change(at("gcp", "europe-west3", "a3-highgpu-8g", 14_000_000_000)));
            let gpu = Gpu { price, ..steady(3_600, 0.9) };
            assert!(respond(&settings, gpu, &offers).recommendations.is_empty());
        }
        assert!(recommendations(&settings, steady(1_200, 0.9), &offers).is_empty(), "20 minutes");
    }
}
