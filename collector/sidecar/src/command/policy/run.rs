//! `phasemeter policy run`: what a policy says of a window.

use std::io::{self, Write};

use phasemeter_rules::recommendation::Recommendation;
use phasemeter_rules::recorded;

use super::desk::{self, Desk};
use super::shown::Shown;
use crate::cli::{Format, RunPolicyArgs};
use crate::command::Failure;
use crate::report::text::{clean, number};

/// Prints its advice.
pub(super) fn run(args: &RunPolicyArgs) -> Result<(), Failure> {
    let policy = Desk::guest(&args.guest)?;
    let (advice, _) = desk::ask(&policy, &Shown::of(&args.shown)?)?;
    let mut out = io::stdout().lock();
    match args.format {
        Format::Json => recorded::write_advice(&advice, out),
        Format::Text if advice.is_empty() => writeln!(out, "no advice"),
        Format::Text => advice.iter().try_for_each(|advice| tell(advice, &mut out)),
    }
    .map_err(Failure::Output)
}

/// One piece of it, for people.
fn tell(advice: &Recommendation, mut out: impl Write) -> io::Result<()> {
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
