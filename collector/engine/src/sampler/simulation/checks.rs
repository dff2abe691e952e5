//! What must hold of every simulated run.

use std::collections::{BTreeMap, BTreeSet};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_otlp::Request;
use phasemeter_sources::live::Event;

use super::plan::{GPUS, HEALTHY, Plan, UTILIZATION, WATTS, start};
use super::run::{Outcome, RATE};

/// The errors by which a GPU reports that it, or the driver, is lost.
const LOSSES: [&str; 3] = ["gpu_is_lost", "reset_required", "uninitialized"];

impl Outcome {
    /// Every span equals the run, all time is in the account of the GPU or unobserved, and accounts sum
    /// to the bill.
    pub(super) fn check_accounts(&self, plan: &Plan) {
        for (gpu, summary) in self.summaries.iter().enumerate() {
            assert_eq!(summary.span, Some((start(), start() + plan.length)), "GPU {gpu}");
            let own = Plan::accounts(gpu).iter().map(|own| summary.accounts[*own].time);
            let (own, unobserved): (Nanos, _) =
                (own.sum(), summary.accounts[Account::Unobserved].time);
            assert_eq!(own + unobserved, plan.length, "GPU {gpu}: {:?}", summary.accounts);
            let reasons = summary.unobserved;
            let reasons = reasons.missing.into_iter().sum::<Nanos>() + reasons.no_reading;
            assert_eq!(reasons, unobserved, "GPU {gpu}");
            let exact = u128::from(RATE) * u128::from(plan.length.0) / u128::from(NANOS_PER_HOUR);
            assert_eq!(summary.accounts.all().cost, NanoUsd(i128::try_from(exact).unwrap()));
            let joules = summary.energy.joules().unwrap_or_default();
            let truth = WATTS * plan.length.as_secs_f64();
            assert!(joules <= truth + WATTS, "GPU {gpu}: {joules} J of {truth} J");
        }
    }

    /// GPUs without faults are observed all the time, with their own values and without events.
    pub(super) fn check_healthy(&self, plan: &Plan) {
        for gpu in HEALTHY {
            let summary = &self.summaries[gpu];
            assert_eq!(summary.accounts[Account::Unobserved].time, Nanos::ZERO, "GPU {gpu}");
            assert_eq!(summary.mean_ppm(), Some(u128::from(Plan::percent(gpu)) * 10_000));
            assert_eq!(summary.basis, Basis::NvmlSamples, "GPU {gpu}");
            let joules = summary.energy.joules().unwrap();
            let truth = WATTS * plan.length.as_secs_f64();
            assert!((joules - truth).abs() <= WATTS * 2.0, "GPU {gpu}: {joules}, not {truth} J");
            let is_fault =
                |event: &&Event| !matches!(event, Event::Unsupported(..) | Event::PollPeriod(..));
            assert_eq!(self.events[gpu].iter().find(is_fault), None, "GPU {gpu}");
        }
    }

    /// Time is unobserved near faults only, and a fault that a GPU reports is reported.
    pub(super) fn check_faults(&self, plan: &Plan) {
        for (gpu, summary) in self.summaries.iter().enumerate() {
            let faults = plan.faults.iter().filter(|fault| fault.gpu == gpu);
            // A lost GPU is searched every 30 s, and a slow call may end any of them.
            let margin = Nanos::from_secs(40) + plan.stale_after();
            let explained = faults.clone().map(|it| Nanos::from_millis(it.for_ms) + margin).sum();
            let unobserved = summary.accounts[Account::Unobserved].time;
            assert!(unobserved <= explained, "GPU {gpu}: {unobserved:?} > {explained:?}");
            // A tick falls into it, and no other fault keeps the GPU from being read.
            let alone = faults.clone().count() == 1;
            for fault in faults.filter(|it| alone && it.for_ms > 5_000) {
                if fault.at_ms + fault.for_ms + 5_000 > plan.length.0 / 1_000_000 {
                    continue;
                }
                let whole = fault.functions.is_empty();
                let utilization = whole || fault.functions.contains(&UTILIZATION);
                let events = &self.events[gpu];
                let has = |expected: fn(&Event) -> bool| {
                    assert!(events.iter().any(expected), "{fault:?}: {events:?}");
                };
                // A single metric that reports a loss loses no GPU.
                if whole && LOSSES.iter().any(|loss| fault.effect.contains(loss)) {
                    has(|event| matches!(event, Event::Lost(_)));
                    has(|event| matches!(event, Event::Recovered));
                    assert!(unobserved > Nanos::ZERO, "{fault:?}");
                }
                if utilization && fault.effect.contains("not_supported") {
                    has(|event| matches!(event, Event::Refused(..)));
                    has(|event| matches!(event, Event::Supported(_)));
                }
                // The driver's buffer of samples covers shorter ones.
                if utilization && fault.effect.contains("hang") && fault.for_ms > 30_000 {
                    assert!(unobserved > Nanos::ZERO, "{fault:?}");
                }
            }
        }
    }

    /// Exports have the sums of the report, sessions end at each step of the wall clock, and no time runs
    /// backwards.
    pub(super) fn check_exports(&self, plan: &Plan) {
        let (mut steps, mut sessions) = (0, BTreeMap::<String, usize>::new());
        let mut times = BTreeMap::<(String, String), f64>::new();
        for request in &self.requests {
            match request {
                Request::Logs(logs) => {
                    let logs = logs.resource_logs.iter().flat_map(|it| &it.scope_logs);
                    let names = logs.flat_map(|it| &it.log_records).map(|it| &it.event_name);
                    steps += names.filter(|name| *name == "phasemeter.clock.stepped").count();
                }
                Request::Traces(traces) => {
                    let spans = traces.resource_spans.iter().flat_map(|it| &it.scope_spans);
                    for span in spans.flat_map(|it| &it.spans) {
                        assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
                        if span.name == "gpu session" {
                            *sessions.entry(attribute(&span.attributes, "hw.id")).or_default() += 1;
                        }
                    }
                }
                Request::Metrics(metrics) => {
                    let scopes = metrics.resource_metrics.iter().flat_map(|it| &it.scope_metrics);
                    for metric in scopes.flat_map(|it| &it.metrics) {
                        let (Some(Data::Sum(sum)), "phasemeter.gpu.time") =
                            (&metric.data, &*metric.name)
                        else {
                            continue;
                        };
                        for point in &sum.data_points {
                            assert!(
                                point.start_time_unix_nano <= point.time_unix_nano,
                                "{point:?}"
                            );
                            let of = |key| attribute(&point.attributes, key);
                            let Some(Value::AsDouble(value)) = point.value else { panic!() };
                            let last = times.entry((of("hw.id"), of("phasemeter.phase")));
                            let last = last.or_default();
                            assert!(*last <= value, "the sum fell");
                            *last = value;
                        }
                    }
                }
            }
        }
        assert_eq!(steps, plan.steps.len());
        let expected = vec![plan.steps.len() + 1; GPUS];
        assert_eq!(sessions.values().copied().collect::<Vec<_>>(), expected);
        let gpus: BTreeSet<_> = times.keys().map(|(gpu, _)| gpu.clone()).collect();
        assert_eq!(gpus.len(), GPUS);
        for gpu in gpus {
            let all: f64 =
                times.iter().filter(|((of, _), _)| *of == gpu).map(|(_, time)| time).sum();
            assert!((all - plan.length.as_secs_f64()).abs() < 1e-6, "{gpu}: {all}");
        }
    }
}

pub(super) fn attribute(attributes: &[KeyValue], key: &str) -> String {
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    let found =
        attributes.iter().find(|it| it.key == key).and_then(|it| it.value.as_ref()?.value.as_ref());
    match found {
        Some(Value::StringValue(text)) => text.clone(),
        other => panic!("{key}: {other:?}"),
    }
}
