//! The output of a policy of either kind, as JSON and as text.

use std::io::{self, Write};
use std::path::Path;

use phasemeter_meter::units::Timestamp;
use phasemeter_report::Utc;
use phasemeter_rules::fixture;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::{Evaluation, Policy, Usage};
use phasemeter_rules::quote::Quote;
use phasemeter_rules::recommendation::{Recommendation, Response};
use phasemeter_terminal::escape::clean;
use phasemeter_terminal::money::rate;
use phasemeter_terminal::quantity::quantity;

use super::error::PolicyCommandError;
use super::files;
use super::input::{InputData, PolicyInput};
use crate::standard_error;

/// The output of a policy.
pub(super) enum PolicyOutput {
    /// Of a recommender.
    Recommendations(Response),
    /// Of a pricer.
    Quote(Option<Quote>),
}

/// Evaluates a policy; returns its output and usage. Its log is written to standard error.
pub(super) fn evaluate(
    policy: &Policy,
    input: &PolicyInput,
) -> Result<(PolicyOutput, Usage), PolicyCommandError> {
    let evaluation =
        PolicyOutput::of(policy, &input.data).ok_or_else(|| PolicyCommandError::OtherKind {
            file: policy.file().to_owned(),
            kind: policy.kind(),
            input: input.source.clone(),
        })?;
    let name = &policy.manifest().name;
    for (level, line) in &evaluation.log.lines {
        let line = format!("{name}: {}: {}\n", level.name(), clean(line));
        standard_error::write(line.as_bytes());
    }
    if evaluation.log.dropped > 0 {
        let line = format!("{name}: {} more lines\n", evaluation.log.dropped);
        standard_error::write(line.as_bytes());
    }
    let failed = |error| PolicyCommandError::Evaluation {
        file: policy.file().to_owned(),
        input: input.source.clone(),
        error,
    };
    Ok((evaluation.result.map_err(failed)?, evaluation.usage))
}

impl PolicyOutput {
    /// Evaluates a policy; `None` if the input is for policies of the other kind.
    fn of(policy: &Policy, input: &InputData) -> Option<Evaluation<Self>> {
        match input {
            InputData::Window(window) => {
                policy.recommend(window).map(|it| it.map(Self::Recommendations))
            }
            InputData::Request(request) => policy.quote(request).map(|it| it.map(Self::Quote)),
        }
    }

    /// Reads the expected output of a policy of this kind.
    pub(super) fn read(kind: Kind, path: &Path) -> Result<Self, PolicyCommandError> {
        let (file, json) = (path.display().to_string(), files::read(path)?);
        Ok(match kind {
            Kind::Recommender => {
                Self::Recommendations(fixture::read_recommendations(&file, &json)?)
            }
            Kind::Pricer => Self::Quote(fixture::read_quote(&file, &json)?),
        })
    }

    /// Writes it as JSON.
    pub(super) fn write_json(&self, out: impl Write) -> io::Result<()> {
        match self {
            Self::Recommendations(all) => fixture::write_recommendations(all, out),
            Self::Quote(quote) => fixture::write_quote(quote.as_ref(), out),
        }
    }

    /// Writes it as text.
    pub(super) fn write_text(&self, mut out: impl Write) -> io::Result<()> {
        match self {
            Self::Recommendations(Response { recommendations, needs }) => {
                if recommendations.is_empty() {
                    writeln!(out, "no recommendations")?;
                }
                recommendations.iter().try_for_each(|one| write_recommendation(one, &mut out))?;
                needs.iter().try_for_each(|need| {
                    writeln!(out, "missing {}: {}", clean(&need.missing), clean(&need.reason))
                })
            }
            Self::Quote(None) => writeln!(out, "no quote; the next pricer is queried"),
            Self::Quote(Some(quote)) => write_quote(quote, out),
        }
    }
}

fn write_recommendation(recommendation: &Recommendation, mut out: impl Write) -> io::Result<()> {
    let Recommendation { title, code, lever, target, saving, confidence, .. } = recommendation;
    let percent = |fraction: f64| format!("{:.0}", fraction * 100.0);
    let [low, expected, high] =
        [saving.low, saving.expected, saving.high].map(|fraction| percent(fraction.as_f64()));
    let evidence = recommendation.evidence.iter();
    let evidence: Vec<_> =
        evidence.map(|(name, it)| format!("{name} {}", quantity(it.value, &it.unit))).collect();
    writeln!(out, "{} ({code}, lever {lever})", clean(title))?;
    writeln!(
        out,
        "  saves       {expected}% of the bill ({low}–{high}%), target {}",
        target.name()
    )?;
    let Recommendation { kind, effort, reversible, .. } = recommendation;
    let reversible = if *reversible { ", reversible" } else { "" };
    writeln!(out, "  kind        {}, {} effort{reversible}", kind.name(), effort.name())?;
    if let Some(remediation) = &recommendation.remediation {
        let parameters =
            remediation.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
        let parameters: String = parameters.collect();
        writeln!(out, "  remediation {}{}", remediation.kind, clean(&parameters))?;
    }
    writeln!(out, "  confidence  {}%", percent(confidence.as_f64()))?;
    writeln!(out, "  why         {}", clean(&recommendation.rationale))?;
    writeln!(out, "  action      {}", clean(&recommendation.action))?;
    writeln!(out, "  evidence    {}", clean(&evidence.join(", ")))?;
    writeln!(out, "  gpus        {}", clean(&recommendation.gpus.join(", ")))
}

fn write_quote(quote: &Quote, mut out: impl Write) -> io::Result<()> {
    let plan = quote.plan.as_str().replace('_', " ");
    let instant = |at: Option<Timestamp>| at.map(|at| Utc(at).to_string());
    writeln!(out, "{} per GPU-hour, {plan}", rate(quote.rate))?;
    writeln!(out, "  source   {}", clean(&quote.source))?;
    writeln!(out, "  as of    {}", quote.as_of)?;
    if let Some(start) = instant(quote.valid_from) {
        writeln!(out, "  begins   {start}")?;
    }
    writeln!(
        out,
        "  expires  {}",
        instant(quote.valid_until).unwrap_or_else(|| "never".to_owned())
    )?;
    quote.gpus.map_or(Ok(()), |gpus| writeln!(out, "  gpus     the next {gpus}"))
}
