//! `spot`: what interruptible capacity saves after the work that interruptions repeat.

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::error::PlanError;
use crate::format::{number, percent, rate, seconds, usd};
use crate::units::{Ratio, Span};
use crate::worksheet::{Amount, Worksheet};

/// The question.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Price on demand.
    pub on_demand: Option<Rate>,
    /// Spot price or discount.
    pub spot: Spot,
    /// What interruptions repeat.
    pub interruptions: Interruptions,
    /// GPU-hours of the job without interruptions, if known.
    pub gpu_hours: Option<Nanos>,
}

/// How much less spot costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// A fraction of the price on demand.
    Discount(Ratio),
    /// A price.
    Price(Rate),
}

/// What interruptions repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruptions {
    /// A fraction of the work, as measured.
    Redone(Ratio),
    /// From the times of checkpoints.
    Checkpoints {
        /// Time between checkpoints.
        interval: Span,
        /// Time from an interruption until the work continues.
        restart: Span,
        /// Mean time between interruptions.
        between: Span,
        /// Time to write a checkpoint during which the job waits, if known.
        write: Option<Span>,
    },
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct SpotPlan {
    request: Request,
    /// The discount, 0 to 1; negative if spot costs more.
    pub discount: f64,
    /// Work that is repeated, as a fraction of the job.
    pub redone: f64,
    /// Time that writing checkpoints takes, as a fraction of the job.
    pub writing: f64,
    /// 1 − (1 − discount)(1 + redone + writing).
    pub saving: f64,
    /// The optimal interval in seconds by Young and by Daly, if the time to write is known.
    pub optimal: Option<(f64, f64)>,
}

/// The optimal interval between checkpoints by Young (√(2 C M)) and by Daly, in seconds, for a time to
/// write C and a mean time between interruptions M.
#[must_use]
pub fn optimal_interval(write: f64, between: f64) -> (f64, f64) {
    let young = (2.0 * write * between).sqrt();
    let ratio = write / (2.0 * between);
    let daly = if ratio < 1.0 {
        young * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - write
    } else {
        between
    };
    (young, daly)
}

/// Work that is repeated: half an interval and a restart per interruption.
#[must_use]
pub fn redone(interval: f64, restart: f64, between: f64) -> f64 {
    (interval / 2.0 + restart) / between
}

impl Request {
    /// Computes the saving.
    ///
    /// # Errors
    /// Returns an error if a value is missing or out of range.
    pub fn compute(self) -> Result<SpotPlan, PlanError> {
        let discount = match self.spot {
            Spot::Discount(discount) if discount >= Ratio::ONE => {
                let fix = "give how much less it costs, like 60%";
                return Err(PlanError::invalid("discount", discount, "spot is not free", fix));
            }
            Spot::Discount(discount) => discount.get(),
            Spot::Price(spot) => {
                let on_demand =
                    self.on_demand.filter(|&it| it > Rate::ZERO).ok_or(PlanError::missing(
                        "price",
                        "a discount is relative to the price on demand",
                        "give --price or --discount",
                    ))?;
                1.0 - spot.hourly().as_f64() / on_demand.hourly().as_f64()
            }
        };
        let (redone, writing, optimal) = match self.interruptions {
            Interruptions::Redone(redone) => (redone.get(), 0.0, None),
            Interruptions::Checkpoints { interval, restart, between, write } => {
                let redone = redone(interval.seconds(), restart.seconds(), between.seconds());
                if redone >= 1.0 {
                    let problem = format!(
                        "an interruption repeats {} of work",
                        seconds(interval.seconds() / 2.0 + restart.seconds())
                    );
                    let fix = "save more often, or choose capacity that is interrupted less";
                    return Err(PlanError::invalid("mean-time", between, problem, fix));
                }
                let optimal = write.map(|it| optimal_interval(it.seconds(), between.seconds()));
                let writing = write.map_or(0.0, |it| it.seconds() / interval.seconds());
                (redone, writing, optimal)
            }
        };
        let saving = 1.0 - (1.0 - discount) * (1.0 + redone + writing);
        Ok(SpotPlan { request: self, discount, redone, writing, saving, optimal })
    }
}

impl SpotPlan {
    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Self { discount, redone, writing, saving, .. } = *self;
        let longer = redone + writing;
        sheet.headline = vec![
            format!("saves {}, not {}", percent(saving), percent(discount)),
            format!("takes {} longer", percent(longer)),
        ];
        sheet.value("discount_fraction", "", Amount::Fraction(discount));
        sheet.value("redone_fraction", "Repeated work", Amount::Fraction(redone));
        sheet.value("writing_fraction", "", Amount::Fraction(writing));
        sheet.value("saving_fraction", "", Amount::Fraction(saving));
        sheet.value("wall_time_ratio", "", Amount::Number(1.0 + longer));
        if let Interruptions::Checkpoints { interval, restart, between, .. } =
            self.request.interruptions
        {
            sheet.formula(
                "repeated work",
                "(interval ÷ 2 + restart) ÷ mean time between interruptions",
                format!("({interval} ÷ 2 + {restart}) ÷ {between}"),
                percent(redone),
            );
        }
        sheet.formula(
            "saving",
            "1 − (1 − discount) × (1 + repeated work + writing)",
            format!(
                "1 − (1 − {}) × (1 + {} + {})",
                percent(discount),
                percent(redone),
                percent(writing)
            ),
            percent(saving),
        );
        self.write_interval(&mut sheet);
        self.write_cost(&mut sheet);
        if let Interruptions::Redone(_) = self.request.interruptions {
            sheet.assume("the repeated work is as given");
        } else {
            sheet.assume(
                "interruptions are independent of one another, and half an interval is lost on \
                 average",
            );
        }
        sheet.note(
            "notice differs: AWS 2 min in instance metadata, Google Cloud 30 s in metadata and by \
             ACPI, Azure 30 s as a scheduled event. None is SIGTERM: a process that waits for it \
             has no notice",
        );
        sheet.note(
            "save between steps, not in the signal handler; write to a temporary name and rename \
             it; keep the checkpoint before, and use it if the last one is corrupt",
        );
        sheet
    }

    fn write_interval(&self, sheet: &mut Worksheet) {
        let missing = "the time to write a checkpoint is unknown; set --checkpoint-time";
        let Interruptions::Checkpoints { interval, between, write, .. } =
            self.request.interruptions
        else {
            let missing = "the mean time between interruptions was not given";
            sheet.value("young_interval_seconds", "", Amount::Missing(missing));
            sheet.value("daly_interval_seconds", "", Amount::Missing(missing));
            return;
        };
        let Some(((young, daly), write)) = self.optimal.zip(write) else {
            sheet.value("young_interval_seconds", "", Amount::Missing(missing));
            sheet.value("daly_interval_seconds", "", Amount::Missing(missing));
            sheet.note(missing);
            return;
        };
        sheet.value("young_interval_seconds", "Best interval", Amount::Seconds(young));
        sheet.value("daly_interval_seconds", "by Daly", Amount::Seconds(daly));
        sheet.formula(
            "best interval",
            "√(2 × time to write × mean time between interruptions), after Young",
            format!("√(2 × {write} × {between})"),
            format!("{}; the given one is {interval}", seconds(young)),
        );
        sheet.formula(
            "after Daly",
            "Young's × (1 + √r ÷ 3 + r ÷ 9) − time to write, r = time to write ÷ (2 × mean time)",
            format!("r = {write} ÷ (2 × {between})"),
            seconds(daly),
        );
    }

    fn write_cost(&self, sheet: &mut Worksheet) {
        let Request { on_demand, gpu_hours, .. } = self.request;
        let unknown = Amount::Missing("needs --price and --gpu-hours");
        let costs = on_demand.zip(gpu_hours).and_then(|(price, hours)| {
            let nanos = i128::from(hours.0);
            let whole = price.hourly().ratio(nanos, i128::from(NANOS_PER_HOUR))?;
            // To a millionth, as everything beside money is approximate here.
            let kept = ((1.0 - self.saving) * 1e6).round();
            #[expect(clippy::cast_possible_truncation, reason = "far below 2^63")]
            let expected = whole.ratio(kept as i128, 1_000_000)?;
            Some((price, hours, whole, expected))
        });
        let Some((price, hours, whole, expected)) = costs else {
            for key in ["on_demand_usd", "expected_usd", "saved_usd"] {
                sheet.value(key, "", unknown.clone());
            }
            return;
        };
        let saved: NanoUsd = whole - expected;
        let hours = hours.0 as f64 / NANOS_PER_HOUR as f64;
        sheet.value("on_demand_usd", "", Amount::Usd(whole));
        sheet.value("expected_usd", "Expected cost", Amount::Usd(expected));
        sheet.value("saved_usd", "saved", Amount::Usd(saved));
        sheet.formula(
            "expected cost",
            "GPU-hours × price × (1 − saving)",
            format!("{} h × {} × (1 − {})", number(hours), rate(price), percent(self.saving)),
            format!("{}, {} less than on demand", usd(expected), usd(saved)),
        );
    }
}
