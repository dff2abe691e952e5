//! What a guest is told: the plain types of this crate, written as the contract has them.
//!
//! Text and columns are lent, not copied: they are copied once, into the guest. This room must not
//! know what the guest makes of it.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::price::{Plan, Price};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM};

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use crate::quote::QuoteRequest;
use crate::settings::{Settings, Value};
use crate::window::{Account, Accounts, Gpu, Window};

fn nano_usd(money: NanoUsd) -> u64 {
    u64::try_from(money.0.max(0)).unwrap_or(u64::MAX)
}

/// Settings as guests get them.
pub(super) fn settings(settings: &Settings) -> Vec<(&str, wit::policy::Value<'_>)> {
    let value = |value| match value {
        &Value::Flag(flag) => wit::policy::Value::Flag(flag),
        &Value::Number(number) => wit::policy::Value::Number(number),
        Value::Text(text) => wit::policy::Value::Text(text),
    };
    settings.iter().map(|(path, said)| (path, value(said))).collect()
}

/// Asks with a window.
pub(super) fn window<T>(window: &Window, ask: impl FnOnce(wit::recommender::Window<'_>) -> T) -> T {
    let lent: Vec<_> = window.gpus.iter().map(Lent::by).collect();
    let gpus: Vec<_> = window.gpus.iter().zip(&lent).map(|(gpu, lent)| told(gpu, lent)).collect();
    let attributes = window.attributes.iter();
    let attributes: Vec<_> = attributes.map(|(name, value)| (&**name, &**value)).collect();
    ask(wit::recommender::Window {
        start: window.start.as_nanos(),
        end: window.end.as_nanos(),
        last: window.last,
        experiment_id: &window.experiment_id,
        trace_id: &window.trace_id,
        attributes: &attributes,
        step_seconds: window.step.as_secs_f64(),
        gpus: &gpus,
        metrics: &numbers(&window.metrics),
    })
}

/// Asks with a request.
pub(super) fn request<T>(
    request: &QuoteRequest,
    ask: impl FnOnce(wit::pricer::QuoteRequest<'_>) -> T,
) -> T {
    let day = request.listed.as_ref().and_then(day);
    ask(wit::pricer::QuoteRequest {
        model: &request.model,
        provider: request.provider.as_deref(),
        region: request.region.as_deref(),
        instance_type: request.instance_type.as_deref(),
        plan: request.plan.map(Into::into),
        time: request.time.as_nanos(),
        listed: request.listed.as_ref().map(|listed| price(listed, day.as_deref())),
    })
}

/// What of a GPU is not there as it is lent.
struct Lent<'a> {
    work_done: Vec<(&'a str, f64)>,
    metrics: Vec<(&'a str, f64)>,
    day: Option<String>,
}

impl<'a> Lent<'a> {
    fn by(gpu: &'a Gpu) -> Self {
        Self {
            work_done: numbers(&gpu.work_done),
            metrics: numbers(&gpu.metrics),
            day: gpu.price.as_ref().and_then(day),
        }
    }
}

fn numbers(map: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    map.iter().map(|(name, value)| (&**name, *value)).collect()
}

fn day(price: &Price) -> Option<String> {
    price.as_of.map(|day| day.to_string())
}

fn price<'a>(price: &'a Price, day: Option<&'a str>) -> types::Price<'a> {
    types::Price {
        nano_usd_per_gpu_hour: price.rate.nano_usd_per_hour(),
        plan: price.plan.map(Into::into),
        provider: price.provider.as_deref(),
        region: price.region.as_deref(),
        instance_type: price.instance_type.as_deref(),
        source: &price.source,
        day,
        estimated: price.estimate.is_some(),
    }
}

fn told<'a>(gpu: &'a Gpu, lent: &'a Lent<'_>) -> wit::recommender::Gpu<'a> {
    wit::recommender::Gpu {
        id: &gpu.id,
        model: &gpu.model,
        memory_total_bytes: gpu.memory_total.map(Bytes::get),
        power_limit_watts: gpu.power_limit.map(Milliwatts::watts),
        accounts: gpu.accounts.into(),
        waste: wit::recommender::Waste {
            starvation: nano_usd(gpu.waste.starvation),
            idle: nano_usd(gpu.waste.idle),
            occupancy: nano_usd(gpu.waste.underload),
        },
        pattern: gpu.pattern.map(Into::into),
        price: gpu.price.as_ref().map(|listed| price(listed, lent.day.as_deref())),
        work_done: &lent.work_done,
        utilization: &gpu.utilization,
        power: &gpu.power,
        memory: &gpu.memory,
        metrics: &lent.metrics,
    }
}

impl From<Plan> for types::Plan {
    fn from(plan: Plan) -> Self {
        match plan {
            Plan::OnDemand => Self::OnDemand,
            Plan::Spot => Self::Spot,
            Plan::Reserved1y => Self::ReservedOneYear,
            Plan::Reserved3y => Self::ReservedThreeYears,
            Plan::Owned => Self::Owned,
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
            duty: pattern.duty_cycle.map(|ppm| f64::from(ppm) / f64::from(PPM)),
        }
    }
}
