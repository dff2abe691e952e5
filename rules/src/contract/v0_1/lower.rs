//! Lowers the plain types of this crate to the generated WIT types.
//!
//! Strings and columns are borrowed: the only copy is the one into guest memory.

use std::collections::BTreeMap;

use phasemeter_meter::activity::{Activity, Quiet};
use phasemeter_meter::price::Price;
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, Timestamp};

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use super::plain::nano_usd;
use crate::quote::QuoteRequest;
use crate::settings::{Settings, Value};
use crate::window::{
    Gpu, Load, LoadBucket, LoadDistribution, LoadHour, Offer, Previous, Sensors, Window,
    WindowHolder,
};

pub(super) fn settings(settings: &Settings) -> Vec<(&str, wit::policy::Value<'_>)> {
    let lower = |value| match value {
        &Value::Flag(flag) => wit::policy::Value::Flag(flag),
        &Value::Number(number) => wit::policy::Value::Number(number),
        Value::Text(text) => wit::policy::Value::Text(text),
    };
    settings.iter().map(|(path, value)| (path, lower(value))).collect()
}

/// Passes the lowered window to `call`.
pub(super) fn window<T>(
    window: &Window,
    call: impl FnOnce(wit::recommender::Window<'_>) -> T,
) -> T {
    let buffers: Vec<_> = window.gpus.iter().map(GpuBuffers::new).collect();
    let gpus: Vec<_> =
        window.gpus.iter().zip(&buffers).map(|(gpu, buffers)| lower_gpu(gpu, buffers)).collect();
    let attributes = texts(&window.attributes);
    let dates: Vec<_> = window.offers.iter().map(|offer| as_of(&offer.price)).collect();
    let offers = window.offers.iter().zip(&dates);
    let offers: Vec<_> =
        offers.map(|(offer, as_of)| lower_offer(offer, as_of.as_deref())).collect();
    let earlier: Vec<Vec<&str>> = window
        .previous
        .iter()
        .map(|previous| previous.gpus.iter().map(String::as_str).collect())
        .collect();
    let previous = window.previous.iter().zip(&earlier);
    let previous: Vec<_> = previous.map(|(one, gpus)| lower_previous(one, gpus)).collect();
    let buffers: Vec<_> = window.load.iter().map(LoadBuffers::new).collect();
    let lists: Vec<_> = buffers.iter().map(LoadBuffers::lower).collect();
    let load = buffers.iter().zip(&lists);
    let load: Vec<_> = load
        .map(|(buffers, (distributions, week))| wit::recommender::Load {
            gpus: &buffers.gpus,
            distributions,
            week,
        })
        .collect();
    call(wit::recommender::Window {
        start: window.start.as_nanos(),
        end: window.end.as_nanos(),
        is_final: window.is_final,
        experiment_id: &window.experiment_id,
        trace_id: &window.trace_id,
        attributes: &attributes,
        utc_offset_seconds: window.utc_offset,
        step_seconds: window.step.as_secs_f64(),
        gpus: &gpus,
        metrics: &pairs(&window.metrics),
        offers: &offers,
        previous: &previous,
        load: &load,
    })
}

/// Passes the lowered request to `call`.
pub(super) fn request<T>(
    request: &QuoteRequest,
    call: impl FnOnce(wit::pricer::QuoteRequest<'_>) -> T,
) -> T {
    let as_of = request.listed.as_ref().and_then(as_of);
    call(wit::pricer::QuoteRequest {
        model: &request.model,
        provider: request.provider.as_deref(),
        region: request.region.as_deref(),
        instance_type: request.instance_type.as_deref(),
        plan: request.plan.map(Into::into),
        time: request.time.as_nanos(),
        gpus: request.gpus.get(),
        priced: request.priced,
        listed: request.listed.as_ref().map(|listed| price(listed, as_of.as_deref())),
        attributes: &texts(&request.attributes),
        is_offer: request.is_offer,
    })
}

/// Fields of a lowered GPU that cannot borrow from [`Gpu`] directly.
struct GpuBuffers<'a> {
    work_done: Vec<(&'a str, f64)>,
    metrics: Vec<(&'a str, f64)>,
    attributes: Vec<(&'a str, &'a str)>,
    week: Vec<wit::recommender::HourOfWeek>,
    throttling: Vec<wit::recommender::Throttling>,
    xids: Vec<wit::recommender::Xid>,
    as_of: Option<String>,
    holders: Vec<wit::recommender::Holder<'a>>,
}

impl<'a> GpuBuffers<'a> {
    fn new(gpu: &'a Gpu) -> Self {
        Self {
            work_done: pairs(&gpu.work_done),
            metrics: pairs(&gpu.metrics),
            attributes: texts(&gpu.attributes),
            week: gpu.week.iter().map(|hour| (*hour).into()).collect(),
            throttling: gpu.sensors.throttling.iter().map(|one| (*one).into()).collect(),
            xids: xids(&gpu.sensors.xids),
            as_of: gpu.price.as_ref().and_then(as_of),
            holders: gpu.holders.iter().map(holder).collect(),
        }
    }
}

/// Lists of a group of GPUs.
struct LoadBuffers<'a> {
    gpus: Vec<&'a str>,
    distributions: Vec<(u32, Vec<wit::recommender::LoadBucket>)>,
    week: Vec<(u32, Vec<wit::recommender::LoadBucket>)>,
}

impl<'a> LoadBuffers<'a> {
    fn new(load: &'a Load) -> Self {
        let bucket = |bucket: &LoadBucket| wit::recommender::LoadBucket {
            percent: bucket.percent,
            seconds: bucket.time.as_secs_f64(),
        };
        let buckets = |of: &[LoadBucket]| of.iter().map(bucket).collect::<Vec<_>>();
        let distribution = |of: &LoadDistribution| (of.mean_seconds, buckets(&of.buckets));
        let hour = |of: &LoadHour| (of.hour, buckets(&of.buckets));
        Self {
            gpus: load.gpus.iter().map(String::as_str).collect(),
            distributions: load.distributions.iter().map(distribution).collect(),
            week: load.week.iter().map(hour).collect(),
        }
    }

    fn lower(
        &self,
    ) -> (Vec<wit::recommender::LoadDistribution<'_>>, Vec<wit::recommender::LoadHour<'_>>) {
        let distributions = self.distributions.iter().map(|(mean_seconds, buckets)| {
            wit::recommender::LoadDistribution { mean_seconds: *mean_seconds, buckets }
        });
        let week = self.week.iter();
        let week = week.map(|(hour, buckets)| wit::recommender::LoadHour { hour: *hour, buckets });
        (distributions.collect(), week.collect())
    }
}

fn holder(holder: &WindowHolder) -> wit::recommender::Holder<'_> {
    wit::recommender::Holder {
        name: &holder.name,
        kind: holder.kind.into(),
        namespace: holder.namespace.as_deref(),
        pod: holder.pod.as_deref(),
        container: holder.container.as_deref(),
        uid: holder.uid.as_deref(),
        job: holder.job.as_deref(),
        is_current: holder.is_current,
        granted: holder.granted,
        first_touch: holder.first_touch.map(Timestamp::as_nanos),
        used: holder.used.into(),
        granted_unused: holder.granted_unused.into(),
        never_touched: holder.never_touched.into(),
        method: holder.method.into(),
    }
}

fn pairs(map: &BTreeMap<String, f64>) -> Vec<(&str, f64)> {
    map.iter().map(|(name, value)| (&**name, *value)).collect()
}

fn texts(map: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    map.iter().map(|(name, value)| (&**name, &**value)).collect()
}

fn as_of(price: &Price) -> Option<String> {
    price.as_of.map(|date| date.to_string())
}

fn price<'a>(price: &'a Price, as_of: Option<&'a str>) -> types::Price<'a> {
    types::Price {
        nano_usd_per_gpu_hour: price.rate.nano_usd_per_hour(),
        plan: price.plan.map(Into::into),
        provider: price.provider.as_deref(),
        region: price.region.as_deref(),
        instance_type: price.instance_type.as_deref(),
        source: &price.source,
        as_of,
        estimated: price.estimate.is_some(),
    }
}

fn lower_gpu<'a>(gpu: &'a Gpu, buffers: &'a GpuBuffers<'_>) -> wit::recommender::Gpu<'a> {
    wit::recommender::Gpu {
        id: &gpu.id,
        model: &gpu.model,
        memory_total_bytes: gpu.memory_total.map(Bytes::get),
        power_limit_watts: gpu.power_limit.map(Milliwatts::watts),
        accounts: gpu.accounts.into(),
        waste: wit::recommender::Waste {
            starvation: nano_usd(gpu.waste.starvation),
            idle: nano_usd(gpu.waste.idle),
            underload: nano_usd(gpu.waste.underload),
        },
        pattern: gpu.pattern.map(Into::into),
        price: gpu.price.as_ref().map(|listed| price(listed, buffers.as_of.as_deref())),
        work_done: &buffers.work_done,
        utilization: &gpu.utilization,
        power: &gpu.power,
        memory: &gpu.memory,
        metrics: &buffers.metrics,
        attributes: &buffers.attributes,
        workload: gpu.workload.into(),
        interruptible: gpu.interruptible,
        activity: activity(gpu, &buffers.week),
        sensors: sensors(&gpu.sensors, buffers),
        holders: &buffers.holders,
    }
}

fn sensors<'a>(sensors: &Sensors, buffers: &'a GpuBuffers<'_>) -> wit::recommender::Sensors<'a> {
    wit::recommender::Sensors {
        sm_clock_mhz: sensors.sm_clock,
        max_sm_clock_mhz: sensors.max_sm_clock,
        temperature_celsius: sensors.temperature,
        max_temperature_celsius: sensors.max_temperature,
        busy_power: sensors.busy_power.map(Into::into),
        memory_in_use: sensors.memory_in_use.map(Into::into),
        sm_activity: sensors.sm_activity,
        tensor_activity: sensors.tensor_activity,
        dram_activity: sensors.dram_activity,
        throttling: &buffers.throttling,
        xids: &buffers.xids,
    }
}

fn xids(counts: &BTreeMap<u64, u32>) -> Vec<wit::recommender::Xid> {
    counts
        .iter()
        .map(|(code, count)| wit::recommender::Xid { code: *code, count: *count })
        .collect()
}

fn lower_offer<'a>(offer: &'a Offer, as_of: Option<&'a str>) -> wit::recommender::Offer<'a> {
    wit::recommender::Offer {
        model: &offer.model,
        gpus: offer.gpus.get(),
        memory_bytes: offer.memory.map(Bytes::get),
        price: price(&offer.price, as_of),
    }
}

fn lower_previous<'a>(
    previous: &'a Previous,
    gpus: &'a [&'a str],
) -> wit::recommender::Previous<'a> {
    wit::recommender::Previous {
        policy: &previous.policy,
        code: &previous.code,
        gpus,
        first_given: previous.first_given.as_nanos(),
        still_given: previous.still_given,
    }
}

fn activity<'a>(
    gpu: &Gpu,
    week: &'a [wit::recommender::HourOfWeek],
) -> wit::recommender::Activity<'a> {
    let Activity { quiet, stretches, longest, in_stretches, before_work, after_work, pauses } =
        gpu.activity;
    let [minutes, ten_minutes, hours] = in_stretches.map(Nanos::as_secs_f64);
    let count = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
    wit::recommender::Activity {
        interval_seconds: gpu.interval.map(Nanos::as_secs_f64),
        quiet: quiet.into(),
        stretches: count(stretches),
        longest_seconds: longest.as_secs_f64(),
        minutes_seconds: minutes,
        ten_minutes_seconds: ten_minutes,
        hours_seconds: hours,
        before_work: before_work.into(),
        after_work: after_work.into(),
        pauses: wit::recommender::Pauses {
            count: count(pauses.lengths.count),
            quiet: Quiet { time: pauses.lengths.total, held: pauses.held }.into(),
            after_unobserved: count(pauses.after_unobserved),
            length_deviation: pauses.lengths.deviation(),
            period_seconds: pauses.periods.mean().map(Nanos::as_secs_f64),
            period_deviation: pauses.periods.deviation(),
            memory_bytes: pauses.memory.mean(),
            memory_at_work_bytes: pauses.memory_at_work.mean(),
        },
        week,
    }
}
