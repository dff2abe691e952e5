//! Offers: what GPUs cost that can be rented instead of those in use.
//!
//! They are of the providers and regions of the prices paid, and of the models in use elsewhere.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use phasemeter_environment::location::Location;
use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_meter::price::{Listing, PaymentPlan, Price, PriceBook};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::{MAX_OFFERS, Offer};

use super::Pricing;

/// Maximum number of offers at other places.
const MAX_ELSEWHERE: usize = 16;

/// Maximum fuel and time of all quotes for the offers of a window, which delay readings: as much as one
/// evaluation may use by default. List prices are kept for all further offers. Fuel decides, so that two
/// audits of a log have the same offers; the time protects overloaded machines.
const MAX_FUEL: u64 = 500_000_000;
const MAX_TIME: Duration = Duration::from_secs(1);

impl Pricing {
    /// The offers beside these models and their prices, at this wall time, at most [`MAX_OFFERS`]:
    ///
    /// 1. the instance types that are paid for;
    /// 2. the same models in another region, and at other providers;
    /// 3. all others of the providers and regions: those of the first price first, the cheapest first.
    ///
    /// If a price has no region, each instance type is in its cheapest one. A pricer's quote for the whole
    /// instance replaces the list price, unless the price paid is given. Pricers are not queried again
    /// after an error, or once they took long.
    pub fn offers<'a>(
        &mut self,
        used: impl IntoIterator<Item = (&'a str, &'a Price)>,
        time: Timestamp,
    ) -> Vec<Offer> {
        let mut places: Vec<(String, Option<String>)> = Vec::new();
        let mut paid: Vec<(&str, Price)> = Vec::new();
        for (model, price) in used {
            let Location { provider, region, .. } = self.options.any_location();
            let region = price.region.clone().or(region);
            if let Some(provider) = price.provider.clone().or(provider) {
                let place = (Some(provider.clone()), region.clone());
                let price = Price { provider: place.0, region: place.1, ..price.clone() };
                if !paid.iter().any(|known| *known == (model, price.clone())) {
                    paid.push((model, price));
                }
                if !places.contains(&(provider.clone(), region.clone())) {
                    places.push((provider, region));
                }
            }
        }
        let mut offers = Vec::new();
        let mut queries = self.options.given.is_none() && self.quotes.has_pricers();
        let (started, mut fuel) = (Instant::now(), 0);
        for listing in listings(&self.book, &places, &paid) {
            let mut price = None;
            if queries && listing.price.plan == Some(PaymentPlan::OnDemand) {
                let quoted = self.quotes.offer(&request(&listing, &self.options, time));
                fuel += quoted.fuel;
                queries = !quoted.failed && fuel < MAX_FUEL && started.elapsed() < MAX_TIME;
                price = quoted.price;
            }
            offers.push(offer(&listing, price.unwrap_or_else(|| listing.price.clone())));
        }
        offers
    }
}

/// The instances to offer, in order.
fn listings(
    book: &PriceBook,
    places: &[(String, Option<String>)],
    paid: &[(&str, Price)],
) -> Vec<Listing> {
    let beside = places.iter().flat_map(|(provider, region)| {
        let listings = book.listings(provider, region.as_deref());
        // A region that the book does not list is a private one.
        if listings.is_empty() { book.listings(provider, None) } else { listings }
    });
    let is_paid_for = |listing: &Listing| {
        let same = |(_, price): &(&str, Price)| {
            price.provider == listing.price.provider
                && price.instance_type == listing.price.instance_type
        };
        paid.iter().any(same)
    };
    let (own, others): (Vec<_>, Vec<_>) = beside.partition(is_paid_for);
    let elsewhere = paid.iter().flat_map(|(model, price)| book.elsewhere(model, price));
    let mut all: Vec<Listing> = Vec::new();
    for listing in own.into_iter().chain(elsewhere.take(MAX_ELSEWHERE)).chain(others) {
        if all.len() < MAX_OFFERS && !all.contains(&listing) {
            all.push(listing);
        }
    }
    all
}

fn request(listing: &Listing, options: &super::PriceOptions, time: Timestamp) -> QuoteRequest {
    let Price { provider, region, instance_type, .. } = listing.price.clone();
    QuoteRequest {
        model: listing.model.clone(),
        provider,
        region,
        instance_type,
        plan: None,
        time,
        gpus: NonZeroU32::new(listing.gpus).unwrap_or(NonZeroU32::MIN),
        priced: 0,
        listed: Some(listing.price.clone()),
        attributes: options.attributes.clone(),
        is_offer: true,
    }
}

fn offer(listing: &Listing, price: Price) -> Offer {
    Offer {
        model: listing.model.clone(),
        gpus: NonZeroU32::new(listing.gpus).unwrap_or(NonZeroU32::MIN),
        memory: GpuSpecs::of(&listing.model).and_then(|specs| specs.memory),
        price,
    }
}

#[cfg(test)]
mod tests {
    use super::super::PriceOptions;
    use super::*;
    use crate::policies::Quotes;
    use phasemeter_meter::money::Rate;

    const H100: &str = "NVIDIA H100 80GB HBM3";

    fn offers(prices: &[Price]) -> Vec<Offer> {
        let book = PriceBook::built_in();
        let mut pricing = Pricing::new(PriceOptions::default(), Quotes::default(), book);
        let used = prices.iter().map(|price| (H100, price));
        pricing.offers(used, Timestamp::EPOCH)
    }

    fn paid(provider: &str, region: Option<&str>) -> Price {
        let given = Price::given(Rate::new(3_000_000_000).unwrap(), None, "a test");
        let (provider, region) = (Some(provider.to_owned()), region.map(str::to_owned));
        Price { provider, region, ..given }
    }

    #[test]
    fn offers_are_of_the_provider_and_region_paid_and_bounded() {
        let all = offers(&[paid("aws", Some("us-east-1")), paid("aws", Some("us-east-1"))]);
        let (here, elsewhere): (Vec<_>, Vec<_>) =
            all.iter().partition(|offer| offer.price.region.as_deref() == Some("us-east-1"));
        assert!(here.len() > 40, "{}", here.len());
        let h100 = here.iter().find(|one| one.model == H100).unwrap();
        assert!(h100.memory.is_some() && h100.price.plan == Some(PaymentPlan::OnDemand));
        assert!(elsewhere.iter().all(|one| one.model == H100));
        let all = offers(&[paid("gcp", None), paid("aws", None), paid("azure", None)]);
        assert_eq!(all.len(), MAX_OFFERS);
        assert!(all.iter().any(|one| one.price.plan == Some(PaymentPlan::Spot)));
    }

    #[test]
    fn instance_type_paid_for_is_first_and_its_model_elsewhere_next() {
        let own = Price {
            instance_type: Some("a3-highgpu-1g".to_owned()),
            ..paid("gcp", Some("us-central1"))
        };
        let all = offers(&[own]);
        let named = |offer: &Offer| {
            let price = &offer.price;
            [&price.provider, &price.instance_type].map(|part| part.clone().unwrap_or_default())
        };
        let first: Vec<_> = all.iter().take(2).map(|one| (named(one), one.price.plan)).collect();
        let own = ["gcp", "a3-highgpu-1g"].map(str::to_owned);
        assert!(first.contains(&(own.clone(), Some(PaymentPlan::OnDemand))), "{first:?}");
        assert!(first.contains(&(own, Some(PaymentPlan::Spot))), "{first:?}");
        let next =
            all.iter().skip(2).take_while(|one| one.price.region.as_deref() != Some("us-central1"));
        let next: Vec<_> = next.map(|one| (named(one)[0].clone(), one.model.clone())).collect();
        assert!(next.iter().any(|(provider, _)| provider == "aws"), "{next:?}");
        assert!(next.iter().all(|(_, model)| model == H100), "{next:?}");
    }

    #[test]
    fn without_a_provider_there_are_no_offers() {
        let given = Price::given(Rate::new(3_000_000_000).unwrap(), None, "a test");
        assert!(offers(&[given]).is_empty() && offers(&[]).is_empty());
        let unlisted = offers(&[paid("ovh", None)]);
        assert!(
            unlisted.len() == 3 && unlisted.iter().all(|one| one.model == H100),
            "{unlisted:?}"
        );
    }
}
