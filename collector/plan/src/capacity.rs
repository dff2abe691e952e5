//! `capacity`: how many GPUs a demand needs.
//!
//! Headroom multiplies the demand, the target utilization divides the capacity, and one ceiling at the
//! end makes whole GPUs.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::HOURS_PER_MONTH;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::error::PlanError;
use crate::format::{gpus, grouped, number, percent, rate, seconds, usd};
use crate::units::{Count, PerSecond, Ratio, Span};
use crate::worksheet::{Amount, Worksheet};

/// The most GPUs that a plan returns.
const MAX_GPUS: f64 = 1e9;

/// Allows for the rounding of doubles: 2.9999999996 to 3.0000000004 GPUs are three.
const TOLERANCE: f64 = 1e-9;

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The demand.
    pub demand: Demand,
    /// Work per second of one GPU.
    pub throughput: PerSecond,
    /// How the throughput is known, for assumptions.
    pub throughput_source: String,
    /// Share of a GPU's throughput to use.
    pub target: Ratio,
    /// Additional demand to be ready for.
    pub headroom: Ratio,
    /// Price of a GPU-hour, if known.
    pub price: Option<Rate>,
    /// GPUs in use today, if any.
    pub today: Option<u64>,
}

/// What is to be served.
#[derive(Clone, Debug, PartialEq)]
pub enum Demand {
    /// Requests or tokens per second at the peak.
    PerSecond(PerSecond),
    /// Work per second in each of equal parts of a day.
    ByHour(Vec<PerSecond>),
    /// The same as measured: it may be zero.
    Measured(Vec<f64>),
    /// Work of a day, done in windows.
    Offline {
        /// Units per day.
        per_day: Count,
        /// Length of a window.
        window: Span,
        /// Number of windows per day; as many as fit if `None`.
        windows: Option<u64>,
    },
}

/// GPUs for a demand, with the steps between.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpus {
    /// Demand × (1 + headroom).
    pub required: f64,
    /// Throughput × target.
    pub per_gpu: f64,
    /// Their quotient.
    pub exact: f64,
    /// Rounded up once.
    pub gpus: u64,
    /// As computed by rounding up before the headroom and again after it.
    pub rounded_twice: u64,
}

/// The GPUs for a demand per second.
///
/// # Errors
/// Returns an error if there would be more than a billion.
pub fn gpus_for(
    demand: f64,
    throughput: PerSecond,
    target: Ratio,
    headroom: Ratio,
) -> Result<Gpus, PlanError> {
    let required = demand * (1.0 + headroom.get());
    let per_gpu = throughput.get() * target.get();
    let exact = required / per_gpu;
    let first = ceil(demand / per_gpu)?;
    let rounded_twice = ceil(first as f64 * (1.0 + headroom.get()))?;
    Ok(Gpus { required, per_gpu, exact, gpus: ceil(exact)?, rounded_twice })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a billion")]
fn ceil(exact: f64) -> Result<u64, PlanError> {
    if exact.is_finite() && (0.0..=MAX_GPUS).contains(&exact) {
        Ok((exact - TOLERANCE * exact.max(1.0)).ceil() as u64)
    } else {
        let fix = "check the unit of the demand, and give the throughput of one GPU";
        Err(PlanError::invalid("throughput", "", "over a billion GPUs would be needed", fix))
    }
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    request: Request,
    /// Demand per second of each part; one if it is constant.
    pub demands: Vec<f64>,
    /// The GPUs of each part.
    pub gpus: Vec<Gpus>,
    /// Number of windows, and work of each rounded up, of offline work.
    pub windows: Option<(u64, u64)>,
}

impl Request {
    /// Computes the GPUs.
    ///
    /// # Errors
    /// Returns an error if a value is out of range.
    pub fn compute(self) -> Result<Capacity, PlanError> {
        if self.target == Ratio::ZERO || self.target > Ratio::ONE {
            let fix = "give more than 0% and at most 100%, like 80%";
            let problem = "a GPU cannot be used that much";
            return Err(PlanError::invalid("target", self.target, problem, fix));
        }
        let mut windows = None;
        let demands = match &self.demand {
            Demand::PerSecond(demand) => vec![demand.get()],
            Demand::ByHour(demands) => demands.iter().map(|demand| demand.get()).collect(),
            Demand::Measured(demands) => demands.clone(),
            Demand::Offline { per_day, window, windows: given } => {
                let day = Nanos(24 * NANOS_PER_HOUR);
                let fitting = day.0 / window.0.0.max(1);
                let count = given.unwrap_or(fitting);
                if count == 0 || count > fitting {
                    let problem = format!("a day has {fitting} such windows");
                    let fix = "give shorter windows or fewer of them";
                    return Err(PlanError::invalid("window", window, problem, fix));
                }
                let each = per_day.0.div_ceil(count);
                windows = Some((count, each));
                vec![per_day.0 as f64 / count as f64 / window.seconds()]
            }
        };
        let each = |&demand: &f64| gpus_for(demand, self.throughput, self.target, self.headroom);
        let gpus = demands.iter().map(each).collect::<Result<_, _>>()?;
        Ok(Capacity { demands, gpus, windows, request: self })
    }
}

impl Capacity {
    /// The part of the day that needs most GPUs.
    #[must_use]
    pub fn peak(&self) -> Option<(f64, Gpus)> {
        let each = self.demands.iter().copied().zip(self.gpus.iter().copied());
        each.max_by(|one, other| one.1.exact.total_cmp(&other.1.exact))
    }

    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Some((demand, peak)) = self.peak() else { return sheet };
        let Request { target, headroom, throughput, .. } = self.request;
        sheet.headline = vec![gpus(peak.gpus), format!("for {} per second", number(demand))];
        sheet.value("gpus", "", Amount::Count(peak.gpus));
        sheet.value("exact_gpus", "", Amount::Number(peak.exact));
        sheet.value("demand_per_second", "", Amount::Number(demand));
        sheet.value("rounded_twice_gpus", "", Amount::Count(peak.rounded_twice));
        let used = demand / (peak.gpus as f64 * throughput.get());
        sheet.value("used_at_demand_fraction", "Used at the demand", Amount::Fraction(used));
        if let (Some((count, each)), Demand::Offline { per_day, window, .. }) =
            (self.windows, &self.request.demand)
        {
            sheet.value("windows_per_day", "Windows per day", Amount::Count(count));
            sheet.value("work_per_window", "Work per window", Amount::Count(each));
            sheet.formula(
                "work per window",
                "work per day ÷ windows",
                format!("{} ÷ {count}", grouped(u128::from(per_day.0))),
                grouped(u128::from(each)),
            );
            sheet.formula(
                "demand",
                "work per window ÷ window",
                format!("{} ÷ {}", grouped(u128::from(each)), seconds(window.seconds())),
                format!("{} per second", number(demand)),
            );
        }
        sheet.formula(
            "required",
            "demand × (1 + headroom)",
            format!("{} × (1 + {headroom})", number(demand)),
            format!("{} per second", number(peak.required)),
        );
        sheet.formula(
            "of one GPU",
            "throughput × target",
            format!("{throughput} × {target}"),
            format!("{} per second", number(peak.per_gpu)),
        );
        sheet.formula(
            "GPUs",
            "⌈required ÷ of one GPU⌉",
            format!("⌈{} ÷ {}⌉", number(peak.required), number(peak.per_gpu)),
            format!("⌈{}⌉ = {}", number(peak.exact), peak.gpus),
        );
        self.write_two_ceilings(&mut sheet, demand, peak);
        self.write_day(&mut sheet);
        self.write_cost(&mut sheet, peak);
        sheet.assume(self.request.throughput_source.clone());
        sheet.note(
            "the target divides the capacity (queues grow near 100%), the headroom multiplies the \
             demand (growth, failures). They are different reserves, and neither has a default",
        );
        sheet
    }

    fn write_two_ceilings(&self, sheet: &mut Worksheet, demand: f64, peak: Gpus) {
        let headroom = self.request.headroom;
        if peak.rounded_twice == peak.gpus {
            return;
        }
        let whole = (demand / peak.per_gpu - TOLERANCE).ceil();
        sheet.formula(
            "rounded twice",
            "⌈⌈demand ÷ of one GPU⌉ × (1 + headroom)⌉",
            format!("⌈{} × (1 + {headroom})⌉", number(whole)),
            format!("{}, not used", peak.rounded_twice),
        );
        sheet.note(format!(
            "rounding up before the headroom and again after it would give {}, not {}",
            gpus(peak.rounded_twice),
            peak.gpus
        ));
    }

    /// GPUs by part of the day, and what they save against the peak all day.
    fn write_day(&self, sheet: &mut Worksheet) {
        let parts = self.gpus.len();
        let Some((_, peak)) = self.peak().filter(|_| parts > 1) else { return };
        let columns =
            [("part", "part of the day"), ("demand_per_second", "demand"), ("gpus", "GPUs")];
        let rows = self.demands.iter().zip(&self.gpus).enumerate().map(|(part, (demand, gpus))| {
            let begin = Nanos(24 * NANOS_PER_HOUR / parts as u64 * part as u64);
            let minutes = begin.0 / (60 * 1_000_000_000);
            vec![
                Amount::text(format!("from {:02}:{:02}", minutes / 60, minutes % 60)),
                Amount::Number(*demand),
                Amount::Count(gpus.gpus),
            ]
        });
        sheet.table("by_part_of_day", "By part of the day", &columns, rows.collect());
        let used: u64 = self.gpus.iter().map(|it| it.gpus).sum();
        let hours = used as f64 * 24.0 / parts as f64;
        let all = peak.gpus as f64 * 24.0;
        sheet.value("gpu_hours_per_day", "GPU-hours per day", Amount::Number(hours));
        sheet.value(
            "saved_by_scaling_fraction",
            "saved by scaling",
            Amount::Fraction(1.0 - hours / all),
        );
        sheet.note("scaling by the hour is the lower bound: starting a replica takes time");
    }

    fn write_cost(&self, sheet: &mut Worksheet, peak: Gpus) {
        let Request { price, today, .. } = self.request;
        let monthly = |price: Rate, n: u64| price.hourly().times(HOURS_PER_MONTH).times(n);
        let cost = price.map(|price| monthly(price, peak.gpus));
        let missing = Amount::Missing("no price is known; set --price");
        sheet.value("monthly_usd", "Month", cost.map_or(missing.clone(), Amount::Usd));
        let before = price.zip(today).map(|(price, n)| monthly(price, n));
        let no_today = Amount::Missing("the GPUs in use today are unknown; set --today");
        sheet.value("today_monthly_usd", "", before.map_or(no_today.clone(), Amount::Usd));
        let saved = before.zip(cost).map(|(before, cost)| before - cost);
        sheet.value("saved_monthly_usd", "", saved.map_or(no_today, Amount::Usd));
        let Some((price, cost)) = price.zip(cost) else { return };
        sheet.formula(
            "month",
            "720 h × price × GPUs",
            format!("{HOURS_PER_MONTH} h × {} × {}", rate(price), peak.gpus),
            usd(cost),
        );
        if let Some((before, today)) = before.zip(today) {
            let saved = before - cost;
            let part = if before > NanoUsd::ZERO { saved.as_f64() / before.as_f64() } else { 0.0 };
            sheet.formula(
                "saved",
                "cost of the GPUs of today − cost",
                format!("{} for {} − {}", usd(before), gpus(today), usd(cost)),
                format!("{} per month, {}", usd(saved), percent(part)),
            );
        }
    }
}
