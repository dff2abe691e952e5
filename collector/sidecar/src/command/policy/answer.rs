//! What a policy answers, whichever its kind: as it is recorded, and for people.
//!
//! This room must not know where the question is from.

use std::io::{self, Write};
use std::path::Path;

use phasemeter_rules::fixture;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::{Evaluation, Policy};
use phasemeter_rules::quote::Quote;
use phasemeter_rules::recommendation::Recommendation;

use super::shown::Question;
use super::{PolicyFailure, desk};
use crate::report::Utc;
use crate::report::text::{clean, number, rate};

/// What a policy answers.
pub(super) enum Answer {
    /// Of a recommender.
    Advice(Vec<Recommendation>),
    /// Of a pricer.
    Quote(Option<Quote>),
}

impl Answer {
    /// That of a policy; `None` where the question is for policies of the other kind.
    pub(super) fn of(policy: &Policy, question: &Question) -> Option<Evaluation<Self>> {
        match question {
            Question::Window(window) => policy.recommend(window).map(|run| run.map(Self::Advice)),
            Question::Request(request) => policy.quote(request).map(|run| run.map(Self::Quote)),
        }
    }

    /// One that was recorded, of a policy of this kind.
    pub(super) fn recorded(kind: Kind, path: &Path) -> Result<Self, PolicyFailure> {
        let (file, json) = (path.display().to_string(), desk::read(path)?);
        Ok(match kind {
            Kind::Recommender => Self::Advice(fixture::read_recommendations(&file, &json)?),
            Kind::Pricer => Self::Quote(fixture::read_quote(&file, &json)?),
        })
    }

    /// Records it.
    pub(super) fn write(&self, out: impl Write) -> io::Result<()> {
        match self {
            Self::Advice(advice) => fixture::write_recommendations(advice, out),
            Self::Quote(quote) => fixture::write_quote(quote.as_ref(), out),
        }
    }

    /// Tells it to people.
    pub(super) fn tell(&self, mut out: impl Write) -> io::Result<()> {
        match self {
            Self::Advice(advice) if advice.is_empty() => writeln!(out, "no advice"),
            Self::Advice(advice) => advice.iter().try_for_each(|one| tell_advice(one, &mut out)),
            Self::Quote(None) => writeln!(out, "no quote: the next is asked"),
            Self::Quote(Some(quote)) => tell_quote(quote, out),
        }
    }
}

/// One piece of advice, for people.
fn tell_advice(advice: &Recommendation, mut out: impl Write) -> io::Result<()> {
    let percent = |fraction: f64| format!("{:.0}", fraction * 100.0);
    let saving = advice.saving;
    let [low, expected, high] =
        [saving.low, saving.expected, saving.high].map(|fraction| percent(fraction.as_f64()));
    let evidence = advice.evidence.iter();
    let evidence: Vec<_> =
        evidence.map(|(name, value)| format!("{name} {}", number(*value))).collect();
    writeln!(out, "{} ({}, by {})", clean(&advice.title), advice.code, advice.lever)?;
    writeln!(out, "  saves {expected} % of their bill ({low}–{high} %): {}", advice.target.name())?;
    writeln!(out, "  sure  {} %", percent(advice.confidence.as_f64()))?;
    writeln!(out, "  why   {}", clean(&advice.rationale))?;
    writeln!(out, "  do    {}", clean(&advice.action))?;
    writeln!(out, "  seen  {}", clean(&evidence.join(", ")))?;
    writeln!(out, "  for   {}", clean(&advice.gpus.join(", ")))
}

fn tell_quote(quote: &Quote, mut out: impl Write) -> io::Result<()> {
    let plan = quote.plan.as_str().replace('_', " ");
    let end = quote.valid_until.map_or_else(|| "never".to_owned(), |end| Utc(end).to_string());
    writeln!(out, "{} a GPU-hour, {plan}", rate(quote.rate))?;
    writeln!(out, "  by    {}", clean(&quote.source))?;
    writeln!(out, "  as of {}", quote.as_of)?;
    writeln!(out, "  ends  {end}")
}
