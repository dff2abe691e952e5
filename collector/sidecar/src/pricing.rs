//! What a GPU costs: the user's word first, then pricing policies, then the price book.
//!
//! This room must not know of readings.

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceBook, Query, Unpriced};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;

use crate::advice::Quotes;

/// The source of a price that the user gave.
const GIVEN: &str = "given on the command line";

/// Prices GPUs.
pub struct Pricing {
    /// Dollars a GPU-hour, as the user gave them.
    pub given: Option<Rate>,
    /// What is asked for.
    pub provider: Option<String>,
    /// What is asked for.
    pub region: Option<String>,
    /// What is asked for.
    pub instance_type: Option<String>,
    /// What is asked for, or what the given price is of.
    pub plan: Option<Plan>,
    /// Who is asked before the book: they see what it lists.
    pub quotes: Quotes,
    /// The book.
    pub book: PriceBook,
}

impl Pricing {
    /// The price of a GPU of this model that is used from `at` on. A model keeps the price that it
    /// was first quoted.
    ///
    /// # Errors
    /// Where nobody knows; never $0 instead.
    pub fn price(&mut self, model: Option<&str>, at: Timestamp) -> Result<Price, Unpriced> {
        if let Some(rate) = self.given {
            return Ok(Price::given(rate, self.plan, GIVEN));
        }
        let listed = self.book.price(&Query {
            model,
            provider: self.provider.as_deref(),
            region: self.region.as_deref(),
            instance_type: self.instance_type.as_deref(),
            plan: self.plan,
        });
        let request = |model: &str| QuoteRequest {
            model: model.to_owned(),
            provider: self.provider.clone(),
            region: self.region.clone(),
            instance_type: self.instance_type.clone(),
            plan: self.plan,
            time: at,
            listed: listed.as_ref().ok().cloned(),
        };
        let request = model.filter(|model| !model.is_empty()).map(request);
        request.and_then(|request| self.quotes.price(&request)).map_or(listed, Ok)
    }
}
