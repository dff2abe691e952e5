//! The input of a report, and that of a run that has ended.

use std::collections::BTreeSet;

use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{
    Absence, ExperimentLog, Finished, RunGap, WorkByGroup, in_order,
};
use phasemeter_engine::policies::{PolicyResults, PricerStats};
use phasemeter_engine::pricing::{EarlierPrices, ExpiredPrice, Pricing};
use phasemeter_meter::alert::{AlertEvaluator, AlertLog};
use phasemeter_meter::energy::Energy;
use phasemeter_meter::gpu::{GpuMeter, GpuPart};
use phasemeter_meter::holders::Holders;
use phasemeter_meter::periods::PeriodList;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Bytes, Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::encode::ServedCost;

use super::experiment::Experiment;
use super::provenance::Provenance;
use super::value::Utc;

/// Everything a report is built from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What follows from the source of the run.
    pub provenance: Provenance,
    /// The experiment.
    pub experiment: Experiment,
    /// The phase thresholds of the meters.
    pub thresholds: Thresholds,
    /// The wall time at the end of the run, by which all of it is labeled.
    pub wall: WallOffset,
    /// The GPUs, by index or first appearance; their meters have finished.
    pub gpus: Vec<GpuInput<'a>>,
    /// Work done, by unit: `("samples", 200_000)`. The last entry of a unit wins.
    pub work: Vec<(String, u64)>,
    /// Work by group, as far as it is counted.
    pub work_by_group: WorkByGroup,
    /// What each GPU costs by group.
    pub served: Vec<&'a ServedCost>,
    /// Whether the bill is that of all GPUs that do the work.
    pub has_unit_costs: bool,
    /// Experiments that ended during the run, if any began.
    pub experiments: Option<&'a ExperimentLog>,
    /// Rules for alerts.
    pub alerts: &'a AlertRules,
    /// The results of policies.
    pub policies: PoliciesInput<'a>,
}

/// The results of policies.
#[derive(Clone, Copy, Debug)]
pub struct PoliciesInput<'a> {
    /// The results of the last window.
    pub results: &'a PolicyResults,
    /// The pricers that were queried.
    pub pricers: &'a [PricerStats],
    /// Whether durations are reported. They are not for logs, whose reports are reproducible.
    pub timed: bool,
}

/// One GPU of a report.
#[derive(Clone, Copy, Debug)]
pub struct GpuInput<'a> {
    /// Its identity.
    pub identity: &'a GpuIdentity,
    /// Its meter, whose rate is that of `price`, if any.
    pub meter: &'a GpuMeter,
    /// The part of its run that the report is about; `None`: all of it.
    pub part: Option<&'a GpuPart>,
    /// Its current price, or why there is none.
    pub price: &'a Result<Price, Unpriced>,
    /// Its earlier prices.
    pub earlier: &'a EarlierPrices,
    /// Until when it had no price, if it has one now, and why.
    pub unpriced_until: Option<&'a (Timestamp, Unpriced)>,
    /// Unobserved time at its end, in which its source no longer listed it.
    pub unlisted: Nanos,
    /// Time that is not billed, since the GPU was not there.
    pub absence: Absence,
    /// Its memory as measured by the driver or in the log; never from a table of models.
    pub memory_total: Option<Bytes>,
}

impl GpuInput<'_> {
    /// What it did and cost.
    pub(super) fn summary(&self) -> Summary {
        self.part.map_or_else(|| self.meter.summary(), |part| part.summary)
    }

    /// Its hours.
    pub(super) fn periods(&self) -> PeriodList {
        self.part.map_or_else(|| self.meter.periods(), |part| part.periods.clone())
    }

    /// The time that its accounts sum to: its span, or of that what the holders have whose accounts they are.
    pub(super) fn billed_time(&self, summary: &Summary) -> Nanos {
        if self.is_share() { summary.accounts.all().time } else { summary.length() }
    }

    /// The mean utilization of the whole GPU.
    pub(super) fn mean_ppm(&self, summary: &Summary) -> Option<u128> {
        let whole = self.part.and_then(|part| part.share_of.as_deref());
        whole.unwrap_or(summary).mean_ppm()
    }

    /// Its alerts, if there are rules.
    pub(super) fn alerts(&self) -> Option<&AlertLog> {
        let of_part = self.part.and_then(|part| part.alerts.as_ref());
        of_part.or_else(|| self.meter.alerts().map(AlertEvaluator::log))
    }

    /// Whether its accounts are those of some holders only.
    pub(super) fn is_share(&self) -> bool {
        self.part.is_some_and(|part| part.share_of.is_some())
    }

    /// The accounts of its holders.
    pub(super) fn holders(&self) -> &Holders {
        self.part.map_or_else(|| self.meter.holders(), |part| &part.holders)
    }

    /// Its energy.
    pub(super) fn energy(&self) -> Energy {
        self.part.map_or_else(|| self.meter.energy(), |part| part.summary.energy)
    }

    /// Whether this activity was measured: by counters of the driver, or in a column.
    #[must_use]
    pub fn measures(&self, basis: Basis, quantity: Quantity) -> bool {
        let is_read = self.meter.feeds().any(|feed| feed.basis() == basis && feed.is_measured());
        let has_column =
            |end| self.meter.window_totals(end).sensors.device.mean(quantity).is_some();
        is_read || self.meter.reached().is_some_and(has_column)
    }
}

impl<'a> Input<'a> {
    /// The report of a run that has ended, or of a part of it in which GPUs have parts, with meters of these thresholds. `identities` are its GPUs, in order.
    #[must_use]
    pub fn of(
        run: &'a Finished,
        identities: &'a [GpuIdentity],
        thresholds: Thresholds,
        mut provenance: Provenance,
    ) -> Self {
        let assumptions = &mut provenance.assumptions;
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
        // What is summed over the run only is not known of a part of it.
        let whole = Some(run).filter(|run| run.part_work.is_none());
        if whole.is_none() {
            provenance.work_by_hour.clear();
            provenance.attribution = None;
        }
        Self {
            experiment: Experiment {
                id: run.experiment.id.clone(),
                trace_id: run.experiment.context().map(|context| context.trace_id.to_string()),
                attributes: run.experiment.attributes.clone(),
            },
            thresholds,
            wall: run.wall,
            gpus: gpus(identities, run),
            work: run.part_work.as_ref().unwrap_or(&run.work).clone().into_iter().collect(),
            work_by_group: whole.map(|run| run.work_by_group.clone()).unwrap_or_default(),
            served: whole.iter().flat_map(|run| &run.gpus).map(|gpu| gpu.serving.total()).collect(),
            has_unit_costs: run.has_unit_costs,
            experiments: whole.and_then(|run| run.experiments.as_ref()),
            alerts: &run.alerts,
            policies: PoliciesInput {
                results: &run.results,
                pricers: run.pricing.pricers(),
                timed: provenance.timed,
            },
            provenance,
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
    let each = each.filter(|(_, gpu)| run.part_work.is_none() || gpu.part.is_some());
    let gpus = each
        .map(|(identity, gpu)| {
            let part = gpu.part.as_ref();
            GpuInput {
                identity,
                meter: &gpu.meter,
                part,
                price: &gpu.price,
                earlier: &gpu.earlier,
                unpriced_until: gpu.unpriced_until.as_ref(),
                unlisted: part.map_or(gpu.unlisted, |it| it.summary.length().min(gpu.unlisted)),
                absence: part.map_or(gpu.absence, |it| gpu.absence.of_part(it.absent)),
                memory_total: identity.memory_total,
            }
        })
        .collect();
    in_order(gpus, |gpu| gpu.identity)
}
