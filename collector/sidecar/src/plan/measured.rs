//! Measured values of a JSON report.
//!
//! A value that a report lacks stays unknown.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::Rate;
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::units::Timestamp;
use phasemeter_plan::profile::{self, Hour, MeasuredUse, Period};
use serde_json::Value;

/// The name of the schemas that are read, without the version.
const SCHEMA: &str = "phasemeter.report/";

/// The accounts of time at work.
const WORKING: [Account; 3] = [Account::Underutilized, Account::Productive, Account::ComputeBound];

/// The largest report that is read.
const MAX_BYTES: u64 = 1 << 30;

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

/// Why a report cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It cannot be read.
    #[error("{}: cannot be read; check its name and permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// It is too large.
    #[error("{}: is larger than 1 GiB; give the JSON report of one run", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It is not a report.
    #[error("{}: is not a report; write one with `audit --format json` or `run --report`", .path.display())]
    NotAReport {
        /// The file.
        path: PathBuf,
    },
    /// It lacks a value.
    #[error("{}: has no {what}; {fix}", .path.display())]
    Lacks {
        /// The file.
        path: PathBuf,
        /// The value.
        what: &'static str,
        /// What to do.
        fix: &'static str,
    },
}

impl ReportError {
    /// Whether the file could not be opened or read.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Unreadable { .. })
    }
}

impl Measured {
    /// Reads a report.
    ///
    /// # Errors
    /// Returns an error if it cannot be read or is not a report.
    pub fn read(path: &Path) -> Result<Self, ReportError> {
        let unreadable = |source| ReportError::Unreadable { path: path.to_owned(), source };
        let file = std::fs::File::open(path).map_err(unreadable)?;
        let text =
            phasemeter_files::read(file, MAX_BYTES).map_err(|source| match source.kind() {
                io::ErrorKind::FileTooLarge => ReportError::TooLarge { path: path.to_owned() },
                _ => unreadable(source),
            })?;
        Self::parse(&text).ok_or_else(|| ReportError::NotAReport { path: path.to_owned() })
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let report: Value = serde_json::from_slice(text).ok()?;
        report.get("schema")?.as_str().filter(|schema| schema.starts_with(SCHEMA))?;
        let cost = report.get("cost")?;
        let work = report.get("work")?.as_object()?.iter();
        let work = work.filter_map(|(unit, work)| {
            Some((unit.clone(), work.get("count")?.as_u64().filter(|&count| count > 0)?))
        });
        Some(Self {
            gpus: report.get("gpus")?.as_array()?.iter().map(gpu).collect(),
            price: price(cost),
            gpu_hours: cost.get("gpu_hours").and_then(Value::as_f64).filter(|&hours| hours > 0.0),
            work: work.collect(),
            work_by_hour: work_by_hour(&report),
        })
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

fn gpu(gpu: &Value) -> MeasuredGpu {
    let text = |value: &Value, key: &str| Some(value.get(key)?.as_str()?.to_owned());
    let energy = gpu.get("energy_joules").and_then(Value::as_f64);
    let measured: Option<f64> = gpu
        .get("energy_by_basis")
        .and_then(Value::as_array)
        .map(|all| all.iter().filter_map(|basis| basis.get("seconds")?.as_f64()).sum());
    let watts = energy.zip(measured).map(|(joules, seconds)| joules / seconds);
    MeasuredGpu {
        id: text(gpu, "id").unwrap_or_default(),
        model: text(gpu, "model"),
        peak_bytes: gpu.get("memory").and_then(|memory| memory.get("used_peak_bytes")?.as_u64()),
        utilization: gpu
            .get("utilization")
            .and_then(|utilization| utilization.get("mean")?.as_f64())
            .map(|percent| percent / 100.0),
        watts: watts.filter(|watts| watts.is_finite() && *watts > 0.0),
        periods: gpu
            .get("periods")
            .and_then(Value::as_array)
            .map(|all| all.iter().filter_map(period).collect())
            .unwrap_or_default(),
    }
}

fn period(period: &Value) -> Option<Period> {
    let instant = |key: &str| Some(period.get(key)?.as_str()?.parse::<Instant>().ok()?.0);
    let (start, end) = (instant("start")?, instant("end")?);
    let seconds = end.since(start).as_secs_f64();
    let accounts = period.get("accounts")?.as_object()?;
    let time_in = |names: &[Account]| {
        let time = |it: &Account| accounts.get(it.name())?.get("seconds")?.as_f64();
        names.iter().filter_map(time).sum::<f64>()
    };
    (seconds > 0.0).then(|| Period {
        start: start.since(Timestamp::EPOCH).as_secs_f64(),
        seconds,
        effective_seconds: period.get("effective_seconds").and_then(Value::as_f64).unwrap_or(0.0),
        working_seconds: time_in(&WORKING),
        held_seconds: time_in(&[Account::IdleHeld]),
        unobserved_seconds: time_in(&[Account::Unobserved]),
    })
}

fn work_by_hour(report: &Value) -> Vec<(u64, Vec<(String, u64)>)> {
    let hours = report.get("work_by_hour").and_then(Value::as_array);
    let hours = hours.into_iter().flatten().filter_map(|hour| {
        let start: Instant = hour.get("start")?.as_str()?.parse().ok()?;
        let work = hour.get("work")?.as_object()?.iter();
        let work = work.filter_map(|(unit, count)| Some((unit.clone(), count.as_u64()?)));
        Some((start.0.whole_second() / 3_600, work.collect()))
    });
    hours.collect()
}

/// The price that all GPUs have.
fn price(cost: &Value) -> Option<Price> {
    let rate = Rate::parse(cost.get("rate_usd_per_gpu_hour")?.as_str()?).ok()?;
    let tag = cost.get("price")?;
    let text = |key: &str| Some(tag.get(key)?.as_str()?.to_owned());
    let plan: Option<PaymentPlan> = text("plan").and_then(|plan| plan.parse().ok());
    let source = text("source").map_or("a report".to_owned(), |it| format!("a report: {it}"));
    Some(Price {
        provider: text("provider"),
        region: text("region"),
        instance_type: text("instance_type"),
        as_of: text("as_of").and_then(|date| date.parse().ok()),
        ..Price::given(rate, plan, source)
    })
}
