//! What a guest is told: the plain types of this crate, written as the contract has them.
//!
//! This room must not know what the guest makes of it.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM};

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use crate::quote::QuoteRequest;
use crate::window::{Account, Accounts, Gpu, Window};

fn nano_usd(money: NanoUsd) -> u64 {
    u64::try_from(money.0.max(0)).unwrap_or(u64::MAX)
}

fn pairs<T: Clone>(map: &BTreeMap<String, T>) -> Vec<(String, T)> {
    map.iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

impl From<Plan> for types::Plan {
    fn from(plan: Plan) -> Self {
        match plan {
            Plan::OnDemand => Self::OnDemand,
            Plan::Spot => Self::Spot,
            Plan::Reserved1y => Self::ReservedOneYear,
            Plan::Reserved3y => Self::ReservedThreeYears,
            Plan::Own => Self::Owned,
        }
    }
}

impl From<&Price> for types::Price {
    fn from(price: &Price) -> Self {
        Self {
            nano_usd_per_gpu_hour: price.rate.nano_usd_per_hour(),
            plan: price.plan.map(Into::into),
            provider: price.provider.clone(),
            region: price.region.clone(),
            instance_type: price.instance_type.clone(),
            source: price.source.clone(),
            day: price.as_of.map(|day| day.to_string()),
            estimated: price.estimate.is_some(),
        }
    }
}

impl From<&QuoteRequest> for wit::pricer::QuoteRequest {
    fn from(request: &QuoteRequest) -> Self {
        Self {
            model: request.model.clone(),
            provider: request.provider.clone(),
            region: request.region.clone(),
            instance_type: request.instance_type.clone(),
            plan: request.plan.map(Into::into),
            time: request.time.as_nanos(),
            listed: request.listed.as_ref().map(Into::into),
        }
    }
}

impl From<&Window> for wit::recommender::Window {
    fn from(window: &Window) -> Self {
        Self {
            start: window.start.as_nanos(),
            end: window.end.as_nanos(),
            last: window.last,
            experiment_id: window.experiment_id.clone(),
            trace_id: window.trace_id.clone(),
            attributes: pairs(&window.attributes),
            step_seconds: window.step.as_secs_f64(),
            gpus: window.gpus.iter().map(Into::into).collect(),
            metrics: pairs(&window.metrics),
        }
    }
}

impl From<&Gpu> for wit::recommender::Gpu {
    fn from(gpu: &Gpu) -> Self {
        Self {
            id: gpu.id.clone(),
            model: gpu.model.clone(),
            memory_total_bytes: gpu.memory_total.map(Bytes::get),
            power_limit_watts: gpu.power_limit.map(Milliwatts::watts),
            accounts: gpu.accounts.into(),
            waste: wit::recommender::Waste {
                starvation: nano_usd(gpu.waste.starvation),
                idle: nano_usd(gpu.waste.idle),
                occupancy: nano_usd(gpu.waste.occupancy),
            },
            pattern: gpu.pattern.map(Into::into),
            price: gpu.price.as_ref().map(Into::into),
            work_done: pairs(&gpu.work_done),
            utilization: gpu.utilization.clone(),
            power: gpu.power.clone(),
            memory: gpu.memory.clone(),
            metrics: pairs(&gpu.metrics),
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

impl From<Account> for wit::recommender::Account {
    fn from(account: Account) -> Self {
        Self {
            seconds: account.time.as_secs_f64(),
            effective_seconds: account.effective_time.as_secs_f64(),
            cost: nano_usd(account.cost),
            effective_cost: nano_usd(account.effective_cost),
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
            duty: pattern.duty.map(|ppm| f64::from(ppm) / f64::from(PPM)),
        }
    }
}
