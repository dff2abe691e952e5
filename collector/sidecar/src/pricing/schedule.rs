//! The schedule of a price: what GPUs of one model cost, one term after the other.
//!
//! This room must not know who says what the next price is.

use std::collections::VecDeque;

use phasemeter_meter::price::Price;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::policies::{QuoteExpiry, QuotedPrice};

/// A price is asked for at most this often, in the time of readings: a quote that is shorter is
/// held on to for as long. After a failure it is twice as long each time, so that a policy that
/// always fails costs a log of months no more than some twenty questions.
pub const MIN_QUOTE_INTERVAL: Nanos = Nanos::from_secs(60);

/// The most terms that are kept beside the newest, so that memory does not grow with the run: for
/// GPUs whose readings lag behind, and for the report.
pub const MAX_EARLIER_TERMS: usize = 100;

/// A price, and when it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// What is charged.
    pub price: Price,
    /// From when on. What came before the first term of a model costs the same.
    pub from: Timestamp,
    /// Until when: the first instant at which it does not; [`Timestamp::LAST`] where it has no end.
    pub until: Timestamp,
}

/// What was held on to after its end, because there was nothing better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredPrice {
    /// Who had quoted it, and its end; of several, the first of them.
    pub expiry: QuoteExpiry,
    /// How many there were.
    pub prices: u64,
    /// Until when; of several, the last of them. `None` to the end of the run.
    pub until: Option<Timestamp>,
}

/// The prices that a GPU had before the one it has now.
#[derive(Clone, Debug, Default)]
pub struct EarlierPrices {
    /// The newest of them, oldest first; at most [`MAX_EARLIER_TERMS`].
    pub terms: VecDeque<Term>,
    /// How many there were.
    pub total: u64,
}

/// The terms of one model. They follow one another without a gap.
#[derive(Clone, Debug)]
pub(super) struct PriceSchedule {
    newest: Term,
    before: VecDeque<Term>,
    /// The end of the newest quote, which may be over.
    expiry: Option<QuoteExpiry>,
    /// How long nobody is asked again.
    pause: Nanos,
    expired: ExpiredPrices,
}

/// What was held on to so far.
#[derive(Clone, Debug, Default)]
struct ExpiredPrices {
    all: Option<ExpiredPrice>,
    /// The last end that is counted among them.
    counted: Timestamp,
}

impl Term {
    /// A price without an end.
    pub(super) const fn of(price: Price) -> Self {
        Self { price, from: Timestamp::EPOCH, until: Timestamp::LAST }
    }
}

impl PriceSchedule {
    /// Begins with what was said at this instant.
    pub(super) fn new(first: QuotedPrice, at: Timestamp) -> Self {
        let QuotedPrice { price, expiry } = first;
        let mut newest = Term::of(price);
        newest.until = until(expiry.as_ref(), at + MIN_QUOTE_INTERVAL);
        let (before, pause) = (VecDeque::new(), MIN_QUOTE_INTERVAL);
        Self { newest, before, expiry, pause, expired: ExpiredPrices::default() }
    }

    /// The term that holds at this instant; of what is forgotten, the oldest that is not.
    pub(super) fn at(&self, instant: Timestamp) -> &Term {
        let mut before = self.before.iter();
        before.find(|term| term.until > instant).unwrap_or(&self.newest)
    }

    /// When the newest term ends, where that is not after this instant: what follows is not known.
    pub(super) fn ended_by(&self, instant: Timestamp) -> Option<Timestamp> {
        let end = self.newest.until;
        (end <= instant && end < Timestamp::LAST).then_some(end)
    }

    /// What was said of the instant at which the newest term ends; `None` where nobody knew, and it
    /// is held on to. `read`: the time of the reading that asked.
    pub(super) fn extend(&mut self, next: Option<QuotedPrice>, read: Timestamp) {
        let from = self.newest.until;
        if let Some(end) = self.expiry.clone().filter(|end| end.at < from) {
            self.expired.add(end, Some(from));
        }
        match next {
            Some(QuotedPrice { price, expiry }) => {
                self.pause = MIN_QUOTE_INTERVAL;
                self.expiry = expiry;
                if price != self.newest.price {
                    let next = Term { price, from, until: from };
                    let last = std::mem::replace(&mut self.newest, next);
                    keep(&mut self.before, last);
                }
            }
            None => self.pause = self.pause.saturating_mul(2),
        }
        // What has ended already, while nothing was read, is held on to until this reading.
        let until = until(self.expiry.as_ref(), from + self.pause);
        self.newest.until = if until <= read { read } else { until };
    }

    /// What was held on to in a run that ended at `end`.
    pub(super) fn expired(&self, end: Timestamp) -> Option<ExpiredPrice> {
        let mut holds = self.expired.clone();
        if end <= self.newest.until
            && let Some(over) = self.expiry.clone().filter(|quote| quote.at < end)
        {
            holds.add(over, None);
        }
        holds.all
    }
}

impl ExpiredPrices {
    fn add(&mut self, expiry: QuoteExpiry, until: Option<Timestamp>) {
        let news = u64::from(expiry.at != self.counted);
        self.counted = expiry.at;
        let expired = self.all.get_or_insert(ExpiredPrice { expiry, prices: 0, until });
        expired.prices += news;
        expired.until = until;
    }
}

impl EarlierPrices {
    /// One more.
    pub(crate) fn push(&mut self, term: Term) {
        keep(&mut self.terms, term);
        self.total += 1;
    }
}

/// Until when a price is used that ends so, and that nobody is asked for before `pause`.
fn until(end: Option<&QuoteExpiry>, pause: Timestamp) -> Timestamp {
    end.map_or(Timestamp::LAST, |end| end.at.max(pause))
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
    fn terms_follow_one_another() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        assert_eq!(schedule.ended_by(at(3_599)), None);
        assert_eq!(schedule.ended_by(at(3_610)), Some(at(3_600)));
        schedule.extend(Some(quoted(3, None)), at(3_610));
        assert_eq!([0, 3_599, 3_600, 9_999].map(|s| dollars(schedule.at(at(s)))), [2, 2, 3, 3]);
        assert_eq!(schedule.at(at(0)).until, at(3_600));
        assert_eq!(schedule.ended_by(Timestamp::LAST), None, "it has no end");
        assert_eq!(expired(&schedule, 9_999), None, "nothing was expired");
    }

    #[test]
    fn the_same_price_again_is_the_same_term() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        schedule.extend(Some(quoted(2, Some(at(7_200)))), at(3_600));
        assert_eq!((schedule.before.len(), schedule.at(at(0)).until), (0, at(7_200)));
    }

    #[test]
    fn a_quote_of_a_nanosecond_is_held_for_a_minute() {
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
    fn what_nobody_knows_is_held_and_asked_for_less_and_less_often() {
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
        assert_eq!(schedule.ended_by(at(9_000)), Some(at(9_000)), "all is well again");
        assert_eq!(expired(&schedule, 8_000), Some((3_600, 1, Some(at(7_320)))));
    }

    #[test]
    fn while_nothing_is_read_nobody_is_asked() {
        let mut schedule = PriceSchedule::new(quoted(2, Some(at(3_600))), at(0));
        let (mut asked, read) = (Vec::new(), at(1_000_000));
        while let Some(end) = schedule.ended_by(read) {
            asked.push(end);
            schedule.extend(Some(quoted(3, Some(end + Nanos::from_secs(600)))), read);
        }
        assert_eq!(asked, [at(3_600), read]);
        assert_eq!(expired(&schedule, 1_000_001), Some((4_200, 1, Some(read))));
    }

    proptest! {
        /// Whatever is said, terms leave no gap, each question is for a later instant by a minute
        /// at least, and a reading asks two at most.
        #[test]
        fn questions_are_few(
            said in prop::collection::vec((0_u64..3, prop::option::of(1_u64..400)), 300),
            steps in prop::collection::vec(0_u64..2_000, 100),
        ) {
            let (mut schedule, mut now) = (PriceSchedule::new(quoted(1, Some(at(1))), at(0)), 0);
            let (mut said, mut last) = (said.into_iter(), at(0));
            for step in steps {
                now += step;
                let mut questions = 0;
                while let Some(end) = schedule.ended_by(at(now)) {
                    questions += 1;
                    prop_assert!(end.since(last) >= MIN_QUOTE_INTERVAL, "{:?} after {:?}", end, last);
                    last = end;
                    let next = said.next().unwrap_or((1, None));
                    let quote = |valid| quoted(next.0, Some(end + Nanos::from_secs(valid)));
                    schedule.extend(next.1.map(quote), at(now));
                }
                prop_assert!(questions <= 2);
                let terms: Vec<_> = schedule.before.iter().chain([&schedule.newest]).collect();
                prop_assert!(terms.windows(2).all(|two| two[0].until == two[1].from));
                prop_assert!(terms.windows(2).all(|two| two[0].price != two[1].price));
                let holds = schedule.at(at(now));
                prop_assert!(holds.from <= at(now) && at(now) < holds.until);
            }
        }
    }
}
