//! Selects offers that can be compared with a price.

use crate::{Offer, Plan, Price, Window};

impl Window {
    /// Returns the on-demand offers of the same provider, and in the same region if that is known.
    pub fn offers_beside<'a>(&'a self, paid: &'a Price) -> impl Iterator<Item = &'a Offer> {
        self.offers.iter().filter(move |offer| {
            let Price { provider, region, plan, .. } = &offer.price;
            provider.is_some()
                && *provider == paid.provider
                && (paid.region.is_none() || *region == paid.region)
                && matches!(plan, None | Some(Plan::OnDemand))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{price, window, with_offers};

    #[test]
    fn offers_are_of_the_provider_and_region_paid() {
        let window = with_offers(window(Vec::new()));
        let count = |paid: &Price| window.offers_beside(paid).count();
        let all = window.offers.len();
        assert!(all > 0);
        assert_eq!(count(&price()), all);
        assert_eq!(count(&Price { region: None, ..price() }), all);
        assert_eq!(count(&Price { region: Some("eu-west-1".to_owned()), ..price() }), 0);
        assert_eq!(count(&Price { provider: None, ..price() }), 0);
    }
}
