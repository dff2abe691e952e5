//! `select`: GPUs for a job by dollars per unit of work and by time.
//!
//! Throughput is measured or given, and never derived from nominal peaks.

mod roofline;

use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::{HOURS_PER_MONTH, HOURS_PER_YEAR};
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos};
use phasemeter_terminal::chart::Chart;

pub use self::roofline::{Roofline, Side};

use crate::error::PlanError;
use crate::format::{grouped, number, percent, rate, seconds, usd};
use crate::units::{Count, PerSecond, Span};
use crate::worksheet::{Amount, Worksheet};

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// What can be rented.
    pub offers: Vec<Offer>,
    /// Units of work, such as tokens.
    pub work: Option<Count>,
    /// By when it must be done.
    pub deadline: Option<Span>,
    /// FLOP per byte of the job, if known.
    pub intensity: Option<f64>,
    /// Parameters that a token uses, if known: of a mixture of experts, not all.
    pub parameters: Option<Count>,
}

/// Some GPUs at a price.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// Specifications of the GPU, if its model is known.
    pub specs: Option<GpuSpecs>,
    /// Number of GPUs.
    pub gpus: u64,
    /// Price of a GPU-hour.
    pub price: Rate,
    /// Units per second and GPU, measured or given.
    pub throughput: Option<PerSecond>,
}

/// Time and cost of one offer.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The offer.
    pub offer: Offer,
    /// Time of the job; `None` without work.
    pub time: Option<Nanos>,
    /// Cost of the job.
    pub cost: Option<NanoUsd>,
    /// Cost of a million units.
    pub per_million: NanoUsd,
    /// Cost of 720 hours of all its GPUs.
    pub monthly: NanoUsd,
    /// Cost of 8,760 hours.
    pub yearly: NanoUsd,
    /// Whether it meets the deadline; `None` without one.
    pub in_time: Option<bool>,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Selection {
    request: Request,
    /// Offers in time first, then by cost per unit.
    pub ranked: Vec<Ranked>,
}

impl Request {
    /// Ranks the offers.
    ///
    /// # Errors
    /// Returns an error if a throughput is missing or a value out of range.
    pub fn compute(self) -> Result<Selection, PlanError> {
        if self.offers.is_empty() {
            return Err(PlanError::missing(
                "offer",
                "nothing to choose from",
                "give --offer gpu=MODEL,count=8,price=1.80,throughput=3200 for each",
            ));
        }
        let mut ranked = Vec::new();
        for offer in &self.offers {
            ranked.push(self.rank(offer)?);
        }
        ranked.sort_by_key(|it| (it.in_time == Some(false), it.per_million));
        Ok(Selection { ranked, request: self })
    }

    fn rank(&self, offer: &Offer) -> Result<Ranked, PlanError> {
        let Some(throughput) = offer.throughput else {
            return Err(PlanError::invalid(
                "offer",
                &offer.name,
                "its throughput is unknown, and does not follow from peak FLOPS",
                "measure it in a short run, and add throughput=UNITS_PER_SECOND of one GPU",
            ));
        };
        let micro = micro_units(throughput);
        let second_cost = |units: i128| {
            let scaled = units.checked_mul(1_000_000)?;
            offer.price.hourly().ratio(scaled, micro.checked_mul(3_600)?)
        };
        let per_million = second_cost(1_000_000).ok_or(PlanError::Overflow)?;
        let time = self.work.map(|work| {
            let nanos = i128::from(work.0) * i128::from(NANOS_PER_SECOND) * 1_000_000;
            let nanos = nanos / (micro * i128::from(offer.gpus.max(1)));
            u64::try_from(nanos).map(Nanos).map_err(|_| PlanError::Overflow)
        });
        let time = time.transpose()?;
        let cost = self.work.map(|work| second_cost(i128::from(work.0)).ok_or(PlanError::Overflow));
        let hourly = offer.price.hourly().times(offer.gpus);
        Ok(Ranked {
            offer: offer.clone(),
            time,
            cost: cost.transpose()?,
            per_million,
            monthly: hourly.times(HOURS_PER_MONTH),
            yearly: hourly.times(HOURS_PER_YEAR),
            in_time: self.deadline.zip(time).map(|(deadline, time)| time <= deadline.0),
        })
    }
}

/// Units per second in millionths, at least one.
#[expect(clippy::cast_possible_truncation, reason = "at most 1e21")]
fn micro_units(throughput: PerSecond) -> i128 {
    ((throughput.get() * 1e6).round() as i128).max(1)
}

impl Selection {
    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Some(best) = self.ranked.first() else { return sheet };
        sheet.headline.push(format!("{} is cheapest per unit", best.offer.name));
        sheet.value("best", "", Amount::text(best.offer.name.clone()));
        if let Some((time, cost)) = best.time.zip(best.cost) {
            sheet.headline.push(format!("{} in {}", usd(cost), seconds(time.as_secs_f64())));
        }
        if best.in_time == Some(false) {
            sheet.headline = vec!["no offer meets the deadline".to_owned()];
        }
        self.write_offers(&mut sheet);
        self.write_formulas(&mut sheet);
        self.write_difference(&mut sheet);
        self.write_roofline(&mut sheet);
        let points = self.ranked.iter().filter_map(|it| {
            let days = it.time?.as_secs_f64() / 86_400.0;
            Some((it.offer.name.clone(), days, it.cost?.as_f64()))
        });
        let points: Vec<_> = points.collect();
        if points.len() > 1 {
            sheet.chart = Some(Chart { x: "days", y: "USD", points });
        }
        sheet.assume("work divides evenly among the GPUs of an offer, without loss");
        sheet.assume("throughputs were measured on this job, or on one like it");
        sheet.note(
            "peak FLOPS do not give a throughput: which part of them a job reaches depends on the \
             model, the batch and the GPU",
        );
        sheet
    }

    fn write_offers(&self, sheet: &mut Worksheet) {
        let columns = [
            ("offer", "offer"),
            ("gpus", "GPUs"),
            ("rate_usd_per_gpu_hour", ""),
            ("units_per_second_per_gpu", ""),
            ("days", "days"),
            ("cost_usd", "job"),
            ("usd_per_million_units", "million"),
            ("monthly_usd", "720 h"),
            ("yearly_usd", ""),
            ("in_time", if self.request.deadline.is_some() { "in time" } else { "" }),
        ];
        let no_work = "the work is unknown; set --work";
        let rows = self.ranked.iter().map(|it| {
            let days = it.time.map(|time| time.as_secs_f64() / 86_400.0);
            let units = it.offer.throughput.map_or(0.0, PerSecond::get);
            vec![
                Amount::text(it.offer.name.clone()),
                Amount::Count(it.offer.gpus),
                Amount::Rate(it.offer.price),
                Amount::Number(units),
                days.map_or(Amount::Missing(no_work), Amount::Number),
                it.cost.map_or(Amount::Missing(no_work), Amount::Usd),
                Amount::UsdFine(it.per_million),
                Amount::Usd(it.monthly),
                Amount::Usd(it.yearly),
                it.in_time.map_or(Amount::Missing("no deadline was given"), Amount::Flag),
            ]
        });
        sheet.table("offers", "Offers", &columns, rows.collect());
    }

    fn write_formulas(&self, sheet: &mut Worksheet) {
        for it in &self.ranked {
            let Some(throughput) = it.offer.throughput else { continue };
            sheet.formula(
                it.offer.name.clone(),
                "price × 1,000,000 ÷ (units per second × 3,600)",
                format!("{} × 1,000,000 ÷ ({throughput} × 3,600)", rate(it.offer.price)),
                format!("{} per million", crate::format::fine(it.per_million)),
            );
            if let Some((time, work)) = it.time.zip(self.request.work) {
                sheet.formula(
                    format!("time of {}", it.offer.name),
                    "work ÷ (GPUs × units per second)",
                    format!("{} ÷ ({} × {throughput})", grouped(u128::from(work.0)), it.offer.gpus),
                    seconds(time.as_secs_f64()),
                );
            }
        }
    }

    /// The dearest month against the cheapest.
    fn write_difference(&self, sheet: &mut Worksheet) {
        let low = self.ranked.iter().min_by_key(|it| it.monthly);
        let high = self.ranked.iter().max_by_key(|it| it.monthly);
        let Some((low, high)) = low.zip(high).filter(|(low, high)| low.monthly < high.monthly)
        else {
            return;
        };
        let saved = high.monthly - low.monthly;
        sheet.value("month_difference_usd", "", Amount::Usd(saved));
        sheet.formula(
            "month",
            "dearest − cheapest",
            format!(
                "{} of {} − {} of {}",
                usd(high.monthly),
                high.offer.name,
                usd(low.monthly),
                low.offer.name
            ),
            format!("{}, {}", usd(saved), percent(saved.as_f64() / high.monthly.as_f64())),
        );
    }

    fn write_roofline(&self, sheet: &mut Worksheet) {
        let Request { intensity, parameters, .. } = self.request;
        let mut seen = Vec::new();
        let mut rows = Vec::new();
        for specs in self.ranked.iter().filter_map(|it| it.offer.specs.as_ref()) {
            if seen.contains(&specs.model) {
                continue;
            }
            seen.push(specs.model);
            let Some(roofline) = Roofline::of(specs) else { continue };
            let ridge = roofline.ridge();
            let no_intensity = "the job's FLOP per byte are unknown; set --intensity";
            let no_model = "the parameters are unknown; set --params";
            let of_model = |time: fn(&Roofline, u64) -> f64| {
                parameters
                    .map_or(Amount::Missing(no_model), |it| Amount::Seconds(time(&roofline, it.0)))
            };
            rows.push(vec![
                Amount::text(specs.model),
                Amount::Number(roofline.peak / 1e12),
                Amount::Number(roofline.bandwidth / 1e12),
                Amount::Number(ridge),
                intensity.map_or(Amount::Missing(no_intensity), |it| {
                    Amount::text(roofline.side(it).as_str())
                }),
                of_model(Roofline::weights_read),
                of_model(Roofline::token_compute),
            ]);
            sheet.formula(
                format!("ridge of {}", specs.model),
                "peak ÷ bandwidth",
                format!(
                    "{} TFLOP/s ÷ {} TB/s",
                    number(roofline.peak / 1e12),
                    number(roofline.bandwidth / 1e12)
                ),
                format!("{} FLOP/B", number(ridge)),
            );
        }
        if rows.is_empty() {
            return;
        }
        let with_model = parameters.is_some();
        let shown = |heading: &'static str, is_shown| if is_shown { heading } else { "" };
        let columns = [
            ("model", "GPU"),
            ("peak_tflops", "TFLOP/s"),
            ("bandwidth_tb_per_second", "TB/s"),
            ("ridge_flop_per_byte", "FLOP/B"),
            ("limited_by", shown("limit", intensity.is_some())),
            ("weights_read_seconds", shown("weights", with_model)),
            ("token_compute_seconds", shown("token", with_model)),
        ];
        sheet.table("roofline", "Roofline", &columns, rows);
        sheet.note(
            "peaks are those of tensor cores in BF16 (FP16 on older GPUs), dense; FP32 without \
             tensor cores is far less, 19.5 TFLOP/s on an A100. Below the ridge a job is limited by \
             memory, if its memory is busy; low SM activity alone does not show that",
        );
    }
}
