//! `own`: buying GPUs against renting them.
//!
//! What is bought costs every hour of its life; energy may cost less while it is idle.

use phasemeter_meter::money::{NanoUsd, Rate, div_half_even};
use phasemeter_meter::projection::HOURS_PER_YEAR;

use crate::error::PlanError;
use crate::format::{fine, number, percent, rate, usd};
use crate::units::Ratio;
use crate::worksheet::{Amount, Worksheet};

/// Hours of a twelfth of a year.
const HOURS_PER_MONTH: i128 = 730;

/// The question. Amounts are per GPU: its share of server, rack and staff.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Price of the purchase.
    pub purchase: NanoUsd,
    /// Value at the end of its life.
    pub residual: NanoUsd,
    /// Years of its life.
    pub years: u64,
    /// Power at work in watts, server included.
    pub watts: f64,
    /// Power while idle in watts; the same as at work if unknown.
    pub idle_watts: Option<f64>,
    /// Power usage effectiveness of the data center.
    pub pue: f64,
    /// Price of a kWh.
    pub electricity: NanoUsd,
    /// Rack, network and cooling per month.
    pub rack: NanoUsd,
    /// Staff and support per year.
    pub staff: NanoUsd,
    /// Price of renting the same for an hour, if known.
    pub rent: Option<Rate>,
    /// Fraction of the hours that it is used.
    pub utilization: Option<Ratio>,
}

/// The result: costs of one hour of its life in nano-dollars, used or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Ownership {
    request: Request,
    /// (purchase − residual) ÷ hours of its life.
    pub capital: NanoUsd,
    /// Energy of an hour at work.
    pub energy: NanoUsd,
    /// Energy of an idle hour.
    pub idle_energy: NanoUsd,
    /// Rack.
    pub rack: NanoUsd,
    /// Staff.
    pub staff: NanoUsd,
    /// The sum of an hour at work: the amortized rate.
    pub rate: NanoUsd,
    /// The fraction of hours used from which owning costs less than renting; `None` if never, or if
    /// no rent is known.
    pub break_even: Option<f64>,
}

impl Request {
    /// Computes the rate.
    ///
    /// # Errors
    /// Returns an error if a value is out of range.
    pub fn compute(self) -> Result<Ownership, PlanError> {
        if self.residual > self.purchase {
            let problem = "it is more than the purchase";
            let fix = "give what the hardware is worth at the end";
            return Err(PlanError::invalid("residual", usd(self.residual), problem, fix));
        }
        if !(1..=20).contains(&self.years) {
            let fix = "give 1 to 20 years";
            return Err(PlanError::invalid("years", self.years, "not the life of a GPU", fix));
        }
        if !(1.0..=5.0).contains(&self.pue) {
            let problem = "it is the power of the data center ÷ that of its computers";
            let fix = "give 1 to 5, like 1.4";
            return Err(PlanError::invalid("pue", self.pue, problem, fix));
        }
        let idle_watts = self.idle_watts.unwrap_or(self.watts);
        if idle_watts > self.watts {
            let problem = format!("it is more than the {} W at work", number(self.watts));
            let fix = "give the power of an idle GPU";
            return Err(PlanError::invalid("idle-watts", idle_watts, problem, fix));
        }
        let life = i128::from(self.years) * i128::from(HOURS_PER_YEAR);
        let divided =
            |amount: NanoUsd, by| NanoUsd(div_half_even(amount.0, by).unwrap_or_default());
        let capital = divided(self.purchase - self.residual, life);
        let energy = self.energy(self.watts)?;
        let idle_energy = self.energy(idle_watts)?;
        let rack = divided(self.rack, HOURS_PER_MONTH);
        let staff = divided(self.staff, i128::from(HOURS_PER_YEAR));
        let rate = capital + energy + rack + staff;
        let fixed = capital + rack + staff + idle_energy;
        let break_even = self.rent.and_then(|rent| {
            let per_used_hour = rent.hourly() - (energy - idle_energy);
            let fraction = fixed.as_f64() / per_used_hour.as_f64();
            (per_used_hour > NanoUsd::ZERO && fraction <= 1.0).then_some(fraction)
        });
        Ok(Ownership { request: self, capital, energy, idle_energy, rack, staff, rate, break_even })
    }

    /// The energy of an hour at this power.
    #[expect(clippy::cast_possible_truncation, reason = "checked to be small")]
    fn energy(&self, watts: f64) -> Result<NanoUsd, PlanError> {
        let nano_kwh = watts * self.pue * 1e6;
        if !(0.0..=1e15).contains(&nano_kwh) {
            let fix = "give the watts of one GPU with its share of the server, like 1000";
            return Err(PlanError::invalid("watts", watts, "not the power of a GPU", fix));
        }
        let cost = self.electricity.ratio(nano_kwh.round() as i128, 1_000_000_000);
        cost.ok_or(PlanError::Overflow)
    }
}

impl Ownership {
    /// The cost of its life per hour of use; `None` without any.
    #[must_use]
    pub fn per_used_hour(&self, used: Ratio) -> Option<NanoUsd> {
        let idle = i128::from(1_000_000_u64.saturating_sub(used.ppm()));
        let saved = (self.energy - self.idle_energy).ratio(idle, 1_000_000)?;
        (self.rate - saved).ratio(1_000_000, i128::from(used.ppm()))
    }

    /// The worked result.
    #[must_use]
    pub fn worksheet(&self) -> Worksheet {
        let mut sheet = Worksheet::default();
        let Request { purchase, residual, years, watts, pue, electricity, rent, .. } = self.request;
        sheet.headline = vec![format!("{} per GPU-hour owned", fine(self.rate))];
        if let Some(rent) = rent {
            sheet.headline.push(match self.break_even {
                Some(used) => {
                    format!("cheaper than {} rented from {} use", rate(rent), percent(used))
                }
                None => format!("never cheaper than {} rented", rate(rent)),
            });
        }
        let columns =
            [("part", "part"), ("usd_per_gpu_hour", "per hour"), ("usd_per_life", "life")];
        let life = years * HOURS_PER_YEAR;
        let parts = [self.capital, self.energy, self.rack, self.staff];
        let per_hour = Amount::sum(&parts, self.rate, true);
        let per_life = parts.map(|cost| cost.times(life));
        let per_life = Amount::sum(&per_life, self.rate.times(life), false);
        let names = ["capital", "energy", "rack", "staff", "total"].map(Amount::text);
        let rows = names.into_iter().zip(per_hour).zip(per_life);
        let rows = rows.map(|((name, hour), life)| vec![name, hour, life]);
        sheet.value("usd_per_gpu_hour", "", Amount::UsdFine(self.rate));
        sheet.table("parts", "Rate", &columns, rows.collect());
        sheet.formula(
            "capital",
            "(purchase − residual) ÷ (years × 8,760 h)",
            format!("({} − {}) ÷ ({years} × 8,760 h)", usd(purchase), usd(residual)),
            fine(self.capital),
        );
        sheet.formula(
            "energy",
            "watts ÷ 1,000 × PUE × price of a kWh",
            format!("{} ÷ 1,000 × {} × {}", number(watts), number(pue), fine(electricity)),
            fine(self.energy),
        );
        sheet.formula(
            "rack",
            "per month ÷ 730 h",
            format!("{} ÷ 730 h", usd(self.request.rack)),
            fine(self.rack),
        );
        sheet.formula(
            "staff",
            "per year ÷ 8,760 h",
            format!("{} ÷ 8,760 h", usd(self.request.staff)),
            fine(self.staff),
        );
        self.write_break_even(&mut sheet);
        self.write_use(&mut sheet);
        if self.request.idle_watts.is_none() {
            sheet.assume(
                "an idle GPU draws as much as one at work; set --idle-watts if it is known",
            );
        }
        sheet.assume("no interest, taxes or unused space; a year has 8,760 hours");
        sheet.note(
            "use the amortized rate for `commitment --owned-price` and `audit --price`: an owned GPU \
             that is not used saves no money until it is sold",
        );
        sheet
    }

    fn write_break_even(&self, sheet: &mut Worksheet) {
        let Some(rent) = self.request.rent else {
            let missing = Amount::Missing("no price of renting is known; set --price");
            sheet.value("break_even_fraction", "", missing);
            return;
        };
        let Some(used) = self.break_even else {
            let missing = Amount::Missing("owning never costs less, even if always used");
            sheet.value("break_even_fraction", "Break-even", missing);
            return;
        };
        sheet.value("break_even_fraction", "Break-even", Amount::Fraction(used));
        let fixed = self.rate - self.energy + self.idle_energy;
        sheet.formula(
            "break-even",
            "cost of an idle hour ÷ (rent − additional energy at work)",
            format!(
                "{} ÷ ({} − {})",
                fine(fixed),
                rate(rent),
                fine(self.energy - self.idle_energy)
            ),
            format!("{} of all hours", percent(used)),
        );
    }

    /// The cost of a used hour by utilization, as that of rented GPUs is one price.
    fn write_use(&self, sheet: &mut Worksheet) {
        let given = self.request.utilization.filter(|&it| it <= Ratio::ONE);
        let steps = [250_000, 500_000, 750_000, 1_000_000].map(Ratio::from_ppm);
        let columns = [("used_fraction", "used"), ("usd_per_used_gpu_hour", "per used hour")];
        let row = |used: Ratio| {
            let cost = self.per_used_hour(used);
            let cost = cost.map_or(Amount::Missing("it is never used"), Amount::UsdFine);
            vec![Amount::Fraction(used.get()), cost]
        };
        let rows = given.into_iter().chain(steps).map(row).collect();
        sheet.table("by_use", "By use", &columns, rows);
    }
}
