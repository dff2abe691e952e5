//! The input of the report of a run that has ended.

use std::collections::BTreeSet;

use phasemeter_engine::pipeline::{Finished, RunGap, in_order};
use phasemeter_engine::pricing::{ExpiredPrice, Pricing};
use phasemeter_engine::work::{InterruptionLog, WorkByHour};
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::reading::GpuIdentity;

use super::attribution::Attribution;
use super::experiment::Experiment;
use super::input::{GpuInput, Input, PoliciesInput};
use super::rejected_row::RejectedRow;
use super::value::Utc;

/// What a report states that follows from the source of its run.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// What was metered: `train.csv`, `3 logs`, `demo, seed 7`.
    pub title: String,
    /// Work done by UTC hour and unit, if known.
    pub work_by_hour: WorkByHour,
    /// What the cloud announced, if that was watched.
    pub interruptions: Option<InterruptionLog>,
    /// The first rejected rows.
    pub rejected_rows: Vec<RejectedRow>,
    /// Number of rejected rows.
    pub rejected_total: u64,
    /// Assumptions about the input, each a sentence without its full stop.
    pub assumptions: Vec<String>,
    /// Quality of live sampling, in the same form.
    pub sampling: Vec<String>,
    /// How the bill is divided among spans, if it is.
    pub attribution: Option<Attribution>,
    /// Outcome of OTLP delivery, in the same form.
    pub delivery: Vec<String>,
    /// Whether durations of policies are reported. They are not for reproducible reports.
    pub timed: bool,
}

impl<'a> Input<'a> {
    /// The report of a run that has ended, with meters of these thresholds. `identities` are its GPUs, in order.
    #[must_use]
    pub fn of(
        run: &'a Finished,
        identities: &'a [GpuIdentity],
        thresholds: Thresholds,
        provenance: Provenance,
    ) -> Self {
        let mut assumptions = provenance.assumptions;
        if thresholds != Thresholds::default() {
            assumptions.push(format!("phases begin at {thresholds}, as configured"));
        }
        let ends = run.gpus.iter().filter_map(|gpu| Some(gpu.meter.span()?.1));
        let held = run.pricing.expired(ends.max().unwrap_or_default());
        assumptions.extend(held.map(|(model, held)| expired_price(model, &held)));
        assumptions.extend(limited_prices(&run.pricing));
        let models = identities.iter().filter_map(|gpu| gpu.model.as_deref());
        assumptions.extend(run.pricing.contradictions(models));
        assumptions.extend(run.gaps.iter().map(gap));
        let unlisted = run.pricing.unlisted();
        assumptions
            .extend(unlisted.map(|it| format!("{it} is not in the price book, so it is not used")));
        Self {
            title: provenance.title,
            experiment: Experiment {
                id: run.experiment.id.clone(),
                trace_id: run.experiment.context().map(|context| context.trace_id.to_string()),
                attributes: run.experiment.attributes.clone(),
            },
            thresholds,
            wall: run.wall,
            gpus: gpus(identities, run),
            work: run.work.clone().into_iter().collect(),
            work_by_group: run.work_by_group.clone(),
            served: run.gpus.iter().map(|gpu| gpu.serving.total()).collect(),
            has_unit_costs: run.has_unit_costs,
            work_by_hour: provenance.work_by_hour,
            experiments: run.experiments.as_ref(),
            interruptions: provenance.interruptions,
            rejected_rows: provenance.rejected_rows,
            rejected_total: provenance.rejected_total,
            assumptions,
            sampling: provenance.sampling,
            attribution: provenance.attribution,
            delivery: provenance.delivery,
            alerts: &run.alerts,
            policies: PoliciesInput {
                results: &run.results,
                pricers: run.pricing.pricers(),
                timed: provenance.timed,
            },
        }
    }
}

/// A note that a price was used after it expired.
fn expired_price(model: &str, held: &ExpiredPrice) -> String {
    let ExpiredPrice { expiry, prices, until } = held;
    let (by, first) = (&expiry.policy, Utc(expiry.at));
    let until = until.map(|until| format!(" until {}", Utc(until))).unwrap_or_default();
    match prices {
        0 | 1 => format!(
            "the price of {model} quoted by {by} expired at {first} and remained in use{until}"
        ),
        some => format!(
            "{some} prices of {model} quoted by {by} expired, the first at {first}, before a new \
             quote and remained in use{until}"
        ),
    }
}

/// A note that time between two runs is not billed.
fn gap(gap: &RunGap) -> String {
    let RunGap { gpu, from, to } = gap;
    let (seconds, from, to) = (to.since(*from).as_secs_f64(), Utc(*from), Utc(*to));
    format!(
        "{gpu}: {seconds:.1} s between an earlier run and this one are not billed, {from} to {to}"
    )
}

/// A note for each price that is for a number of GPUs, which may be in use in other runs too.
fn limited_prices(pricing: &Pricing) -> BTreeSet<String> {
    let limited = pricing.limited().map(|(model, gpus, price)| {
        let source = &price.source;
        format!("{source}, is for {gpus} {model} of this run; its use in other runs is unchecked")
    });
    limited.collect()
}

fn gpus<'a>(identities: &'a [GpuIdentity], run: &'a Finished) -> Vec<GpuInput<'a>> {
    let each = identities.iter().zip(&run.gpus);
    let gpus = each
        .map(|(identity, gpu)| GpuInput {
            identity,
            meter: &gpu.meter,
            price: &gpu.price,
            earlier: &gpu.earlier,
            unpriced_until: gpu.unpriced_until.as_ref(),
            unlisted: gpu.unlisted,
            absence: gpu.absence,
            memory_total: identity.memory_total,
        })
        .collect();
    in_order(gpus, |gpu| gpu.identity)
}
