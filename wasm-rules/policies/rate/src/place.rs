//! The same GPUs in another region or at another provider, by their list prices.

use phasemeter_diagnoses::{confidence, saved};
use phasemeter_policy::format::{percent, usd};
use phasemeter_policy::{Evidence, Gpu, Offer, Price, Recommendation, Remediation, evidence, log};

use crate::{Priced, Settings, discount, dollars, draft, hourly, is_on_demand, origin};

/// Recommends the same instance type in another region.
pub(crate) fn region(
    group: &[Priced<'_>],
    offers: &[&Offer],
    settings: &Settings,
) -> Option<Recommendation> {
    let Priced { price, .. } = group.first()?;
    let current = price.region.as_deref()?;
    let instance_type = price.instance_type.as_deref()?;
    let others = offers.iter().filter(|offer| {
        is_on_demand(offer)
            && offer.price.provider == price.provider
            && offer.price.instance_type == price.instance_type
            && offer.price.region.as_deref().is_some_and(|region| region != current)
    });
    let other = others.min_by_key(|offer| hourly(offer))?;
    let region = other.price.region.as_deref()?;
    let now = price.nano_usd_per_gpu_hour;
    let discount = discount(hourly(other), now);
    if discount < settings.min_discount {
        return None;
    }
    Some(Recommendation {
        title: ["Run in ", region].concat(),
        action: format!(
            "Run these jobs in {region} if their data may be stored there. Include the cost of data \
             transfer and the latency for users.",
        ),
        rationale: format!(
            "{instance_type} costs {} per GPU-hour in {current} and {} at {}, {} less.",
            usd(now),
            usd(hourly(other)),
            origin(other),
            percent(discount),
        ),
        evidence: prices(other, now),
        remediation: Some(
            Remediation::to_place("instance.move", &other.price)
                .unless("data or users are bound to this region"),
        ),
        ..draft(
            group,
            "rate.region",
            "region",
            saved::HALF.map(|it| it * discount),
            confidence::DOUBTFUL,
        )
    })
}

/// Recommends another provider. Compares its price with the price paid.
pub(crate) fn provider(
    group: &[Priced<'_>],
    offers: &[&Offer],
    settings: &Settings,
) -> Option<Recommendation> {
    let Priced { gpu, price } = group.first()?;
    let Some(provider) = price.provider.as_deref() else {
        log::info(&["provider of ", name(gpu), " unknown: no other provider recommended"].concat());
        return None;
    };
    // Work on several GPUs of an instance needs as many there.
    let own = offers.iter().find(|offer| offer.price.instance_type == price.instance_type);
    let as_many: Vec<_> = offers
        .iter()
        .filter(|offer| is_on_demand(offer) && own.is_none_or(|own| offer.gpus == own.gpus))
        .collect();
    let is_of = |offer: &Offer, provider: &str| offer.price.provider.as_deref() == Some(provider);
    // What another host saves here is not a saving of the other provider.
    let here = as_many.iter().filter(|it| is_of(it, provider) && it.price.region == price.region);
    let paid = price.nano_usd_per_gpu_hour;
    let now = here.map(|offer| hourly(offer)).fold(paid, u64::min);
    let elsewhere = as_many.iter().filter(|it| !is_of(it, provider) && it.price.provider.is_some());
    let other = elsewhere.min_by_key(|offer| hourly(offer))?;
    let discount = discount(hourly(other), now);
    let of_bill = discount * now as f64 / paid.max(1) as f64;
    let Price { provider: Some(there), region, instance_type, .. } = &other.price else {
        return None;
    };
    if discount < settings.min_discount {
        return None;
    }
    let [region, instance_type] =
        [region, instance_type].map(|part| part.as_deref().unwrap_or_default());
    Some(Recommendation {
        title: ["Request a quote from ", there].concat(),
        action: format!(
            "Request a quote from {there} for {instance_type} in {region}, and confirm capacity. Include \
             the cost of moving data and of replacing {provider} services.",
        ),
        rationale: format!(
            "{} costs {} per GPU-hour at {provider} and {} at {}, {} less.",
            other.model,
            usd(now),
            usd(hourly(other)),
            origin(other),
            percent(discount),
        ),
        evidence: prices(other, now),
        remediation: Some(
            Remediation::to_place("quote.request", &other.price)
                .unless("a contract or the place of the data binds the work to this provider"),
        ),
        ..draft(
            group,
            "rate.provider",
            "provider",
            saved::HALF.map(|it| it * of_bill),
            confidence::DOUBTFUL,
        )
    })
}

/// The prices elsewhere and now.
fn prices(other: &Offer, now: u64) -> Vec<Evidence> {
    evidence([
        ("alternative.price", dollars(hourly(other)), "{USD}/h"),
        ("current.price", dollars(now), "{USD}/h"),
    ])
}

/// Returns the model, for people.
fn name(gpu: &Gpu) -> &str {
    if gpu.model.is_empty() { "a GPU of unknown model" } else { &gpu.model }
}
