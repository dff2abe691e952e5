//! Offers: what GPUs cost that can be rented instead of those in use.
//!
//! They are of the providers and regions of the prices paid. Must not depend on how a window is built.

use std::num::NonZeroU32;

use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_meter::price::{Listing, Plan, Price};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;
use phasemeter_rules::window::{MAX_OFFERS, Offer};

use super::{Location, Pricing};

impl Pricing {
    /// The offers beside these prices, at this wall time: of the provider and region of the first price,
    /// the cheapest first, then of the next ones, at most [`MAX_OFFERS`]. If a price has no region, each
    /// instance type is in its cheapest one. A pricer's quote replaces the list price; after an error,
    /// pricers are not queried again.
    pub fn offers<'a>(
        &mut self,
        prices: impl IntoIterator<Item = &'a Price>,
        time: Timestamp,
    ) -> Vec<Offer> {
        let mut places: Vec<(String, Option<String>)> = Vec::new();
        for price in prices {
            let Location { provider, region, .. } = self.options.any_location();
            let region = price.region.clone().or(region);
            if let Some(provider) = price.provider.clone().or(provider)
                && !places.contains(&(provider.clone(), region.clone()))
            {
                places.push((provider, region));
            }
        }
        let (book, options) = (&self.book, &self.options);
        let listings = places.iter().flat_map(|(provider, region)| {
            let listings = book.listings(provider, region.as_deref());
            // A region that the book does not list is a private one.
            if listings.is_empty() { book.listings(provider, None) } else { listings }
        });
        let mut queries = self.quotes.has_pricers();
        let mut offers = Vec::new();
        for listing in listings.take(MAX_OFFERS) {
            if queries && listing.price.plan == Some(Plan::OnDemand) {
                let quoted = self.quotes.query(&request(&listing, options, time));
                queries = !quoted.failed;
                if let Some(quoted) = quoted.quotes.into_iter().next() {
                    offers.push(offer(&listing, quoted.price));
                    continue;
                }
            }
            offers.push(offer(&listing, listing.price.clone()));
        }
        offers
    }
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
    use phasemeter_meter::money::Rate;
    use phasemeter_meter::price::PriceBook;

    use super::super::PriceOptions;
    use super::*;
    use crate::policies::Quotes;

    fn offers(prices: &[Price]) -> Vec<Offer> {
        let book = PriceBook::built_in();
        let mut pricing = Pricing::new(PriceOptions::default(), Quotes::default(), book);
        pricing.offers(prices, Timestamp::EPOCH)
    }

    fn paid(provider: &str, region: Option<&str>) -> Price {
        let given = Price::given(Rate::new(3_000_000_000).unwrap(), None, "a test");
        let (provider, region) = (Some(provider.to_owned()), region.map(str::to_owned));
        Price { provider, region, ..given }
    }

    #[test]
    fn offers_are_of_the_provider_and_region_paid_and_bounded() {
        let all = offers(&[paid("aws", Some("us-east-1")), paid("aws", Some("us-east-1"))]);
        let is_there = |offer: &Offer| offer.price.region.as_deref() == Some("us-east-1");
        assert!(all.len() > 40 && all.iter().all(is_there), "{}", all.len());
        let h100 = all.iter().find(|one| one.model == "NVIDIA H100 80GB HBM3").unwrap();
        assert!(h100.memory.is_some() && h100.price.plan == Some(Plan::OnDemand));
        let all = offers(&[paid("gcp", None), paid("aws", None), paid("azure", None)]);
        assert_eq!(all.len(), MAX_OFFERS);
        assert_eq!(all[0].price.provider.as_deref(), Some("gcp"));
        assert!(all.iter().any(|one| one.price.plan == Some(Plan::Spot)));
    }

    #[test]
    fn without_a_provider_there_are_no_offers() {
        let given = Price::given(Rate::new(3_000_000_000).unwrap(), None, "a test");
        assert!(offers(&[given, paid("ovh", None)]).is_empty() && offers(&[]).is_empty());
    }
}
