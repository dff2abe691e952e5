//! Prices of GPUs: from the user, else from pricers, else from the price book.
//!
//! A price is used until it expires; then the pricers are queried again.

mod allocation;
pub mod book_file;
mod offers;
mod schedule;

pub use allocation::GpuOfModel;
pub use schedule::{
    CurrentPrice, EarlierPrices, ExpiredPrice, MAX_EARLIER_TERMS, MIN_QUOTE_INTERVAL, QUERY_BURST,
    Term,
};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;

use phasemeter_environment::location::Location;
use phasemeter_meter::gpu_specs::same_model;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price, PriceBook, Query, Unpriced};
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_rules::quote::QuoteRequest;

use self::allocation::Allocation;
use self::schedule::{PriceSchedule, QuotedAllocation};
use crate::policies::{PricerStats, QuotedPrices, Quotes};

/// The source of a price from the command line.
const USER_SOURCE: &str = "given on the command line";

/// The most options of prices before the present ones whose time is priced by them.
#[cfg(feature = "full")]
const MAX_EARLIER_OPTIONS: usize = 16;

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
    pub plan: Option<PaymentPlan>,
    /// Attributes of the experiment, for pricers.
    pub attributes: BTreeMap<String, String>,
}

/// Prices GPUs.
pub struct Pricing {
    options: PriceOptions,
    /// Queried before the book; requests include the list price.
    quotes: Quotes,
    book: PriceBook,
    /// The parts of the default location that the book does not list.
    unlisted: BTreeSet<String>,
    /// The schedule of each model, in wall time.
    schedules: BTreeMap<String, PriceSchedule>,
    wall: WallOffset,
    /// Those before the options changed, and until when each counts: the newest, oldest first. Readings of that time may
    /// still arrive.
    earlier: VecDeque<(Timestamp, Self)>,
}

impl Pricing {
    /// Creates it without any schedule.
    #[must_use]
    pub fn new(options: PriceOptions, quotes: Quotes, book: PriceBook) -> Self {
        let (unlisted, schedules) = (BTreeSet::new(), BTreeMap::new());
        let (wall, earlier) = (WallOffset::default(), VecDeque::new());
        Self { options, quotes, book, unlisted, schedules, wall, earlier }
    }

    /// Moves them out, and leaves the price book alone.
    #[cfg(feature = "full")]
    pub(crate) fn take(&mut self) -> Self {
        let book = self.book.clone();
        std::mem::replace(self, Self::new(PriceOptions::default(), Quotes::default(), book))
    }

    /// Prices by other options, and by another book if there is one, from `at` on. Returns whether that was possible:
    /// pricers may be loading.
    #[cfg(feature = "full")]
    pub(crate) fn change(
        &mut self,
        options: &PriceOptions,
        book: Option<&PriceBook>,
        at: Timestamp,
    ) -> bool {
        if self.quotes.are_loading() {
            return false;
        }
        let (for_earlier, book) =
            (self.quotes.of_same_policies(), book.unwrap_or(&self.book).clone());
        let quotes = std::mem::replace(&mut self.quotes, for_earlier);
        let mut next = Self::new(options.clone(), quotes, book);
        (next.wall, next.unlisted) = (self.wall, self.unlisted.clone());
        next.earlier = std::mem::take(&mut self.earlier);
        if next.earlier.len() == MAX_EARLIER_OPTIONS {
            next.earlier.pop_front();
        }
        let before = std::mem::replace(self, next);
        self.earlier.push_back((at, before));
        true
    }

    /// Sets the wall time, in which prices end, of all instants from now on.
    pub fn set_wall_clock(&mut self, wall: WallOffset) {
        self.wall = wall;
        self.earlier.iter_mut().for_each(|(_, earlier)| earlier.wall = wall);
    }

    /// The price of this GPU at `instant`, with its end; never $0 if it is unknown, as it is while
    /// pricers are loading. If the prices of its model have ended, the pricers are queried for the
    /// instant at which they did. `read` is the time of the current reading.
    pub fn at(
        &mut self,
        gpu: &GpuOfModel<'_>,
        instant: Timestamp,
        read: Timestamp,
    ) -> CurrentPrice {
        if let Some((until, earlier)) = self.earlier.iter_mut().find(|(until, _)| instant < *until)
        {
            let current = earlier.at(gpu, instant, read.min(*until));
            return CurrentPrice { until: current.until.min(*until), ..current };
        }
        if let Some(rate) = self.options.given {
            return CurrentPrice::of(self.options.given_price(rate));
        }
        // What the pricers will quote is unknown.
        if self.quotes.are_loading() {
            return CurrentPrice::unknown();
        }
        let [instant, read] = [instant, read].map(|at| self.wall.wall(at));
        let known = self.schedules.remove_entry(gpu.model.unwrap_or_default());
        let (model, mut schedule) = known.unwrap_or_else(|| {
            let model = gpu.model.unwrap_or_default();
            (model.to_owned(), self.begin(gpu, instant, read))
        });
        while let Some(end) = schedule.ended_by(instant) {
            schedule.extend(self.next(gpu, end, schedule.newest()), read);
        }
        let CurrentPrice { price, from, until } = schedule.at(instant, gpu.rank);
        self.schedules.insert(model, schedule);
        let [from, until] = [from, until].map(|at| self.wall.instant(at));
        CurrentPrice { price, from, until }
    }

    /// The prices that were quoted for a limited number of GPUs, each with its model and that number.
    pub fn limited(&self) -> impl Iterator<Item = (&str, u32, &Price)> {
        self.each().flat_map(|pricing| &pricing.schedules).flat_map(|(model, schedule)| {
            schedule.limited().map(|(gpus, price)| (model.as_str(), gpus, price))
        })
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
        let ends = self.earlier.iter().map(|(until, _)| *until).chain([end]);
        self.each().zip(ends).flat_map(move |(pricing, end)| {
            let end = self.wall.wall(end);
            pricing.schedules.iter().flat_map(move |(model, schedule)| {
                schedule.expired(end).into_iter().map(|expired| (model.as_str(), expired))
            })
        })
    }

    /// Those before, and this one.
    fn each(&self) -> impl Iterator<Item = &Self> {
        self.earlier.iter().map(|(_, earlier)| earlier).chain([self])
    }

    /// Starts the schedule of a model with its prices at `read`, or at `first` if some of them are not
    /// valid since then. If a pricer fails, the list price is used.
    fn begin(&mut self, gpu: &GpuOfModel<'_>, first: Timestamp, read: Timestamp) -> PriceSchedule {
        let (mut at, (mut quoted, mut listed)) = (read, self.query(gpu, read));
        if quoted.valid_from > Some(first) {
            (at, (quoted, listed)) = (first, self.query(gpu, first));
        }
        PriceSchedule::new(quoted.allocation(listed), at)
    }

    /// The prices after expired ones; `None` if unknown. If a pricer failed, they are unknown; if no
    /// pricer has a quote, the list price is used from now on.
    fn next(
        &mut self,
        gpu: &GpuOfModel<'_>,
        at: Timestamp,
        before: &Allocation,
    ) -> Option<QuotedAllocation> {
        let (quoted, listed) = self.query(gpu, at);
        let failed = quoted.failed;
        let next = quoted.allocation(listed);
        (!failed && next.prices.covers(before)).then_some(next)
    }

    fn query(
        &mut self,
        gpu: &GpuOfModel<'_>,
        time: Timestamp,
    ) -> (QuotedPrices, Result<Price, Unpriced>) {
        let listed = self.listed(gpu.model);
        let Some(model) = gpu.model else { return (QuotedPrices::default(), listed) };
        let Location { provider, region, instance_type } = self.options.any_location();
        let instance_type = instance_type.filter(|name| !self.book.has_other_gpu(name, model));
        let quoted = self.quotes.query(&QuoteRequest {
            model: model.to_owned(),
            provider,
            region,
            instance_type,
            plan: self.options.plan,
            time,
            gpus: NonZeroU32::new(gpu.gpus).unwrap_or(NonZeroU32::MIN),
            priced: 0,
            listed: listed.as_ref().ok().cloned(),
            attributes: self.options.attributes.clone(),
            is_offer: false,
        });
        (quoted, listed)
    }

    /// The price book's price for the location, with as much of the default location as the book lists.
    fn listed(&mut self, model: Option<&str>) -> Result<Price, Unpriced> {
        let PriceOptions { location, default_location, plan, .. } = &self.options;
        let mut error = None;
        for (default, unlisted) in default_location.parts() {
            let Location { provider, region, instance_type } = location.or(&default);
            let listed = self.book.price(&Query {
                model,
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

impl QuotedPrices {
    /// These prices, and the listed one for all other GPUs.
    fn allocation(self, listed: Result<Price, Unpriced>) -> QuotedAllocation {
        let prices = Allocation::new(self.quotes, listed);
        QuotedAllocation { prices, expiry: self.expiry }
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

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;

    use super::*;
    use crate::policies::QuoteExpiry;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(seconds)
    }

    /// A quote of $2 that ends at this second; then $3.
    fn pricing(end: u64) -> Pricing {
        let price = |dollars: u64| {
            let rate = Rate::new(dollars * 1_000_000_000).unwrap();
            Allocation::new(Vec::new(), Ok(Price::given(rate, None, "a contract")))
        };
        let expiry = Some(QuoteExpiry { at: at(end), policy: "a test".to_owned() });
        let first = QuotedAllocation { prices: price(2), expiry };
        let mut schedule = PriceSchedule::new(first, at(0));
        schedule.extend(Some(QuotedAllocation { prices: price(3), expiry: None }), at(end));
        let book = PriceBook::built_in();
        let mut pricing = Pricing::new(PriceOptions::default(), Quotes::default(), book);
        pricing.schedules.insert("GPU".to_owned(), schedule);
        pricing
    }

    #[test]
    fn price_ends_at_its_wall_time() {
        let mut pricing = pricing(7_200);
        let gpu = GpuOfModel { model: Some("GPU"), rank: 0, gpus: 1 };
        assert_eq!(pricing.at(&gpu, at(1_000), at(1_000)).until, at(7_200));
        // The clock was set forward by half an hour, then back by an hour.
        for (wall, until) in [(3_800, 5_400), (200, 9_000)] {
            pricing.set_wall_clock(WallOffset::between(at(2_000), at(wall)));
            let mut current = |instant| pricing.at(&gpu, at(instant), at(instant));
            assert_eq!(current(until - 1).until, at(until));
            let next = current(until);
            assert_eq!((next.from, next.until), (at(until), Timestamp::LAST));
        }
    }
}
