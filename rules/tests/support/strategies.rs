//! Strategies for everything that fixture files contain.

use std::num::NonZeroU32;

use phasemeter_meter::activity::{Activity, Quiet};
use phasemeter_meter::date::Date;
use phasemeter_meter::holder::{AllocationMethod, HolderKind};
use phasemeter_meter::lengths::Lengths;
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pattern::{Pattern, PatternKind};
use phasemeter_meter::pauses::{MemoryInUse, Pauses};
use phasemeter_meter::price::{PaymentPlan, Price, PriceRange};
use phasemeter_meter::units::{Bytes, Milliwatts, Nanos, PPM, Timestamp};
use phasemeter_meter::waste::{WasteByCategory, WasteCategory};
use phasemeter_rules::lever::Lever;
use phasemeter_rules::quote::{Quote, QuoteRequest};
use phasemeter_rules::recommendation::{
    Effort, Evidence, Need, Recommendation, RecommendationKind, Remediation, Response, Saving,
    Target,
};
use phasemeter_rules::window::{
    AccountTotals, Accounts, Gpu, HolderTotals, HourOfWeek, Load, LoadBucket, LoadDistribution,
    LoadHour, MEAN_SECONDS, Offer, Percentiles, Previous, Sensors, ThrottleReason, Throttling,
    Window, WindowHolder,
};
use phasemeter_rules::workload::Workload;
use phasemeter_savings::fraction::Fraction;
use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    "[ -~é\u{1f600}\t\n\"\\\\]{0,12}"
}

fn nano_usd() -> impl Strategy<Value = NanoUsd> {
    any::<u64>().prop_map(|money| NanoUsd(i128::from(money)))
}

fn rate() -> impl Strategy<Value = Rate> {
    (0..=Rate::MAX).prop_map(|rate| Rate::new(rate).unwrap())
}

fn instant() -> impl Strategy<Value = Timestamp> {
    (0..Timestamp::END).prop_map(|nanos| Timestamp::from_nanos(nanos).unwrap())
}

/// A number or NaN.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![Just(f64::NAN), proptest::num::f64::NORMAL | proptest::num::f64::ZERO]
}

fn account() -> impl Strategy<Value = AccountTotals> {
    (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(a, b, c, d)| {
        AccountTotals {
            time: Nanos(a.max(b)),
            effective_time: Nanos(a.min(b)),
            cost: NanoUsd(i128::from(c.max(d))),
            utilized_cost: NanoUsd(i128::from(c.min(d))),
        }
    })
}

prop_compose! {
    fn accounts()(
        of in [of(account()), of(account()), of(account()), of(account()), of(account()),
            of(account()), of(account())],
    ) -> Accounts {
        let [idle_held, idle_free, idle_unknown, underutilized, productive, compute_bound,
            unobserved] = of.map(Option::unwrap_or_default);
        Accounts { idle_held, idle_free, idle_unknown, underutilized, productive, compute_bound,
            unobserved }
    }
}

prop_compose! {
    fn price()(
        rate in rate(), plan in of(select(PaymentPlan::ALL.to_vec())), provider in of(text()),
        region in of(text()), instance_type in of(text()), source in text(),
        as_of in of(instant().prop_map(Date::of)),
        estimate in of((any::<usize>(), rate(), rate(), any::<bool>())),
    ) -> Price {
        Price {
            rate, plan, provider, region, instance_type, source, as_of,
            estimate: estimate.map(|(rows, low, high, anywhere)| PriceRange { rows, low, high, anywhere }),
        }
    }
}

prop_compose! {
    fn pattern()(
        kind in select(vec![PatternKind::Idle, PatternKind::Steady, PatternKind::Bouncing,
            PatternKind::Mixed]),
        period in of(any::<u64>().prop_map(Nanos)), duty_cycle in of(0..=PPM),
    ) -> Pattern {
        Pattern { kind, period, duty_cycle }
    }
}

prop_compose! {
    fn columns()(points in 0_usize..6)(
        utilization in vec(prop_oneof![Just(f64::NAN), 0.0..=1.0], points),
        power in vec(number().prop_map(f64::abs), points),
        memory in vec(number().prop_map(f64::abs), points),
    ) -> [Vec<f64>; 3] {
        [utilization, power, memory]
    }
}

fn nanos() -> impl Strategy<Value = Nanos> {
    any::<u64>().prop_map(Nanos)
}

prop_compose! {
    fn quiet()(time in nanos(), held in nanos()) -> Quiet {
        Quiet { time, held }
    }
}

prop_compose! {
    fn lengths()(count: u64, total in nanos(), logarithms: u64, squares: u64) -> Lengths {
        Lengths { count, total, logarithms, squares }
    }
}

prop_compose! {
    fn memory_in_use()(kibibytes: u64, readings: u64) -> MemoryInUse {
        MemoryInUse { kibibytes, readings }
    }
}

prop_compose! {
    fn pauses()(
        lengths in lengths(), held in nanos(), after_unobserved: u64, periods in lengths(),
        memory in memory_in_use(), memory_at_work in memory_in_use(),
    ) -> Pauses {
        Pauses { lengths, held, after_unobserved, periods, memory, memory_at_work }
    }
}

prop_compose! {
    fn activity()(
        quiet in quiet(), stretches: u64, longest in nanos(),
        in_stretches in [nanos(), nanos(), nanos()], before_work in quiet(),
        after_work in quiet(), pauses in pauses(),
    ) -> Activity {
        Activity { quiet, stretches, longest, in_stretches, before_work, after_work, pauses }
    }
}

fn week() -> impl Strategy<Value = Vec<HourOfWeek>> {
    let hour = (nanos(), nanos()).prop_map(|(observed, idle)| HourOfWeek { observed, idle });
    prop_oneof![3 => Just(Vec::new()), 1 => vec(hour, 168)]
}

prop_compose! {
    fn sensors()(
        sm_clock in of(positive()), max_sm_clock in of(positive()), temperature in of(positive()),
        max_temperature in of(positive()), busy_power in of(percentiles()),
        memory_in_use in of(percentiles()), activity in [of(0.0..=1.0), of(0.0..=1.0), of(0.0..=1.0)],
        throttling in vec(throttling(), 0..3), xids in btree_map(any::<u64>(), 1..u32::MAX, 0..3),
    ) -> Sensors {
        let [sm_activity, tensor_activity, dram_activity] = activity;
        Sensors { sm_clock, max_sm_clock, temperature, max_temperature, busy_power, memory_in_use,
            sm_activity, tensor_activity, dram_activity, throttling, xids }
    }
}

fn percentiles() -> impl Strategy<Value = Percentiles> {
    [positive(), positive(), positive(), positive()].prop_map(|mut values| {
        values.sort_by(f64::total_cmp);
        let [p5, p50, p95, max] = values.map(|value| value.min(f64::MAX));
        Percentiles { p5, p50, p95, max }
    })
}

fn throttling() -> impl Strategy<Value = Throttling> {
    let reason = select(ThrottleReason::ALL.to_vec());
    (reason, 0.0..=1.0).prop_map(|(reason, share)| Throttling { reason, share })
}

prop_compose! {
    fn offer()(
        model in text(), gpus in 1..u32::MAX, memory in of(0..=Bytes::MAX), price in price(),
    ) -> Offer {
        let gpus = NonZeroU32::new(gpus).unwrap();
        Offer { model, gpus, memory: memory.and_then(Bytes::new), price }
    }
}

prop_compose! {
    fn totals()(time in nanos(), cost in nano_usd()) -> HolderTotals {
        HolderTotals { time, cost }
    }
}

prop_compose! {
    fn holder()(
        name in text(), kind in select(HolderKind::ALL.to_vec()),
        names in [of(text()), of(text()), of(text()), of(text()), of(text())], is_current: bool,
        granted in of(0.0..=1.0), first_touch in of(instant()),
        totals in [totals(), totals(), totals()], method in select(AllocationMethod::ALL.to_vec()),
    ) -> WindowHolder {
        let [namespace, pod, container, uid, job] = names;
        let [used, granted_unused, never_touched] = totals;
        WindowHolder { name, kind, namespace, pod, container, uid, job, is_current, granted, first_touch,
            used, granted_unused, never_touched, method }
    }
}

prop_compose! {
    /// The load of the first GPU.
    fn load()(
        buckets in btree_map(any::<u32>(), 1..u64::MAX, 0..3), hour in 0_u32..168,
    ) -> Load {
        let bucket = |(percent, time): (&u32, &u64)| LoadBucket { percent: *percent, time: Nanos(*time) };
        let distribution = |mean_seconds| LoadDistribution {
            mean_seconds, buckets: buckets.iter().map(bucket).collect(),
        };
        Load {
            gpus: vec!["GPU-0".to_owned()],
            distributions: MEAN_SECONDS.map(distribution).to_vec(),
            week: vec![LoadHour { hour, buckets: buckets.iter().map(bucket).collect() }],
        }
    }
}

prop_compose! {
    fn previous()(
        policy in text(), code in text(), gpus in vec(text(), 0..3), first_given in instant(),
        still_given: bool,
    ) -> Previous {
        Previous { policy, code, gpus, first_given, still_given }
    }
}

fn evidence() -> impl Strategy<Value = Evidence> {
    (proptest::num::f64::NORMAL, text()).prop_map(|(value, unit)| Evidence { value, unit })
}

fn positive() -> impl Strategy<Value = f64> {
    proptest::num::f64::POSITIVE | proptest::num::f64::ZERO
}

prop_compose! {
    fn gpu()(
        model in text(), memory_total in of(0..=Bytes::MAX), power_limit in of(0..=1_000_000_u32),
        accounts in accounts(), waste in [nano_usd(), nano_usd(), nano_usd()],
        pattern in of(pattern()), price in of(price()),
        work_done in btree_map(text(), number(), 0..3),
        metrics in btree_map(text(), number(), 0..3),
        attributes in btree_map(text(), text(), 0..3),
        workload in select(Workload::ALL.to_vec()), interruptible: bool,
        (activity, interval, week, sensors, holders)
            in (activity(), of(nanos()), week(), sensors(), vec(holder(), 0..3)),
    ) -> Gpu {
        let [starvation, idle, underload] = waste;
        Gpu {
            id: String::new(), model,
            memory_total: memory_total.and_then(Bytes::new),
            power_limit: power_limit.and_then(Milliwatts::new),
            accounts, waste: WasteByCategory { starvation, idle, underload }, pattern, price, work_done,
            utilization: Vec::new(), power: Vec::new(), memory: Vec::new(), metrics,
            attributes, workload, interruptible, activity, interval, week, sensors, holders,
        }
    }
}

prop_compose! {
    pub(crate) fn window()(
        times in [instant(), instant()], is_final: bool,
        experiment_id in "[ -~]{1,12}", trace_id in "[0-9a-f]{32}",
        attributes in btree_map(text(), text(), 0..3), step in 1..u64::MAX,
        gpus in vec(gpu(), 0..3), columns in columns(),
        metrics in btree_map(text(), number(), 0..3), utc_offset in of(-86_400..86_400),
        offers in vec(offer(), 0..3), previous in vec(previous(), 0..3), load in of(load()),
    ) -> Window {
        let [utilization, power, memory] = columns;
        let load = load.filter(|_| !gpus.is_empty()).into_iter().collect();
        let gpus = gpus.into_iter().enumerate().map(|(i, gpu)| Gpu {
            id: format!("GPU-{i}"),
            utilization: utilization.clone(),
            power: if i == 0 { power.clone() } else { Vec::new() },
            memory: memory.clone(),
            ..gpu
        });
        Window {
            start: times[0].min(times[1]), end: times[0].max(times[1]), is_final,
            experiment_id, trace_id, attributes, utc_offset, step: Nanos(step), gpus: gpus.collect(), metrics, offers, previous, load,
        }
    }
}

prop_compose! {
    fn recommendation()(
        code in text(), title in text(), action in text(), rationale in text(),
        target in select(vec![Target::Waste(WasteCategory::Starvation), Target::Waste(WasteCategory::Idle),
            Target::Waste(WasteCategory::Underload), Target::Rate, Target::Throughput]),
        lever in select(Lever::ALL.to_vec()),
        saving in [0.0..=1.0, 0.0..=1.0, 0.0..=1.0].prop_map(|parts| parts.map(fraction)),
        confidence in (0.0..=1.0).prop_map(fraction),
        evidence in btree_map(text(), evidence(), 0..3),
        gpus in vec(text(), 0..3),
        (kind, effort) in (select(RecommendationKind::ALL.to_vec()), select(Effort::ALL.to_vec())),
        reversible: bool, remediation in of((text(), btree_map(text(), text(), 0..3))),
    ) -> Recommendation {
        let remediation = remediation.map(|(kind, parameters)| Remediation { kind, parameters });
        let [low, expected, high] = saving;
        Recommendation {
            code, target, lever, title, action, rationale, saving: Saving { low, expected, high },
            confidence, evidence, gpus, kind, effort, reversible, remediation,
        }
    }
}

prop_compose! {
    pub(crate) fn response()(
        recommendations in vec(recommendation(), 0..3),
        needs in vec((text(), text(), vec(text(), 0..3)), 0..3),
    ) -> Response {
        let need = |(missing, reason, gpus)| Need { missing, reason, gpus };
        Response { recommendations, needs: needs.into_iter().map(need).collect() }
    }
}

prop_compose! {
    pub(crate) fn request()(
        model in "[ -~]{1,12}", provider in of(text()), region in of(text()),
        instance_type in of(text()), plan in of(select(PaymentPlan::ALL.to_vec())), time in instant(),
        listed in of(price()), gpus: NonZeroU32, priced: u32,
        attributes in btree_map(text(), text(), 0..3), is_offer: bool,
    ) -> QuoteRequest {
        QuoteRequest {
            model, provider, region, instance_type, plan, time, gpus, priced, listed,
            attributes, is_offer,
        }
    }
}

prop_compose! {
    pub(crate) fn quote()(
        rate in rate(), plan in select(PaymentPlan::ALL.to_vec()), source in text(),
        as_of in instant().prop_map(Date::of), valid_from in of(instant()),
        valid_until in of(instant()), gpus: Option<NonZeroU32>,
    ) -> Quote {
        Quote { rate, plan, source, as_of, valid_from, valid_until, gpus }
    }
}
