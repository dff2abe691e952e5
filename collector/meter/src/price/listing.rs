//! Instances that the price book lists, to compare with: those of a provider, and those of a model
//! elsewhere.

use super::book::PriceBook;
use super::plan::PaymentPlan;
use super::priced::Price;
use super::row::{BookRow, LISTED_PLANS, ListedPrice};
use crate::gpu_specs::same_model;

/// An instance type with its price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// The driver's product name of its GPUs.
    pub model: String,
    /// GPUs of an instance.
    pub gpus: u32,
    /// Price per GPU-hour.
    pub price: Price,
}

impl PriceBook {
    /// The instance types of a provider, by each plan, the cheapest GPU first: in a region, or each in
    /// its cheapest region. Empty if the book does not list the provider or the region.
    #[must_use]
    pub fn listings(&self, provider: &str, region: Option<&str>) -> Vec<Listing> {
        let rows = self.rows().iter().filter(|row| {
            row.provider.eq_ignore_ascii_case(provider)
                && region.is_none_or(|region| row.region.eq_ignore_ascii_case(region))
        });
        let prices = rows.flat_map(|row| {
            LISTED_PLANS.into_iter().filter_map(move |plan| Some((row, plan, row.listed(plan)?)))
        });
        let mut prices: Vec<_> = prices.collect();
        prices.sort_by(|(a, plan, cheap), (b, other, dear)| {
            let place = |plan| LISTED_PLANS.iter().position(|listed| *listed == plan);
            let rates = cheap.rate.cmp(&dear.rate);
            rates
                .then_with(|| a.instance_type.cmp(&b.instance_type))
                .then_with(|| place(*plan).cmp(&place(*other)))
                .then_with(|| a.region.cmp(&b.region))
        });
        let mut found: Vec<Listing> = Vec::new();
        for (row, plan, listed) in prices {
            let same = |one: &Listing| {
                one.price.plan == Some(plan)
                    && one.price.instance_type.as_deref() == Some(&*row.instance_type)
            };
            if !found.iter().any(same) {
                found.push(listing(row, plan, listed));
            }
        }
        found
    }

    /// Instances of a model on demand elsewhere, the cheapest GPU first: of each other provider the cheapest
    /// one with no more GPUs than the instance that is paid for, and that instance type in the provider's
    /// cheapest other region. Empty if the provider paid is unknown.
    #[must_use]
    pub fn elsewhere(&self, model: &str, paid: &Price) -> Vec<Listing> {
        let Some(provider) = paid.provider.as_deref() else { return Vec::new() };
        let is = |name: &Option<String>, other: &str| {
            name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(other))
        };
        let is_paid_for = |row: &&BookRow| {
            row.provider.eq_ignore_ascii_case(provider)
                && is(&paid.instance_type, &row.instance_type)
        };
        let size = self.rows().iter().find(is_paid_for).map_or(u32::MAX, |row| row.gpus);
        let rows =
            self.rows().iter().filter(|row| row.gpus <= size && same_model(&row.model, model));
        let mut found: Vec<(&BookRow, &ListedPrice)> = Vec::new();
        for row in rows {
            let Some(price) = row.listed(PaymentPlan::OnDemand) else { continue };
            let is_other_region = paid.region.is_some()
                && !is(&paid.region, &row.region)
                && is(&paid.instance_type, &row.instance_type);
            if row.provider.eq_ignore_ascii_case(provider) && !is_other_region {
                continue;
            }
            match found.iter_mut().find(|(other, _)| other.provider == row.provider) {
                Some(cheapest) if price.rate < cheapest.1.rate => *cheapest = (row, price),
                Some(_) => {}
                None => found.push((row, price)),
            }
        }
        found.sort_by_key(|(_, price)| price.rate);
        found.into_iter().map(|(row, price)| listing(row, PaymentPlan::OnDemand, price)).collect()
    }
}

fn listing(row: &BookRow, plan: PaymentPlan, listed: &ListedPrice) -> Listing {
    Listing {
        model: row.model.to_string(),
        gpus: row.gpus,
        price: Price {
            provider: Some(row.provider.to_string()),
            region: Some(row.region.to_string()),
            instance_type: Some(row.instance_type.to_string()),
            as_of: Some(listed.as_of),
            ..Price::given(listed.rate, Some(plan), listed.source.to_string())
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listings(provider: &str, region: Option<&str>) -> Vec<Listing> {
        PriceBook::built_in().listings(provider, region)
    }

    #[test]
    fn listings_are_of_one_provider_and_region_and_cheapest_first() {
        let all = listings("aws", Some("us-east-1"));
        assert!(all.len() > 40, "{}", all.len());
        assert!(all.is_sorted_by_key(|one| one.price.rate.nano_usd_per_hour()));
        let p5 = all
            .iter()
            .find(|one| one.price.instance_type.as_deref() == Some("p5.48xlarge"))
            .unwrap();
        assert_eq!((&*p5.model, p5.gpus), ("NVIDIA H100 80GB HBM3", 8));
        assert_eq!(p5.price.rate.nano_usd_per_hour(), 6_880_000_000);
        assert_eq!(p5.price.source, "aws/karpenter-provider-aws");
        assert!(listings("aws", Some("moon-1")).is_empty() && listings("ovh", None).is_empty());
    }

    #[test]
    fn instance_type_is_listed_once_per_plan_in_its_cheapest_region() {
        let all = listings("gcp", None);
        let a2: Vec<_> = all
            .iter()
            .filter(|one| one.price.instance_type.as_deref() == Some("a2-highgpu-1g"))
            .map(|one| (one.price.plan, one.price.rate.nano_usd_per_hour()))
            .collect();
        let in_region = listings("gcp", Some("us-central1"));
        let least = |plan| {
            let of_plan = a2.iter().find(|(it, _)| *it == Some(plan)).unwrap();
            in_region.iter().all(|one| {
                one.price.instance_type.as_deref() != Some("a2-highgpu-1g")
                    || one.price.plan != Some(plan)
                    || of_plan.1 <= one.price.rate.nano_usd_per_hour()
            })
        };
        assert_eq!(a2.len(), 2);
        assert!(least(PaymentPlan::OnDemand) && least(PaymentPlan::Spot));
    }

    #[test]
    fn elsewhere_is_another_provider_or_the_same_instance_in_another_region() {
        let paid = |provider: &str, region: &str, instance_type: &str| Price {
            provider: Some(provider.to_owned()),
            region: Some(region.to_owned()),
            instance_type: Some(instance_type.to_owned()),
            ..Price::given(crate::money::Rate::ZERO, None, "a test")
        };
        let places = |model: &str, paid: &Price| -> Vec<_> {
            let found = PriceBook::built_in().elsewhere(model, paid).into_iter();
            let place =
                |one: Listing| [one.price.provider, one.price.region, Some(one.gpus.to_string())];
            found.map(|one| place(one).map(Option::unwrap_or_default).join(" ")).collect()
        };
        let h100 = "NVIDIA H100 80GB HBM3";
        assert_eq!(
            places(h100, &paid("gcp", "europe-west3", "a3-highgpu-8g")),
            ["aws us-east-1 8", "gcp us-central1 8", "azure eastus 8"]
        );
        assert_eq!(
            places(h100, &paid("aws", "us-east-1", "p5.4xlarge")),
            ["gcp us-central1 1"],
            "aws is listed in one region, and no instance of azure has a single one"
        );
        let unknown = Price { provider: None, ..paid("", "", "") };
        assert!(places(h100, &unknown).is_empty() && places("-", &paid("aws", "", "")).is_empty());
    }
}
