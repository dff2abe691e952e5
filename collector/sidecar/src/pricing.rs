//! What a GPU costs: the user's word first, then the price book.
//!
//! This room must not know of readings. Pricing policies will stand between the two.

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceBook, Query, Unpriced};

/// The source of a price that the user gave.
const GIVEN: &str = "given on the command line";

/// Prices GPUs.
#[derive(Clone, Debug)]
pub struct Pricing {
    /// Dollars a GPU-hour, as the user gave them.
    pub given: Option<Rate>,
    /// What the book is asked for.
    pub provider: Option<String>,
    /// What the book is asked for.
    pub region: Option<String>,
    /// What the book is asked for.
    pub instance_type: Option<String>,
    /// What the book is asked for, or what the given price is of.
    pub plan: Option<Plan>,
    /// The book.
    pub book: PriceBook,
}

impl Pricing {
    /// The price of a GPU of this model.
    ///
    /// # Errors
    /// Where nobody knows; never $0 instead.
    pub fn price(&self, model: Option<&str>) -> Result<Price, Unpriced> {
        if let Some(rate) = self.given {
            return Ok(Price::given(rate, self.plan, GIVEN));
        }
        self.book.price(&Query {
            model,
            provider: self.provider.as_deref(),
            region: self.region.as_deref(),
            instance_type: self.instance_type.as_deref(),
            plan: self.plan,
        })
    }
}
