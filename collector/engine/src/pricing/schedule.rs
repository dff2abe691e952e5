//! Price schedules: the successive prices of the GPUs of one model.

use std::collections::VecDeque;

use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::allocation::Allocation;
use crate::policies::QuoteExpiry;

/// The minimum mean interval between queries, in the time of readings: a quote that expires earlier
/// remains in use. It doubles after each failure, so that a policy that always fails is queried some
/// twenty times in a log of months.
pub const MIN_QUOTE_INTERVAL: Nanos = Nanos::from_secs(60);

/// The number of queries that may follow one another sooner, so that prices which change within a
/// minute, or between two readings, change at their instants.
pub const QUERY_BURST: u32 = 5;

/// The maximum number of terms kept beside the newest, to bound memory. They are needed by GPUs whose
/// readings lag and by the report.
pub const MAX_EARLIER_TERMS: usize = 100;

/// The price of a GPU from an instant on, or why it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentPrice {
    /// The price.
    pub price: Result<Price, Unpriced>,
    /// The start. Time before the first price of a model is charged at it.
    pub from: Timestamp,
    /// When it may change; [`Timestamp::LAST`] if never.
    pub until: Timestamp,
}

/// A price and the time range in which it applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The price.
    pub price: Price,
    /// The start.
    pub from: Timestamp,
    /// The exclusive end.
    pub until: Timestamp,
}

/// Prices that remained in use after their expiry, for lack of a new quote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredPrice {
    /// The expiry of the first.
    pub expiry: QuoteExpiry,
    /// The number of prices.
    pub prices: u64,
    /// The end of use of the last; `None` if it was used to the end of the run.
    pub until: Option<Timestamp>,
}

/// The prices of a GPU before its current one.
#[derive(Clone, Debug, Default)]
pub struct EarlierPrices {
    /// The newest, oldest first; at most [`MAX_EARLIER_TERMS`].
    pub terms: VecDeque<Term>,
    /// The number of all.
    pub total: u64,
}

/// Prices of one model with their end.
#[derive(Clone, Debug)]
pub(super) struct QuotedAllocation {
    pub(super) prices: Allocation,
    pub(super) expiry: Option<QuoteExpiry>,
}

/// Prices of one model and the time range in which they apply.
#[derive(Clone, Debug)]
struct Period {
    prices: Allocation,
    from: Timestamp,
    until: Timestamp,
}

/// The periods of one model, without gaps.
#[derive(Clone, Debug)]
pub(super) struct PriceSchedule {
    newest: Period,
    before: VecDeque<Period>,
    /// The first expiry of the newest quotes, which may have passed.
    expiry: Option<QuoteExpiry>,
    /// When the queries so far would have been made, had they been [`MIN_QUOTE_INTERVAL`] apart.
    queries_until: Timestamp,
    /// The time until the next query after a failed one.
    retry_after: Nanos,
    /// The last reading that caused a query, and the number of its queries.
    read: (Timestamp, u32),
    expired: ExpiredPrices,
}

/// The expired prices so far.
#[derive(Clone, Debug, Default)]
struct ExpiredPrices {
    all: Option<ExpiredPrice>,
    /// The last counted expiry.
    counted: Timestamp,
}

impl CurrentPrice {
    /// A price without an end.
    pub(super) const fn of(price: Price) -> Self {
        Self { price: Ok(price), from: Timestamp::EPOCH, until: Timestamp::LAST }
    }

    /// No price yet.
    pub(super) const fn unknown() -> Self {
        let price = Err(Unpriced::NothingKnown);
        Self { price, from: Timestamp::EPOCH, until: Timestamp::LAST }
    }
}

impl PriceSchedule {
    /// Starts with the first prices, obtained at `at`.
    pub(super) fn new(first: QuotedAllocation, at: Timestamp) -> Self {
        let QuotedAllocation { prices, expiry } = first;
        let newest = Period { prices, from: Timestamp::EPOCH, until: Timestamp::LAST };
        let mut schedule = Self {
            newest,
            before: VecDeque::new(),
            expiry,
            queries_until: at + MIN_QUOTE_INTERVAL,
            retry_after: MIN_QUOTE_INTERVAL,
            read: (at, 0),
            expired: ExpiredPrices::default(),
        };
        schedule.newest.until = until(schedule.expiry.as_ref(), schedule.next_query());
        schedule
    }

    /// The price at this instant of the GPU of this rank; of the oldest kept period if the instant is
    /// before it.
    pub(super) fn at(&self, instant: Timestamp, rank: u32) -> CurrentPrice {
        let mut before = self.before.iter();
        let period = before.find(|period| period.until > instant).unwrap_or(&self.newest);
        let Period { prices, from, until } = period;
        CurrentPrice { price: prices.price(rank).clone(), from: *from, until: *until }
    }

    /// The newest prices.
    pub(super) const fn newest(&self) -> &Allocation {
        &self.newest.prices
    }

    /// The prices of limited numbers of GPUs.
    pub(super) fn limited(&self) -> impl Iterator<Item = (u32, &Price)> {
        let periods = self.before.iter().chain([&self.newest]);
        periods.flat_map(|period| period.prices.limited())
    }

    /// The end of the newest period if it is not after `instant`: the next prices must be queried.
    pub(super) fn ended_by(&self, instant: Timestamp) -> Option<Timestamp> {
        let end = self.newest.until;
        (end <= instant && end < Timestamp::LAST).then_some(end)
    }

    /// Appends the prices from the end of the newest period on. If they are `None`, the newest remain
    /// in use. `read` is the time of the current reading.
    pub(super) fn extend(&mut self, next: Option<QuotedAllocation>, read: Timestamp) {
        let from = self.newest.until;
        if let Some(end) = self.expiry.clone().filter(|end| end.at < from) {
            self.expired.add(end, Some(from));
        }
        self.queries_until = self.queries_until.max(from) + MIN_QUOTE_INTERVAL;
        let next_query = match next {
            Some(QuotedAllocation { prices, expiry }) => {
                self.retry_after = MIN_QUOTE_INTERVAL;
                self.expiry = expiry;
                if prices != self.newest.prices {
                    let next = Period { prices, from, until: from };
                    keep(&mut self.before, std::mem::replace(&mut self.newest, next));
                }
                self.next_query()
            }
            None => {
                self.retry_after = self.retry_after.saturating_mul(2);
                from + self.retry_after
            }
        };
        let until = until(self.expiry.as_ref(), next_query);
        self.read = if self.read.0 == read { (read, self.read.1 + 1) } else { (read, 1) };
        // Prices that expired during a long time without readings are used until this reading.
        let is_last = until <= read && self.read.1 >= QUERY_BURST;
        self.newest.until = if is_last { read } else { until };
    }

    /// When the next query is allowed.
    const fn next_query(&self) -> Timestamp {
        let burst = MIN_QUOTE_INTERVAL.saturating_mul(QUERY_BURST as u64 - 1);
        self.queries_until.saturating_sub(burst)
    }

    /// The expired prices of a run that ended at `end`.
    pub(super) fn expired(&self, end: Timestamp) -> Option<ExpiredPrice> {
        let mut expired = self.expired.clone();
        if end <= self.newest.until
            && let Some(over) = self.expiry.clone().filter(|quote| quote.at < end)
        {
            expired.add(over, None);
        }
        expired.all
    }
}

impl ExpiredPrices {
    fn add(&mut self, expiry: QuoteExpiry, until: Option<Timestamp>) {
        let new = u64::from(expiry.at != self.counted);
        self.counted = expiry.at;
        let expired = self.all.get_or_insert(ExpiredPrice { expiry, prices: 0, until });
        expired.prices += new;
        expired.until = until;
    }
}

impl EarlierPrices {
    /// Adds a term.
    pub fn push(&mut self, term: Term) {
        keep(&mut self.terms, term);
        self.total += 1;
    }
}

/// The end of a period with this expiry that is not queried again before `next_query`.
fn until(end: Option<&QuoteExpiry>, next_query: Timestamp) -> Timestamp {
    end.map_or(Timestamp::LAST, |end| end.at.max(next_query))
}

fn keep<T>(terms: &mut VecDeque<T>, term: T) {
    if terms.len() == MAX_EARLIER_TERMS {
        terms.pop_front();
    }
    terms.push_back(term);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use phasemeter_meter::money::Rate;
    use proptest::prelude::*;

    use super::*;
    use crate::policies::QuotedPrice;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(seconds)
    }

    fn price(dollars: u64) -> Price {
        Price::given(Rate::new(dollars * 1_000_000_000).unwrap(), None, "a contract")
    }

    fn quoted(dollars: u64, end: Option<Timestamp>) -> QuotedAllocation {
        let policy = "a test".to_owned();
        let expiry = end.map(|at| QuoteExpiry { at, policy });
        QuotedAllocation { prices: Allocation::new(Vec::new(), Ok(price(dollars))), expiry }
    }

    fn dollars(schedule: &PriceSchedule, instant: Timestamp) -> u64 {
        schedule.at(instant, 0).price.unwrap().rate.nano_usd_per_hour() / 1_000_000_000
    }

    fn expired(schedule: &PriceSchedule, end: u64) -> Option<(u64, u64, Option<Timestamp>)> {
        let expired = schedule.expired(at(end))?;
        Some((expired.expiry.at.whole_second(), expired.prices, expired.until))
    }

    #[test]
    fn terms_are_contiguous() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        assert_eq!(schedule.ended_by(at(3_599)), None);
        assert_eq!(schedule.ended_by(at(3_610)), Some(at(3_600)));
        schedule.extend(Some(quoted(3, None)), at(3_610));
        assert_eq!([0, 3_599, 3_600, 9_999].map(|s| dollars(&schedule, at(s))), [2, 2, 3, 3]);
        assert_eq!(schedule.at(at(0), 0).until, at(3_600));
        assert_eq!(schedule.ended_by(Timestamp::LAST), None, "no expiry");
        assert_eq!(expired(&schedule, 9_999), None, "no expired price");
    }

    #[test]
    fn equal_prices_share_a_term() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        schedule.extend(Some(quoted(2, Some(at(7_200)))), at(3_600));
        assert_eq!((schedule.before.len(), schedule.at(at(0), 0).until), (0, at(7_200)));
    }

    /// Scenario: quotes that expire at once.
    #[test]
    fn short_quotes_are_queried_once_per_interval_after_a_burst() {
        let mut schedule = PriceSchedule::new(quoted(1, Some(at(0) + Nanos(1))), at(0));
        let mut ends = Vec::new();
        while let Some(end) = schedule.ended_by(at(240)) {
            ends.push(end);
            let dollars = ends.len() as u64 + 1;
            schedule.extend(Some(quoted(dollars, Some(end + Nanos(1)))), end);
        }
        let burst: Vec<_> = (1..5).map(|nanos| at(0) + Nanos(nanos)).collect();
        assert_eq!(ends, [&burst[..], &[at(60), at(120), at(180), at(240)]].concat());
        assert_eq!([59, 60, 239].map(|second| dollars(&schedule, at(second))), [5, 6, 8]);
        assert_eq!(expired(&schedule, 250), Some((0, 5, None)));
    }

    #[test]
    fn unknown_price_keeps_the_last_and_backs_off() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        let mut ends = Vec::new();
        while let Some(end) = schedule.ended_by(at(7_200)) {
            ends.push(end.whole_second() - 3_600);
            schedule.extend(None, end);
        }
        assert_eq!(ends, [0, 120, 360, 840, 1_800]);
        assert_eq!(dollars(&schedule, at(7_200)), 2);
        assert_eq!(expired(&schedule, 7_200), Some((3_600, 1, None)));
        schedule.extend(Some(quoted(3, Some(at(9_000)))), at(7_320));
        assert_eq!(schedule.ended_by(at(9_000)), Some(at(9_000)), "recovered");
        assert_eq!(expired(&schedule, 8_000), Some((3_600, 1, Some(at(7_320)))));
    }

    #[test]
    fn gap_in_readings_causes_few_queries() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        let (mut queries, read) = (Vec::new(), at(1_000_000));
        while let Some(end) = schedule.ended_by(read) {
            queries.push(end);
            schedule.extend(Some(quoted(3, Some(end + Nanos::from_secs(600)))), read);
        }
        let ends = [3_600, 4_200, 4_800, 5_400, 6_000].map(at);
        assert_eq!(queries, [&ends[..], &[read]].concat());
        assert_eq!(expired(&schedule, 1_000_001), Some((6_600, 1, Some(read))));
    }

    /// Scenario: two GPUs have a price of their own until the first hour ends.
    #[test]
    fn ranks_have_their_own_prices() {
        let two = |dollars| QuotedPrice { price: price(dollars), gpus: NonZeroU32::new(2) };
        let prices = Allocation::new(vec![two(1), two(2)], Err(Unpriced::NothingKnown));
        let expiry = quoted(0, Some(at(3_600))).expiry;
        let mut schedule = PriceSchedule::new(QuotedAllocation { prices, expiry }, at(0));
        let listed = quoted(3, None);
        assert!(
            listed.prices.covers(schedule.newest()) && !schedule.newest().covers(&listed.prices)
        );
        schedule.extend(Some(listed), at(3_600));
        let rates = |second| {
            [0, 1, 2, 3, 4].map(|rank| {
                let price = schedule.at(at(second), rank).price.ok()?;
                Some(price.rate.nano_usd_per_hour() / 1_000_000_000)
            })
        };
        assert_eq!(rates(3_599), [Some(1), Some(1), Some(2), Some(2), None]);
        assert_eq!(rates(3_600), [Some(3); 5]);
        let limited: Vec<_> = schedule.limited().map(|(gpus, price)| (gpus, price.rate)).collect();
        assert_eq!(limited, [(2, price(1).rate), (2, price(2).rate)]);
    }

    proptest! {
        /// For any sequence of quotes, periods are contiguous, queries are a minute apart in the mean, but
        /// for a burst, and each reading causes few.
        #[test]
        fn queries_are_limited(
            quotes in prop::collection::vec((0_u64..3, prop::option::of(1_u64..400)), 300),
            steps in prop::collection::vec(0_u64..2_000, 100),
        ) {
            let (mut schedule, mut now) = (PriceSchedule::new(quoted(1, Some(at(1))), at(0)), 0);
            let (mut quotes, mut total) = (quotes.into_iter(), 1);
            for step in steps {
                now += step;
                let mut queries = 0;
                while let Some(end) = schedule.ended_by(at(now)) {
                    queries += 1;
                    total += 1;
                    let minutes = end.since(at(0)).0 / MIN_QUOTE_INTERVAL.0;
                    prop_assert!(total <= u64::from(QUERY_BURST) + minutes, "{} by {:?}", total, end);
                    let next = quotes.next().unwrap_or((1, None));
                    let quote = |valid| quoted(next.0, Some(end + Nanos::from_secs(valid)));
                    schedule.extend(next.1.map(quote), at(now));
                }
                prop_assert!(queries <= QUERY_BURST + 1);
                let periods: Vec<_> = schedule.before.iter().chain([&schedule.newest]).collect();
                prop_assert!(periods.windows(2).all(|two| two[0].until == two[1].from));
                prop_assert!(periods.windows(2).all(|two| two[0].prices != two[1].prices));
                let current = schedule.at(at(now), 0);
                prop_assert!(current.from <= at(now) && at(now) < current.until);
            }
        }
    }
}
