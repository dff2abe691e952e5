//! Prices of GPUs: from the user, else from pricers, else from the price book.
//!
//! A price is used until it expires; then the pricers are queried again. Must not depend on readings.

mod location;
mod schedule;

pub use location::Location;
pub use schedule::{EarlierPrices, ExpiredPrice, MAX_EARLIER_TERMS, MIN_QUOTE_INTERVAL, Term};

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::gpu_specs::same_model;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceBook, Query, Unpriced};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;

use self::schedule::PriceSchedule;
use crate::policies::{PricerStats, QuoteResult, QuotedPrice, Quotes};

/// The source of a price from the command line.
const USER_SOURCE: &str = "given on the command line";

/// Price options of the user.
#[derive(Clone, Debug, Default)]
pub struct PriceOptions {
    /// USD per GPU-hour, if given.
    pub given: Option<Rate>,
    /// The location of the GPUs.
    pub location: Location,
    /// The same, by the attributes of the resource, for what `location` lacks. The price book need not
    /// list it.
    pub default_location: Location,
    /// The plan to look up, or that of the given price.
    pub plan: Option<Plan>,
}

/// Prices GPUs.
pub struct Pricing {
    options: PriceOptions,
    /// Queried before the book; requests include the list price.
    quotes: Quotes,
    book: PriceBook,
    /// The parts of the default location that the book does not list.
    unlisted: BTreeSet<String>,
    /// The schedule of each model.
    schedules: BTreeMap<String, Result<PriceSchedule, Unpriced>>,
}

impl Pricing {
    /// Creates it without any schedule.
    #[must_use]
    pub fn new(options: PriceOptions, quotes: Quotes, book: PriceBook) -> Self {
        let (unlisted, schedules) = (BTreeSet::new(), BTreeMap::new());
        Self { options, quotes, book, unlisted, schedules }
    }

    /// The price of this model at `instant`, with its end. All GPUs of a model have the same price at
    /// the same instant. If the price is unknown, the pricers are queried for the instant at which
    /// the previous price ended. `read` is the time of the current reading.
    ///
    /// # Errors
    /// Returns an error if there is no price, or while pricers are being loaded; never $0 instead.
    pub fn at(
        &mut self,
        model: Option<&str>,
        instant: Timestamp,
        read: Timestamp,
    ) -> Result<Term, Unpriced> {
        if let Some(rate) = self.options.given {
            return Ok(Term::of(self.options.given_price(rate)));
        }
        // What the pricers will quote is unknown.
        if self.quotes.are_loading() {
            return Err(Unpriced::NothingKnown);
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

    /// The parts of the default location that are not used, since the price book does not list them.
    pub fn unlisted(&self) -> impl Iterator<Item = &str> {
        self.unlisted.iter().map(String::as_str)
    }

    /// Contradictions between the instance type and the models of the GPUs, one sentence each.
    pub fn contradictions<'a>(&self, models: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let name = self.options.any_location().instance_type;
        let Some((name, gpu)) =
            name.and_then(|name| Some((name.clone(), self.book.gpu_of(&name)?)))
        else {
            return Vec::new();
        };
        let models: BTreeSet<_> = models.into_iter().collect();
        let others = models.into_iter().filter(|model| !same_model(gpu, model));
        let contradiction = |model| {
            if self.options.given.is_some() {
                format!("instance type {name} has {gpu}, but the GPUs are {model}")
            } else if self.book.has_other_gpu(&name, model) {
                format!("instance type {name} has {gpu}, so it is not used to price {model}")
            } else {
                format!("{model} is not in the price book; it is priced as {gpu} of {name}")
            }
        };
        others.map(contradiction).collect()
    }

    /// The statistics of each queried pricer.
    #[must_use]
    pub fn pricers(&self) -> &[PricerStats] {
        self.quotes.pricers()
    }

    /// Expired prices that remained in use in a run that ended at `end`, each with its model.
    pub fn expired(&self, end: Timestamp) -> impl Iterator<Item = (&str, ExpiredPrice)> {
        let schedules = self.schedules.iter();
        let schedules =
            schedules.filter_map(|(model, schedule)| Some((model, schedule.as_ref().ok()?)));
        schedules.flat_map(move |(model, schedule)| {
            schedule.expired(end).into_iter().map(|expired| (model.as_str(), expired))
        })
    }

    /// Starts the schedule of a model. If a pricer fails, the list price is used.
    fn begin(&mut self, model: &str, at: Timestamp) -> Result<PriceSchedule, Unpriced> {
        let (result, listed) = self.query(model, at);
        let first = match result {
            QuoteResult::Quote(quoted) => quoted,
            QuoteResult::NoQuote | QuoteResult::Failed => {
                QuotedPrice { price: listed?, expiry: None }
            }
        };
        Ok(PriceSchedule::new(first, at))
    }

    /// The price after an expired one; `None` if unknown. If a pricer failed, the price is unknown; if
    /// no pricer has a quote, the list price is used from now on.
    fn next(&mut self, model: &str, at: Timestamp) -> Option<QuotedPrice> {
        match self.query(model, at) {
            (QuoteResult::Quote(quoted), _) => Some(quoted),
            (QuoteResult::NoQuote, Ok(price)) => Some(QuotedPrice { price, expiry: None }),
            (QuoteResult::NoQuote, Err(_)) | (QuoteResult::Failed, _) => None,
        }
    }

    fn query(&mut self, model: &str, time: Timestamp) -> (QuoteResult, Result<Price, Unpriced>) {
        let listed = self.listed(model);
        if model.is_empty() {
            return (QuoteResult::NoQuote, listed);
        }
        let Location { provider, region, instance_type } = self.options.any_location();
        let instance_type = instance_type.filter(|name| !self.book.has_other_gpu(name, model));
        let result = self.quotes.query(&QuoteRequest {
            model: model.to_owned(),
            provider,
            region,
            instance_type,
            plan: self.options.plan,
            time,
            listed: listed.as_ref().ok().cloned(),
        });
        (result, listed)
    }

    /// The price book's price for the location, with as much of the default location as the book lists.
    fn listed(&mut self, model: &str) -> Result<Price, Unpriced> {
        let PriceOptions { location, default_location, plan, .. } = &self.options;
        let mut error = None;
        for (default, unlisted) in default_location.parts() {
            let Location { provider, region, instance_type } = location.or(&default);
            let listed = self.book.price(&Query {
                model: Some(model).filter(|model| !model.is_empty()),
                provider: provider.as_deref(),
                region: region.as_deref(),
                instance_type: instance_type.as_deref(),
                plan: *plan,
            });
            match listed {
                Ok(price) => {
                    self.unlisted.extend(unlisted);
                    return Ok(price);
                }
                Err(unpriced) => _ = error.get_or_insert(unpriced),
            }
        }
        Err(error.unwrap_or(Unpriced::NothingKnown))
    }
}

impl PriceOptions {
    /// The location of the GPUs, by options and resource.
    fn any_location(&self) -> Location {
        self.location.or(&self.default_location)
    }

    /// The price given by the user.
    fn given_price(&self, rate: Rate) -> Price {
        let Location { provider, region, instance_type } = self.any_location();
        let price = Price::given(rate, self.plan, USER_SOURCE);
        Price { provider, region, instance_type, ..price }
    }
}
