//! Prices of plans: committed ones are paid in every hour of a term, hourly ones in hours of use.

use phasemeter_meter::money::{NanoUsd, Rate, div_half_even};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::error::PlanError;

/// Months per year.
pub const MONTHS: u64 = 12;

/// A committed price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commitment {
    /// Reserved for one or three years, or owned.
    pub plan: PaymentPlan,
    /// Price per hour of the term, used or not.
    pub rate: Rate,
    /// Paid once per GPU and term.
    pub upfront: NanoUsd,
}

/// The costs of one plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanCost {
    /// The plan.
    pub plan: PaymentPlan,
    /// Its price per GPU-hour.
    pub rate: Rate,
    /// Cost of all GPUs per month.
    pub monthly: NanoUsd,
    /// Cost of all GPUs per year of twelve such months.
    pub yearly: NanoUsd,
    /// Less than on demand per year; negative if it is more.
    pub saved: NanoUsd,
    /// The same as a fraction of on demand; `None` if that is free.
    pub saved_fraction: Option<f64>,
    /// Hours per month from which it costs less than on demand; `None` for hourly plans, or if never.
    pub break_even: Option<Nanos>,
}

/// The cost of GPUs at an hourly rate, rounded half to even.
pub(super) fn hourly_cost(rate: Rate, hours: Nanos, gpus: u64) -> Result<NanoUsd, PlanError> {
    let nanos = i128::from(hours.0).checked_mul(i128::from(gpus)).ok_or(PlanError::Overflow)?;
    rate.hourly().ratio(nanos, i128::from(NANOS_PER_HOUR)).ok_or(PlanError::Overflow)
}

impl Commitment {
    /// Years of the term. Owned GPUs have none: their rate is already amortized.
    #[must_use]
    pub const fn years(&self) -> u64 {
        if matches!(self.plan, PaymentPlan::Reserved3y) { 3 } else { 1 }
    }

    /// The cost of one GPU for a month, used or not: to the nano-dollar, rounded half to even.
    #[must_use]
    pub fn monthly(&self, month_hours: u64) -> NanoUsd {
        let months = i128::from(MONTHS * self.years());
        let upfront = div_half_even(self.upfront.0, months).unwrap_or_default();
        self.rate.hourly().times(month_hours) + NanoUsd(upfront)
    }

    /// The cost of one GPU for a year.
    #[must_use]
    pub fn yearly(&self, month_hours: u64) -> NanoUsd {
        let upfront = div_half_even(self.upfront.0, i128::from(self.years())).unwrap_or_default();
        self.rate.hourly().times(month_hours * MONTHS) + NanoUsd(upfront)
    }

    /// The hours per month from which it costs less than `hourly`; `None` if that is more than the
    /// month has, or `hourly` is free.
    #[must_use]
    pub fn break_even(&self, hourly: Rate, month_hours: u64) -> Option<Nanos> {
        let monthly = self.monthly(month_hours).0.checked_mul(i128::from(NANOS_PER_HOUR))?;
        let nanos = monthly.checked_div(i128::from(hourly.nano_usd_per_hour()))?;
        let nanos = u64::try_from(nanos).ok()?;
        (nanos <= month_hours.saturating_mul(NANOS_PER_HOUR)).then_some(Nanos(nanos))
    }
}
