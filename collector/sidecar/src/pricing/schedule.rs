//! Price schedules: the successive prices of one GPU model.
//!
//! Must not depend on the source of the next price.

use std::collections::VecDeque;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::policies::{QuoteExpiry, QuotedPrice};

/// The minimum interval between queries, in the time of readings: a quote that expires earlier
/// remains in use. It doubles after each failure, so that a policy that always fails is queried some
/// twenty times in a log of months.
pub const MIN_QUOTE_INTERVAL: Nanos = Nanos::from_secs(60);

/// The maximum number of terms kept beside the newest, to bound memory. They are needed by GPUs whose
/// readings lag and by the report.
pub const MAX_EARLIER_TERMS: usize = 100;

/// A price and the time range in which it applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The price.
    pub price: Price,
    /// The start. Time before the first term of a model is charged at its price.
    pub from: Timestamp,
    /// The exclusive end; [`Timestamp::LAST`] if it has none.
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

/// The terms of one model, without gaps.
#[derive(Clone, Debug)]
pub(super) struct PriceSchedule {
    newest: Term,
    before: VecDeque<Term>,
    /// The expiry of the newest quote, which may have passed.
    expiry: Option<QuoteExpiry>,
    /// The time until the next query.
    retry_after: Nanos,
    expired: ExpiredPrices,
}

/// The expired prices so far.
#[derive(Clone, Debug, Default)]
struct ExpiredPrices {
    all: Option<ExpiredPrice>,
    /// The last counted expiry.
    counted: Timestamp,
}

impl Term {
    /// A term without an end.
    pub(super) const fn of(price: Price) -> Self {
        Self { price, from: Timestamp::EPOCH, until: Timestamp::LAST }
    }
}

impl PriceSchedule {
    /// Starts with the first quote, obtained at `at`.
    pub(super) fn new(first: QuotedPrice, at: Timestamp) -> Self {
        let QuotedPrice { price, expiry } = first;
        let mut newest = Term::of(price);
        newest.until = until(expiry.as_ref(), at + MIN_QUOTE_INTERVAL);
        let (before, retry_after) = (VecDeque::new(), MIN_QUOTE_INTERVAL);
        Self { newest, before, expiry, retry_after, expired: ExpiredPrices::default() }
    }

    /// The term at this instant; the oldest kept term if its own was dropped.
    pub(super) fn at(&self, instant: Timestamp) -> &Term {
        let mut before = self.before.iter();
        before.find(|term| term.until > instant).unwrap_or(&self.newest)
    }

    /// The end of the newest term if it is not after `instant`: the next price must be queried.
    pub(super) fn ended_by(&self, instant: Timestamp) -> Option<Timestamp> {
        let end = self.newest.until;
        (end <= instant && end < Timestamp::LAST).then_some(end)
    }

    /// Appends the price from the end of the newest term on. If it is `None`, the newest price remains
    /// in use. `read` is the time of the current reading.
    pub(super) fn extend(&mut self, next: Option<QuotedPrice>, read: Timestamp) {
        let from = self.newest.until;
        if let Some(end) = self.expiry.clone().filter(|end| end.at < from) {
            self.expired.add(end, Some(from));
        }
        match next {
            Some(QuotedPrice { price, expiry }) => {
                self.retry_after = MIN_QUOTE_INTERVAL;
                self.expiry = expiry;
                if price != self.newest.price {
                    let next = Term { price, from, until: from };
                    let last = std::mem::replace(&mut self.newest, next);
                    keep(&mut self.before, last);
                }
            }
            None => self.retry_after = self.retry_after.saturating_mul(2),
        }
        // A price that expired while there were no readings is used until this reading.
        let until = until(self.expiry.as_ref(), from + self.retry_after);
        self.newest.until = if until <= read { read } else { until };
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
    pub(crate) fn push(&mut self, term: Term) {
        keep(&mut self.terms, term);
        self.total += 1;
    }
}

/// The end of a term with this expiry that is not queried again before `next_query`.
fn until(end: Option<&QuoteExpiry>, next_query: Timestamp) -> Timestamp {
    end.map_or(Timestamp::LAST, |end| end.at.max(next_query))
}

fn keep(terms: &mut VecDeque<Term>, term: Term) {
    if terms.len() == MAX_EARLIER_TERMS {
        terms.pop_front();
    }
    terms.push_back(term);
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::Rate;
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(seconds)
    }

    fn quoted(dollars: u64, end: Option<Timestamp>) -> QuotedPrice {
        let rate = Rate::new(dollars * 1_000_000_000).unwrap();
        let policy = "a test".to_owned();
        let expiry = end.map(|at| QuoteExpiry { at, policy });
        QuotedPrice { price: Price::given(rate, None, "a contract"), expiry }
    }

    fn dollars(term: &Term) -> u64 {
        term.price.rate.nano_usd_per_hour() / 1_000_000_000
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
        assert_eq!([0, 3_599, 3_600, 9_999].map(|s| dollars(schedule.at(at(s)))), [2, 2, 3, 3]);
        assert_eq!(schedule.at(at(0)).until, at(3_600));
        assert_eq!(schedule.ended_by(Timestamp::LAST), None, "no expiry");
        assert_eq!(expired(&schedule, 9_999), None, "no expired price");
    }

    #[test]
    fn equal_prices_share_a_term() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        schedule.extend(Some(quoted(2, Some(at(7_200)))), at(3_600));
        assert_eq!((schedule.before.len(), schedule.at(at(0)).until), (0, at(7_200)));
    }

    #[test]
    fn short_quote_is_used_for_the_minimum_interval() {
        let mut schedule = PriceSchedule::new(quoted(1, Some(at(0) + Nanos(1))), at(0));
        for minute in 1..=5 {
            let end = schedule.ended_by(at(minute * 60)).unwrap();
            assert_eq!(end, at(minute * 60));
            assert_eq!(schedule.ended_by(at(minute * 60 - 1)), None);
            schedule.extend(Some(quoted(minute + 1, Some(end + Nanos(1)))), end);
        }
        assert_eq!([59, 60, 299].map(|second| dollars(schedule.at(at(second)))), [1, 2, 5]);
        assert_eq!(expired(&schedule, 310), Some((0, 6, None)));
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
        assert_eq!(dollars(schedule.at(at(7_200))), 2);
        assert_eq!(expired(&schedule, 7_200), Some((3_600, 1, None)));
        schedule.extend(Some(quoted(3, Some(at(9_000)))), at(7_320));
        assert_eq!(schedule.ended_by(at(9_000)), Some(at(9_000)), "recovered");
        assert_eq!(expired(&schedule, 8_000), Some((3_600, 1, Some(at(7_320)))));
    }

    #[test]
    fn gap_in_readings_causes_no_queries() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        let (mut queries, read) = (Vec::new(), at(1_000_000));
        while let Some(end) = schedule.ended_by(read) {
            queries.push(end);
            schedule.extend(Some(quoted(3, Some(end + Nanos::from_secs(600)))), read);
        }
        assert_eq!(queries, [at(3_600), read]);
        assert_eq!(expired(&schedule, 1_000_001), Some((4_200, 1, Some(read))));
    }

    proptest! {
        /// For any sequence of quotes, terms are contiguous, queries are at least a minute apart, and
        /// each reading causes at most two.
        #[test]
        fn queries_are_limited(
            quotes in prop::collection::vec((0_u64..3, prop::option::of(1_u64..400)), 300),
            steps in prop::collection::vec(0_u64..2_000, 100),
        ) {
            let (mut schedule, mut now) = (PriceSchedule::new(quoted(1, Some(at(1))), at(0)), 0);
            let (mut quotes, mut last) = (quotes.into_iter(), at(0));
            for step in steps {
                now += step;
                let mut queries = 0;
                while let Some(end) = schedule.ended_by(at(now)) {
                    queries += 1;
                    prop_assert!(end.since(last) >= MIN_QUOTE_INTERVAL, "{:?} after {:?}", end, last);
                    last = end;
                    let next = quotes.next().unwrap_or((1, None));
                    let quote = |valid| quoted(next.0, Some(end + Nanos::from_secs(valid)));
                    schedule.extend(next.1.map(quote), at(now));
                }
                prop_assert!(queries <= 2);
                let terms: Vec<_> = schedule.before.iter().chain([&schedule.newest]).collect();
                prop_assert!(terms.windows(2).all(|two| two[0].until == two[1].from));
                prop_assert!(terms.windows(2).all(|two| two[0].price != two[1].price));
                let current = schedule.at(at(now));
                prop_assert!(current.from <= at(now) && at(now) < current.until);
            }
        }
    }
}
