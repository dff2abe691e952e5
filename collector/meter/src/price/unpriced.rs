//! Why there is no price, in one sentence for people.

use super::Plan;

/// Why the price book has no price. What is unpriced is shown as such, never as $0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// There was nothing to look up.
    #[error("neither the GPU's model nor its instance type is known: give one of them, or a price")]
    NothingKnown,
    /// No row has this GPU model.
    #[error("the price book has no GPU model '{model}'{}", did_you_mean(.near))]
    UnknownModel {
        /// As it was asked for.
        model: String,
        /// Models that are spelled like it.
        near: Vec<&'static str>,
    },
    /// No row has this instance type.
    #[error("the price book has no instance type '{instance_type}'{}", did_you_mean(.near))]
    UnknownInstanceType {
        /// As it was asked for.
        instance_type: String,
        /// Instance types that are spelled like it.
        near: Vec<&'static str>,
    },
    /// No row has this provider.
    #[error("the price book has no provider '{provider}': it knows {}", listed(.known, "and"))]
    UnknownProvider {
        /// As it was asked for.
        provider: String,
        /// All that there are.
        known: Vec<&'static str>,
    },
    /// No row has this region, or none of the provider that was asked for.
    #[error(
        "the price book has no region '{region}'{}{}",
        of(.provider.as_deref()),
        did_you_mean(.near)
    )]
    UnknownRegion {
        /// As it was asked for.
        region: String,
        /// The provider that was asked for.
        provider: Option<String>,
        /// Regions that are spelled like it.
        near: Vec<&'static str>,
    },
    /// The book lists no prices of this plan at all.
    #[error("the price book lists on_demand and spot prices, none for {0}: give the price itself")]
    PlanNotListed(Plan),
    /// The book has the instance type or model, but not of this plan at this place.
    #[error(
        "the price book lists no {plan} price for '{what}'{}{}: another plan, provider or region \
         has one",
        of(.provider.as_deref()),
        within(.region.as_deref())
    )]
    NotListed {
        /// The instance type or model that was asked for.
        what: String,
        /// The plan that was asked for, or on demand.
        plan: Plan,
        /// The provider that was asked for.
        provider: Option<String>,
        /// The region that was asked for.
        region: Option<String>,
    },
}

fn did_you_mean(near: &[&str]) -> String {
    if near.is_empty() { String::new() } else { format!(": did you mean {}?", listed(near, "or")) }
}

fn of(provider: Option<&str>) -> String {
    provider.map(|provider| format!(" of {provider}")).unwrap_or_default()
}

fn within(region: Option<&str>) -> String {
    region.map(|region| format!(" in {region}")).unwrap_or_default()
}

/// `a, b and c`.
fn listed(names: &[&str], last_word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} {last_word} {last}", first.join(", ")),
    }
}
