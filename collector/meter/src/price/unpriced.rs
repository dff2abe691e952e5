//! Why the price book has no price: one-line errors with a fix.

use super::plan::PaymentPlan;

/// Why the price book has no price. Unpriced time is reported as such, never as $0.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unpriced {
    /// Neither model nor instance type is known.
    #[error("model and instance type are unknown; specify one of them, or a price")]
    NothingKnown,
    /// Neither the rows nor the specifications have this GPU model.
    #[error("unknown GPU model '{model}'{}", did_you_mean(.suggestions))]
    UnknownModel {
        /// As queried.
        model: String,
        /// Similar models.
        suggestions: Vec<String>,
    },
    /// The model is known, and no row has it.
    #[error("no list price for '{model}'; specify the price")]
    ModelNotListed {
        /// As queried.
        model: String,
    },
    /// The model became known after its price had changed, so earlier time cannot be priced.
    #[error(
        "the model '{model}' is in the log only after a change of its price; specify the model"
    )]
    ModelTooLate {
        /// The model.
        model: String,
    },
    /// Why another meter, which states what the GPU costs, has no price for it.
    #[error("{0}")]
    Stated(String),
    /// No row has this instance type.
    #[error("unknown instance type '{instance_type}'{}", did_you_mean(.suggestions))]
    UnknownInstanceType {
        /// As queried.
        instance_type: String,
        /// Similar instance types.
        suggestions: Vec<String>,
    },
    /// No row has this provider.
    #[error("unknown provider '{provider}': expected {}", join_with_or(.known))]
    UnknownProvider {
        /// As queried.
        provider: String,
        /// All providers in the book.
        known: Vec<String>,
    },
    /// No row has this region, or none of the queried provider.
    #[error(
        "unknown region '{region}'{}{}",
        of(.provider.as_deref()),
        did_you_mean(.suggestions)
    )]
    UnknownRegion {
        /// As queried.
        region: String,
        /// The queried provider.
        provider: Option<String>,
        /// Similar regions.
        suggestions: Vec<String>,
    },
    /// The book has no prices of this plan.
    #[error("no list prices for plan {0}, only for on_demand and spot; specify the price")]
    PlanNotListed(PaymentPlan),
    /// The book has the instance type or model, but not with this plan in this location.
    #[error(
        "no {plan} list price for '{what}'{}{}; try another plan, provider or region",
        of(.provider.as_deref()),
        within(.region.as_deref())
    )]
    NotListed {
        /// The queried instance type or model.
        what: String,
        /// The queried plan; on demand by default.
        plan: PaymentPlan,
        /// The queried provider.
        provider: Option<String>,
        /// The queried region.
        region: Option<String>,
    },
}

fn did_you_mean(suggestions: &[String]) -> String {
    if suggestions.is_empty() {
        String::new()
    } else {
        format!("; did you mean {}?", join_with_or(suggestions))
    }
}

fn of(provider: Option<&str>) -> String {
    provider.map(|provider| format!(" of {provider}")).unwrap_or_default()
}

fn within(region: Option<&str>) -> String {
    region.map(|region| format!(" in {region}")).unwrap_or_default()
}

/// `a, b or c`.
fn join_with_or(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
