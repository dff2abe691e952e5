//! Measured values of a JSON report.
//!
//! A value that a report lacks stays unknown.

use std::collections::BTreeMap;

use phasemeter_bill::report::{self, Cost, Gpu, PriceTag, Report, Usd};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_plan::profile::{self, Hour, MeasuredUse, Period};

/// What a report measured.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The GPUs.
    pub gpus: Vec<MeasuredGpu>,
    /// The price, if it is the same for all GPUs.
    pub price: Option<Price>,
    /// GPU time in hours.
    pub gpu_hours: Option<f64>,
    /// Work done, by unit.
    pub work: Vec<(String, u64)>,
    /// Work done of each UTC hour, by its number since the epoch.
    pub work_by_hour: Vec<(u64, Vec<(String, u64)>)>,
}

/// What a report measured of one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeasuredGpu {
    /// Its ID.
    pub id: String,
    /// Its model.
    pub model: Option<String>,
    /// The most memory in use, in bytes.
    pub peak_bytes: Option<u64>,
    /// Mean utilization, 0 to 1.
    pub utilization: Option<f64>,
    /// Mean power in watts.
    pub watts: Option<f64>,
    /// What it did in each hour.
    pub periods: Vec<Period>,
}

impl Measured {
    /// The values of a report.
    #[must_use]
    pub fn of(report: &Report) -> Self {
        let work = report.work.iter().filter(|(_, work)| work.count > 0);
        let by_hour = report.work_by_hour.iter().map(|hour| {
            let work = hour.work.iter().map(|(unit, count)| (unit.clone(), *count));
            (hour.start.whole_second() / 3_600, work.collect())
        });
        Self {
            gpus: report.gpus.iter().map(gpu).collect(),
            price: price(&report.cost),
            gpu_hours: report.cost.gpu_hours.filter(|&hours| hours > 0.0),
            work: work.map(|(unit, work)| (unit.clone(), work.count)).collect(),
            work_by_hour: by_hour.collect(),
        }
    }

    /// The model, if all GPUs have the same.
    #[must_use]
    pub fn model(&self) -> Option<&str> {
        let first = self.gpus.first()?.model.as_deref()?;
        self.gpus.iter().all(|gpu| gpu.model.as_deref() == Some(first)).then_some(first)
    }

    /// The most memory in use on any GPU.
    #[must_use]
    pub fn peak_bytes(&self) -> Option<u64> {
        self.gpus.iter().filter_map(|gpu| gpu.peak_bytes).max()
    }

    /// Mean power per GPU of those that were measured.
    #[must_use]
    pub fn watts(&self) -> Option<f64> {
        mean(self.gpus.iter().filter_map(|gpu| gpu.watts))
    }

    /// Mean utilization of the GPUs that were measured.
    #[must_use]
    pub fn utilization(&self) -> Option<f64> {
        mean(self.gpus.iter().filter_map(|gpu| gpu.utilization))
    }

    /// The hours of the run, by their number since the epoch.
    #[must_use]
    pub fn hours(&self) -> BTreeMap<u64, Hour> {
        let gpus: Vec<_> = self.gpus.iter().map(|gpu| gpu.periods.clone()).collect();
        profile::hours(&gpus)
    }

    /// How much of their time the GPUs were used; `None` if the report has no time by hour.
    #[must_use]
    pub fn measured_use(&self) -> Option<MeasuredUse> {
        let gpus: Vec<_> = self.gpus.iter().map(|gpu| gpu.periods.clone()).collect();
        profile::measured_use(&gpus)
    }

    /// Work per second of all GPUs in each hour of which enough is in the run, with its unit; `None`
    /// unless work by hour of exactly one unit was reported.
    #[must_use]
    pub fn work_rates(&self) -> Option<(&str, Vec<(u64, f64)>)> {
        let [(unit, _)] = self.work.as_slice() else { return None };
        if self.work_by_hour.is_empty() {
            return None;
        }
        let hours = self.hours();
        let hours = hours.iter().filter(|(_, hour)| hour.is_representative());
        let rates = hours.map(|(number, hour)| {
            let of_hour = self.work_by_hour.iter().filter(|(at, _)| at == number);
            let counts = of_hour.flat_map(|(_, work)| work).filter(|(of, _)| of == unit);
            (*number, hour.per_second(counts.map(|(_, count)| *count as f64).sum()))
        });
        Some((unit, rates.collect()))
    }

    /// Work per second and GPU with its unit; `None` unless work of exactly one unit was reported.
    #[must_use]
    pub fn throughput(&self) -> Option<(&str, f64)> {
        let [(unit, count)] = self.work.as_slice() else { return None };
        Some((unit, *count as f64 / (self.gpu_hours? * 3_600.0)))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

fn gpu(gpu: &Gpu) -> MeasuredGpu {
    let measured: Nanos = gpu.energy_by_basis.iter().map(|basis| basis.seconds.0).sum();
    let watts = gpu.energy_joules.map(|joules| joules / measured.as_secs_f64());
    let utilization = gpu.utilization.and_then(|utilization| utilization.mean);
    MeasuredGpu {
        id: gpu.id.clone(),
        model: gpu.model.clone(),
        peak_bytes: gpu.memory.and_then(|memory| memory.used_peak_bytes),
        utilization: utilization.map(|percent| percent / 100.0),
        watts: watts.filter(|watts| watts.is_finite() && *watts > 0.0),
        periods: gpu.periods.iter().filter_map(period).collect(),
    }
}

fn period(period: &report::Period) -> Option<Period> {
    let seconds = period.length().as_secs_f64();
    let time_in = |accounts: &[Account]| period.accounts.time_in(accounts).as_secs_f64();
    (seconds > 0.0).then(|| Period {
        start: period.start.since(Timestamp::EPOCH).as_secs_f64(),
        seconds,
        effective_seconds: period.effective_seconds.0.as_secs_f64(),
        working_seconds: time_in(&Account::WORKING),
        held_seconds: time_in(&[Account::IdleHeld]),
        unobserved_seconds: time_in(&[Account::Unobserved]),
    })
}

/// The price that all GPUs have.
fn price(cost: &Cost) -> Option<Price> {
    let Usd(NanoUsd(rate)) = cost.rate_usd_per_gpu_hour?;
    let rate = Rate::new(u64::try_from(rate).ok()?)?;
    let PriceTag { price: tag, as_of } = cost.price.clone()?;
    let plan: Option<PaymentPlan> = tag.plan.and_then(|plan| plan.parse().ok());
    Some(Price {
        provider: tag.provider,
        region: tag.region,
        instance_type: tag.instance_type,
        as_of,
        ..Price::given(rate, plan, format!("a report: {}", tag.source))
    })
}
