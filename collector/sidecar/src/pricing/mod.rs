//! What a GPU costs: the user's word first, then pricing policies, then the price book.
//!
//! A price holds until its end; then the policies are asked again. This room must not know of
//! readings: it is told when it is.

mod schedule;

pub use schedule::{EarlierPrices, ExpiredPrice, MAX_EARLIER_TERMS, MIN_QUOTE_INTERVAL, Term};

use std::collections::BTreeMap;

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceBook, Query, Unpriced};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;

use self::schedule::PriceSchedule;
use crate::policies::{PricerStats, QuoteResult, QuotedPrice, Quotes};

/// The source of a price that the user gave.
const USER_SOURCE: &str = "given on the command line";

/// What the user says of prices.
#[derive(Clone, Debug, Default)]
pub struct PriceOptions {
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
}

/// Prices GPUs.
pub struct Pricing {
    options: PriceOptions,
    /// Who is asked before the book: they see what it lists.
    quotes: Quotes,
    book: PriceBook,
    /// What was found for each model that was asked about.
    schedules: BTreeMap<String, Result<PriceSchedule, Unpriced>>,
}

impl Pricing {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(options: PriceOptions, quotes: Quotes, book: PriceBook) -> Self {
        Self { options, quotes, book, schedules: BTreeMap::new() }
    }

    /// What a GPU of this model costs at `instant`, and until when. GPUs of one model have one
    /// price at one instant. Where it is not known yet, policies are asked, for the very instant
    /// that the price before has ended at; `read` is the time of the reading that asks.
    ///
    /// # Errors
    /// Where nobody knows; never $0 instead.
    pub fn at(
        &mut self,
        model: Option<&str>,
        instant: Timestamp,
        read: Timestamp,
    ) -> Result<Term, Unpriced> {
        if let Some(rate) = self.options.given {
            return Ok(Term::of(Price::given(rate, self.options.plan, USER_SOURCE)));
        }
        let model = model.unwrap_or_default();
        let known = self.schedules.remove_entry(model);
        let (model, mut schedule) =
            known.unwrap_or_else(|| (model.to_owned(), self.begin(model, read)));
        if let Ok(schedule) = &mut schedule {
            while let Some(end) = schedule.ended_by(instant) {
                schedule.extend(self.next(&model, end), read);
            }
        }
        let term = schedule.as_ref().map(|schedule| schedule.at(instant).clone());
        let term = term.map_err(Unpriced::clone);
        self.schedules.insert(model, schedule);
        term
    }

    /// What became of each policy that was asked.
    #[must_use]
    pub fn pricers(&self) -> &[PricerStats] {
        self.quotes.pricers()
    }

    /// Prices that were held on to after their end, in a run that ended at `end`, each with the
    /// model that it is of.
    pub fn expired(&self, end: Timestamp) -> impl Iterator<Item = (&str, ExpiredPrice)> {
        let schedules = self.schedules.iter();
        let schedules =
            schedules.filter_map(|(model, schedule)| Some((model, schedule.as_ref().ok()?)));
        schedules.flat_map(move |(model, schedule)| {
            schedule.expired(end).into_iter().map(|expired| (model.as_str(), expired))
        })
    }

    /// The first price of a model. A policy that fails leaves it to the book.
    fn begin(&mut self, model: &str, at: Timestamp) -> Result<PriceSchedule, Unpriced> {
        let (answer, listed) = self.query(model, at);
        let first = match answer {
            QuoteResult::Quote(quoted) => quoted,
            QuoteResult::NoQuote | QuoteResult::Failed => {
                QuotedPrice { price: listed?, expiry: None }
            }
        };
        Ok(PriceSchedule::new(first, at))
    }

    /// The price after one that ended; `None` where nobody knows. That a policy failed says nothing
    /// about the price; that none has a quote any more says that the book's holds from now on.
    fn next(&mut self, model: &str, at: Timestamp) -> Option<QuotedPrice> {
        match self.query(model, at) {
            (QuoteResult::Quote(quoted), _) => Some(quoted),
            (QuoteResult::NoQuote, Ok(price)) => Some(QuotedPrice { price, expiry: None }),
            (QuoteResult::NoQuote, Err(_)) | (QuoteResult::Failed, _) => None,
        }
    }

    fn query(&mut self, model: &str, time: Timestamp) -> (QuoteResult, Result<Price, Unpriced>) {
        let PriceOptions { provider, region, instance_type, plan, .. } = self.options.clone();
        let listed = self.book.price(&Query {
            model: Some(model).filter(|model| !model.is_empty()),
            provider: provider.as_deref(),
            region: region.as_deref(),
            instance_type: instance_type.as_deref(),
            plan,
        });
        if model.is_empty() {
            return (QuoteResult::NoQuote, listed);
        }
        let answer = self.quotes.query(&QuoteRequest {
            model: model.to_owned(),
            provider,
            region,
            instance_type,
            plan,
            time,
            listed: listed.as_ref().ok().cloned(),
        });
        (answer, listed)
    }
}
