//! Builds the report from the meters.
//!
//! A GPU and the fleet use the same sums: those of the fleet are added up over its GPUs.

use std::collections::BTreeMap;

use phasemeter_meter::energy::{EnergyBasis, EnergyPart};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::projection::{Projection, UnitCost, cost_per_effective_hour};
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Bytes, NANOS_PER_HOUR, Nanos, PPM, Timestamp, Utilization as Busy};
use phasemeter_meter::wall_time::WallOffset;

use super::absence;
use super::alerts::Alerts;
use super::experiments::Experiments;
use super::holders::{Holder, Nobody};
use super::input::{GpuInput, Input};
use super::interruptions::Interruptions;
use super::model::*;
use super::periods::Periods;
use super::policies::PolicySection;
use super::price_tag::PriceTag;
use super::prices::{earlier, total_range, unpriced, unpriced_reason};
use super::sums::Sums;
use super::text;
use super::timeline::{Timeline, thresholds_percent};
use super::value::{Seconds, Usd, Utc};
use super::work_groups::{Work, WorkGroups};

impl Report {
    /// Builds the report.
    #[must_use]
    pub fn build(input: &Input<'_>) -> Self {
        let summary = |gpu: &GpuInput<'_>| {
            let summary = gpu.summary();
            let labeled = |(from, to)| (input.wall.wall(from), input.wall.wall(to));
            Summary { span: summary.span.map(labeled), ..summary }
        };
        let summaries: Vec<Summary> = input.gpus.iter().map(summary).collect();
        let spans = || summaries.iter().filter_map(|summary| summary.span);
        let start = spans().map(|(start, _)| start).min();
        let gpus: Vec<Gpu> = input
            .gpus
            .iter()
            .zip(&summaries)
            .map(|(gpu, summary)| Gpu::build(gpu, summary, input.wall, start))
            .collect();
        let mut sums = Sums::default();
        for (gpu, summary) in input.gpus.iter().zip(&summaries) {
            sums += &Sums::of(gpu, summary);
        }
        let cost = Cost::build(input, &gpus, &sums);
        let section = PolicySection::build(input, &summaries);
        let assumptions = input.provenance.assumptions.iter().cloned();
        let assumptions = assumptions.chain(absence::notes(input, &text::gpu_names(&gpus)));
        Self {
            schema: SCHEMA,
            title: input.provenance.title.clone(),
            warnings: unset_clock(start).into_iter().collect(),
            start: start.map(Utc),
            end: spans().map(|(_, end)| end).max().map(Utc),
            experiment: input.experiment.clone(),
            thresholds_percent: thresholds_percent(&input.thresholds),
            fleet: Fleet {
                span_seconds: Seconds(sums.accounts.all().time),
                unobserved_seconds: Seconds(sums.accounts[Account::Unobserved].time),
                unobserved_reasons: sums.reasons(),
                phases: sums.phases(),
            },
            work: work(input, &cost),
            work_groups: WorkGroups::build(
                input,
                cost.total_usd.filter(|_| cost.unpriced_reason.is_none()),
            ),
            work_by_hour: work_by_hour(input),
            experiments: Experiments::build(input),
            interruptions: Interruptions::build(input),
            cost,
            gpus,
            rejected_rows: input
                .provenance
                .rejected_rows
                .iter()
                .take(MAX_REJECTED_ROWS)
                .cloned()
                .collect(),
            rejected_total: input.provenance.rejected_total,
            assumptions: assumptions.collect(),
            sampling: input.provenance.sampling.clone(),
            attribution: input.provenance.attribution,
            delivery: input.provenance.delivery.clone(),
            alerts: Alerts::build(input),
            recommendations: section.recommendations,
            needs: section.needs,
            uncovered_waste: section.uncovered_waste,
            waste_coverage: section.waste_coverage,
            savings: section.savings,
            policies: section.policies,
        }
    }
}

impl Gpu {
    fn build(
        gpu: &GpuInput<'_>,
        summary: &Summary,
        wall: WallOffset,
        first_use: Option<Timestamp>,
    ) -> Self {
        let sums = Sums::of(gpu, summary);
        let priced = gpu.price.as_ref().ok();
        let earlier = earlier(gpu, summary, wall, first_use);
        let read = gpu.meter.feeds().any(|feed| feed.histogram().readings().count > 0);
        Self {
            id: gpu.identity.name.clone(),
            uuid: gpu.identity.uuid.clone(),
            index: gpu.identity.index,
            node: gpu.identity.node().map(str::to_owned),
            host: gpu.identity.host().map(str::to_owned),
            pod: gpu.identity.pod().map(str::to_owned),
            holders: Holder::all_of(gpu, wall),
            nobody: Nobody::of(gpu),
            model: gpu.identity.model.clone(),
            start: summary.span.map(|(start, _)| Utc(start)),
            end: summary.span.map(|(_, end)| Utc(end)),
            rate_usd_per_gpu_hour: priced.map(|price| price.rate),
            price: priced.map(|price| PriceTag::of(price, first_use)),
            earlier_prices_total: earlier.0,
            earlier_prices: earlier.1,
            unpriced_reason: unpriced(gpu, summary, wall),
            cost_usd: sums.usd(sums.bill()),
            utilized_usd: sums.usd(sums.utilized),
            waste_usd: sums.usd(sums.waste),
            waste_by_category_usd: sums.waste_by_category(),
            unobserved_usd: sums.usd(sums.unobserved_cost()),
            span_seconds: Seconds(gpu.billed_time(summary)),
            unobserved_seconds: Seconds(summary.accounts[Account::Unobserved].time),
            unobserved_reasons: sums.reasons(),
            absent_seconds: Seconds(gpu.absence.time),
            absent_usd: absence::cost(gpu).map(Usd),
            phases: sums.phases(),
            utilization: Utilization {
                basis: read.then_some(summary.basis.name()),
                mean: gpu.mean_ppm(summary).map(|ppm| ppm as f64 / 10_000.0),
                p50: summary.utilization_p50.map(Busy::percent),
                p95: summary.utilization_p95.map(Busy::percent),
                update_period_seconds: summary.update_period.map(Seconds),
            },
            effective_seconds: seconds(sums.weighted),
            pattern: summary.pattern.map(|pattern| Pattern {
                kind: pattern.kind.name(),
                period_seconds: pattern.period.map(Seconds),
                duty_cycle: pattern.duty_cycle.map(|ppm| f64::from(ppm) / f64::from(PPM)),
            }),
            memory: Memory {
                total_bytes: gpu.memory_total.map(Bytes::get),
                used_peak_bytes: summary.memory_peak.map(Bytes::get),
                used_p95_bytes: summary.memory_p95.map(Bytes::get),
                used_p95_resolution_bytes: summary.memory_p95.map(|_| summary.memory_resolution),
            },
            energy_joules: summary.energy.joules(),
            energy_by_basis: summary.energy.parts().map(EnergyOnBasis::from).collect(),
            periods: Periods::new(
                gpu.periods(),
                gpu.part.filter(|_| gpu.is_share()).and_then(|part| Some(part.summary.span?.1)),
                wall,
                gpu.price.is_ok(),
            ),
            timeline: gpu
                .summary()
                .span
                .and_then(|span| Timeline::new(gpu.meter.series(), span, wall)),
        }
    }
}

impl Cost {
    fn build(input: &Input<'_>, gpus: &[Gpu], sums: &Sums) -> Self {
        let projection = Projection::of(input.gpus.iter().filter_map(hourly).sum());
        let observed = sums.bill() - sums.unobserved_cost();
        let span: u128 = gpus.iter().map(|gpu| u128::from(gpu.span_seconds.0.0)).sum();
        let rate = same(gpus.iter().map(|gpu| gpu.rate_usd_per_gpu_hour)).flatten();
        Self {
            rate_usd_per_gpu_hour: rate,
            gpu_hours: span as f64 / NANOS_PER_HOUR as f64,
            effective_gpu_hours: seconds(sums.weighted) / 3_600.0,
            total_usd: sums.usd(sums.bill()),
            total_range_usd: total_range(gpus),
            utilized_usd: sums.usd(sums.utilized),
            waste_usd: sums.usd(sums.waste),
            waste_by_category_usd: sums.waste_by_category(),
            unobserved_usd: sums.usd(sums.unobserved_cost()),
            // Effective time without a price has no cost.
            cost_per_effective_gpu_hour_usd: cost_per_effective_hour(
                observed,
                sums.priced_weighted,
            )
            .filter(|_| !gpus.iter().any(Gpu::is_priced_in_part))
            .map(Usd),
            hourly_usd: sums.usd(projection.hourly),
            monthly_usd: sums.usd(projection.monthly),
            yearly_usd: sums.usd(projection.yearly),
            price: rate.and(same(gpus.iter().map(|gpu| &gpu.price))).cloned().flatten(),
            unpriced_reason: unpriced_reason(gpus),
        }
    }
}

impl From<(EnergyBasis, EnergyPart)> for EnergyOnBasis {
    fn from((basis, part): (EnergyBasis, EnergyPart)) -> Self {
        Self { basis: basis.name(), seconds: Seconds(part.time), joules: part.joules() }
    }
}

/// A warning if the first reading is from 1970, where clocks start.
fn unset_clock(start: Option<Timestamp>) -> Option<String> {
    let is_unset = start?.since(Timestamp::EPOCH) < Nanos::from_secs(365 * 86_400);
    let warning = "the first reading is from 1970, so a clock was not set; times and costs before it \
                   was set are wrong";
    is_unset.then(|| warning.to_owned())
}

/// Σ utilization × time, from ppm·ns.
fn seconds(weighted: u128) -> f64 {
    weighted as f64 / (f64::from(PPM) * 1e9)
}

fn hourly(gpu: &GpuInput<'_>) -> Option<NanoUsd> {
    gpu.price.as_ref().ok().map(|price| price.rate).map(Rate::hourly)
}

/// The common value; `None` if they differ.
fn same<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

fn work_by_hour(input: &Input<'_>) -> Vec<WorkHour> {
    let hours = input.provenance.work_by_hour.iter();
    hours.map(|(start, work)| WorkHour { start: Utc(*start), work: work.clone() }).collect()
}

fn work(input: &Input<'_>, cost: &Cost) -> BTreeMap<String, Work> {
    let is_known = input.has_unit_costs && cost.unpriced_reason.is_none();
    let bill = cost.total_usd.filter(|_| is_known);
    let each = |count| bill.and_then(|Usd(bill)| UnitCost::of(bill, count));
    let work = |count| Work { count, cost_each_usd: each(count) };
    input.work.iter().map(|(unit, count)| (unit.clone(), work(*count))).collect()
}
