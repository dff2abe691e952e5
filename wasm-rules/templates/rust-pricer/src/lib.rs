//! Prices GPUs at a discount on the list price.

use phasemeter_policy::format::percent;
use phasemeter_policy::{Plan, Policy, Pricer, Quote, QuoteRequest};

phasemeter_policy::settings! {
    /// Discount, as a share of the list price.
    discount: number = 0.1 in 0.0..=1.0;
}

struct Mine;

impl Policy for Mine {
    const NAME: &'static str = "my-policy";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    type Settings = Settings;
}

impl Pricer for Mine {
    /// Returns `None` for GPUs that the contract does not cover: the next pricer is queried, and at
    /// last the list price applies.
    fn quote(settings: &Settings, request: &QuoteRequest) -> Option<Quote> {
        let listed = request.listed.as_ref()?;
        // The discount is on the hourly price. `request.attributes` are those of the run: a price may
        // depend on the team. With `request.is_offer` the GPUs are only compared with those in use.
        if ![request.plan, listed.plan].iter().all(|plan| matches!(plan, None | Some(Plan::OnDemand))) {
            return None;
        }
        let price = listed.nano_usd_per_gpu_hour as f64 * (1.0 - settings.discount);
        Some(Quote {
            nano_usd_per_gpu_hour: (price + 0.5) as u64,
            plan: Plan::OnDemand,
            source: ["my contract: ", &percent(settings.discount), " off list price"].concat(),
            as_of: listed.as_of.clone().unwrap_or_else(|| "2026-01-01".to_owned()),
            valid_from: None,
            valid_until: None,
            gpus: None,
        })
    }
}

phasemeter_policy::pricer!(Mine);

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_policy::testing::request;

    #[test]
    fn discount_is_on_the_hourly_list_price() {
        let quote = Mine::quote(&Settings { discount: 0.25 }, &request()).unwrap();
        assert_eq!(quote.nano_usd_per_gpu_hour, 2_700_000_000);
        let spot = QuoteRequest { plan: Some(Plan::Spot), ..request() };
        assert!(Mine::quote(&Settings::default(), &spot).is_none());
        let unlisted = QuoteRequest { listed: None, ..request() };
        assert!(Mine::quote(&Settings::default(), &unlisted).is_none());
    }
}
