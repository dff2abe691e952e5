//! What a GPU costs: the user's word first, then pricing policies, then the price book.
//!
//! A price holds until its end; then the policies are asked again. This room must not know of
//! readings: it is told when it is.

mod course;

pub use course::{ASK_EVERY, EarlierPrices, Held, KEPT, Term};

use std::collections::BTreeMap;

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Plan, Price, PriceBook, Query, Unpriced};
use phasemeter_meter::units::Timestamp;
use phasemeter_rules::quote::QuoteRequest;

use self::course::Course;
use crate::advice::{Answer, Asked, Quoted, Quotes};

/// The source of a price that the user gave.
const GIVEN: &str = "given on the command line";

/// What the user says of prices.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
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
    wanted: Wanted,
    /// Who is asked before the book: they see what it lists.
    quotes: Quotes,
    book: PriceBook,
    /// What was found for each model that was asked about.
    courses: BTreeMap<String, Result<Course, Unpriced>>,
}

impl Pricing {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(wanted: Wanted, quotes: Quotes, book: PriceBook) -> Self {
        Self { wanted, quotes, book, courses: BTreeMap::new() }
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
        if let Some(rate) = self.wanted.given {
            return Ok(Term::of(Price::given(rate, self.wanted.plan, GIVEN)));
        }
        let model = model.unwrap_or_default();
        let known = self.courses.remove_entry(model);
        let (model, mut course) =
            known.unwrap_or_else(|| (model.to_owned(), self.begin(model, read)));
        if let Ok(course) = &mut course {
            while let Some(end) = course.ends_before(instant) {
                course.follow(self.next(&model, end), read);
            }
        }
        let term = course.as_ref().map(|course| course.at(instant).clone());
        let term = term.map_err(Unpriced::clone);
        self.courses.insert(model, course);
        term
    }

    /// What became of each policy that was asked.
    #[must_use]
    pub fn asked(&self) -> &[Asked] {
        self.quotes.asked()
    }

    /// Prices that were held on to after their end, in a run that ended at `end`, each with the
    /// model that it is of.
    pub fn held(&self, end: Timestamp) -> impl Iterator<Item = (&str, Held)> {
        let courses = self.courses.iter();
        let courses = courses.filter_map(|(model, course)| Some((model, course.as_ref().ok()?)));
        courses.flat_map(move |(model, course)| {
            course.held(end).into_iter().map(|held| (model.as_str(), held))
        })
    }

    /// The first price of a model. A policy that fails leaves it to the book.
    fn begin(&mut self, model: &str, at: Timestamp) -> Result<Course, Unpriced> {
        let (answer, listed) = self.ask(model, at);
        let first = match answer {
            Answer::Quote(quoted) => quoted,
            Answer::NotMine | Answer::Failed => Quoted { price: listed?, end: None },
        };
        Ok(Course::new(first, at))
    }

    /// The price after one that ended; `None` where nobody knows. That a policy failed says nothing
    /// about the price; that none has a quote any more says that the book's holds from now on.
    fn next(&mut self, model: &str, at: Timestamp) -> Option<Quoted> {
        match self.ask(model, at) {
            (Answer::Quote(quoted), _) => Some(quoted),
            (Answer::NotMine, Ok(price)) => Some(Quoted { price, end: None }),
            (Answer::NotMine, Err(_)) | (Answer::Failed, _) => None,
        }
    }

    fn ask(&mut self, model: &str, time: Timestamp) -> (Answer, Result<Price, Unpriced>) {
        let Wanted { provider, region, instance_type, plan, .. } = self.wanted.clone();
        let listed = self.book.price(&Query {
            model: Some(model).filter(|model| !model.is_empty()),
            provider: provider.as_deref(),
            region: region.as_deref(),
            instance_type: instance_type.as_deref(),
            plan,
        });
        if model.is_empty() {
            return (Answer::NotMine, listed);
        }
        let answer = self.quotes.ask(&QuoteRequest {
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
