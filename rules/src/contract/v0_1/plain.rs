//! Converts plain values of this crate, which borrow nothing, to the generated WIT types.

use phasemeter_meter::activity::Quiet;
use phasemeter_meter::holder::{AllocationMethod, HolderKind};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{Nanos, PPM};

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use crate::window::{
    AccountTotals, Accounts, HolderTotals, HourOfWeek, Percentiles, ThrottleReason, Throttling,
};
use crate::workload::Workload;

pub(super) fn nano_usd(money: NanoUsd) -> u64 {
    u64::try_from(money.0.max(0)).unwrap_or(u64::MAX)
}

impl From<Percentiles> for wit::recommender::Percentiles {
    fn from(Percentiles { p5, p50, p95, max }: Percentiles) -> Self {
        Self { p5, p50, p95, max }
    }
}

impl From<Throttling> for wit::recommender::Throttling {
    fn from(Throttling { reason, share }: Throttling) -> Self {
        let reason = match reason {
            ThrottleReason::PowerCap => wit::recommender::ThrottleReason::PowerCap,
            ThrottleReason::SyncBoost => wit::recommender::ThrottleReason::SyncBoost,
            ThrottleReason::SoftwareThermal => wit::recommender::ThrottleReason::SoftwareThermal,
            ThrottleReason::HardwareThermal => wit::recommender::ThrottleReason::HardwareThermal,
            ThrottleReason::PowerBrake => wit::recommender::ThrottleReason::PowerBrake,
        };
        Self { reason, share }
    }
}

impl From<Quiet> for wit::recommender::Quiet {
    fn from(quiet: Quiet) -> Self {
        Self { seconds: quiet.time.as_secs_f64(), held_seconds: quiet.held.as_secs_f64() }
    }
}

impl From<HourOfWeek> for wit::recommender::HourOfWeek {
    fn from(hour: HourOfWeek) -> Self {
        Self {
            observed_seconds: hour.observed.as_secs_f64(),
            idle_seconds: hour.idle.as_secs_f64(),
        }
    }
}

impl From<Workload> for wit::recommender::Workload {
    fn from(workload: Workload) -> Self {
        match workload {
            Workload::Unknown => Self::Unknown,
            Workload::Training => Self::Training,
            Workload::Serving => Self::Serving,
            Workload::Interactive => Self::Interactive,
            Workload::Batch => Self::Batch,
        }
    }
}

impl From<PaymentPlan> for types::Plan {
    fn from(plan: PaymentPlan) -> Self {
        match plan {
            PaymentPlan::OnDemand => Self::OnDemand,
            PaymentPlan::Spot => Self::Spot,
            PaymentPlan::Reserved1y => Self::ReservedOneYear,
            PaymentPlan::Reserved3y => Self::ReservedThreeYears,
            PaymentPlan::Owned => Self::Owned,
        }
    }
}

impl From<Accounts> for wit::recommender::Accounts {
    fn from(accounts: Accounts) -> Self {
        Self {
            idle_held: accounts.idle_held.into(),
            idle_free: accounts.idle_free.into(),
            idle_unknown: accounts.idle_unknown.into(),
            underutilized: accounts.underutilized.into(),
            productive: accounts.productive.into(),
            compute_bound: accounts.compute_bound.into(),
            unobserved: accounts.unobserved.into(),
        }
    }
}

impl From<AccountTotals> for wit::recommender::Account {
    fn from(account: AccountTotals) -> Self {
        Self {
            seconds: account.time.as_secs_f64(),
            effective_seconds: account.effective_time.as_secs_f64(),
            cost: nano_usd(account.cost),
            utilized_cost: nano_usd(account.utilized_cost),
        }
    }
}

impl From<HolderTotals> for wit::recommender::HolderAccount {
    fn from(totals: HolderTotals) -> Self {
        Self { seconds: totals.time.as_secs_f64(), cost: nano_usd(totals.cost) }
    }
}

impl From<HolderKind> for wit::recommender::HolderKind {
    fn from(kind: HolderKind) -> Self {
        match kind {
            HolderKind::Container => Self::Container,
            HolderKind::Claim => Self::Claim,
            HolderKind::Job => Self::Job,
            HolderKind::ProcessGroup => Self::ProcessGroup,
            HolderKind::Named => Self::Named,
        }
    }
}

impl From<AllocationMethod> for wit::recommender::AllocationMethod {
    fn from(method: AllocationMethod) -> Self {
        match method {
            AllocationMethod::Exclusive => Self::Exclusive,
            AllocationMethod::ByUse => Self::ByUse,
            AllocationMethod::ByGrant => Self::ByGrant,
            AllocationMethod::Equal => Self::Equal,
        }
    }
}

impl From<Pattern> for wit::recommender::Pattern {
    fn from(pattern: Pattern) -> Self {
        let kind = match pattern.kind {
            PatternKind::Idle => wit::recommender::PatternKind::Idle,
            PatternKind::Steady => wit::recommender::PatternKind::Steady,
            PatternKind::Bouncing => wit::recommender::PatternKind::Bouncing,
            PatternKind::Mixed => wit::recommender::PatternKind::Mixed,
        };
        Self {
            kind,
            period_seconds: pattern.period.map(Nanos::as_secs_f64),
            duty_cycle: pattern.duty_cycle.map(|ppm| f64::from(ppm) / f64::from(PPM)),
        }
    }
}
