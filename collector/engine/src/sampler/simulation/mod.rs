//! Property test: random faults of all kinds at eight GPUs for simulated hours.

mod checks;
mod plan;
mod run;

use std::collections::BTreeMap;

use phasemeter_meter::phase::Account;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Request;
use phasemeter_sources::live::Event;
use proptest::prelude::*;

use self::checks::attribute;
use self::plan::{Plan, START_MILLIS, ScriptedFault, UTILIZATION, WATTS, any_plan};
use super::gpu_sampler::VALUE_LIFETIME;

/// The clock is set back, forward, and from 1970 to the present, as when NTP synchronizes.
#[test]
fn clock_steps_change_no_length() {
    // The last one is followed by readings that are still buffered at the end.
    let steps = [
        (100_000, -10_000),
        (200_000, 3_600_000),
        (300_000, -1_767_225_600_000 / 2),
        (395_000, 1_000_000),
    ];
    let plan = Plan { steps: BTreeMap::from(steps), ..Plan::of(Nanos::from_secs(400)) };
    let outcome = plan.run();
    outcome.check_accounts(&plan);
    outcome.check_healthy(&plan);
    outcome.check_exports(&plan);
    for summary in &outcome.summaries {
        assert_eq!(summary.accounts[Account::Unobserved].time, Nanos::ZERO);
    }
    // The sessions of a GPU, by the wall clock of their time.
    let traces = outcome.requests.iter().filter_map(|request| match request {
        Request::Traces(traces) => Some(traces),
        Request::Metrics(_) | Request::Logs(_) => None,
    });
    let spans = traces.flat_map(|it| &it.resource_spans).flat_map(|it| &it.scope_spans);
    let sessions = spans.flat_map(|it| &it.spans).filter(|span| span.name == "gpu session");
    let of_first =
        sessions.filter(|it| attribute(&it.attributes, "hw.id").ends_with("000000000000"));
    let wall = |nanos: u64| (nanos / 1_000_000).wrapping_sub(START_MILLIS).cast_signed() / 1_000;
    let times: Vec<_> =
        of_first.map(|it| (wall(it.start_time_unix_nano), wall(it.end_time_unix_nano))).collect();
    let half = 1_767_225_600 / 2;
    let expected = [
        (0, 100),
        (90, 190),
        (3_790, 3_890),
        (3_890 - half, 3_985 - half),
        (4_985 - half, 4_990 - half),
    ];
    assert_eq!(times, expected);
}

/// Scenario: the machine is suspended for half an hour, and again for some seconds: one clock stands still meanwhile.
/// Guarantee: that time is unobserved, to some seconds, and neither a hang nor a loss; the span is that of the run.
#[test]
fn suspended_time_is_unobserved() {
    let suspensions = BTreeMap::from([(167_000, 1_837_000), (2_171_000, 8_350)]);
    let suspended = Nanos::from_millis(suspensions.values().sum());
    let plan = Plan { suspensions, ..Plan::of(Nanos::from_secs(2_400)) };
    let outcome = plan.run();
    outcome.check_exports(&plan);
    for (gpu, summary) in outcome.summaries.iter().enumerate() {
        assert_eq!(summary.span, Some((plan::start(), plan::start() + plan.length)), "GPU {gpu}");
        let unobserved = summary.accounts[Account::Unobserved].time;
        let margin = Nanos::from_secs(3);
        let difference = unobserved.0.abs_diff(suspended.0);
        assert!(difference <= margin.0, "GPU {gpu}: {unobserved:?} of {suspended:?}");
        assert_eq!(summary.accounts.all().time, plan.length, "GPU {gpu}");
        let is_fault =
            |event: &&Event| !matches!(event, Event::Unsupported(..) | Event::PollPeriod(..));
        assert_eq!(outcome.events[gpu].iter().find(is_fault), None, "GPU {gpu}");
    }
}

/// A call for utilization takes longer than half the time for which its value is valid.
#[test]
fn slow_utilization_leaves_other_metrics() {
    let fault = |functions: &'static [&'static str], effect: &str| ScriptedFault {
        gpu: 1,
        at_ms: 0,
        for_ms: 120_000,
        functions,
        effect: effect.to_owned(),
    };
    let plan = Plan {
        faults: vec![
            fault(&[UTILIZATION], "delay_ms = 600"),
            fault(&["nvmlDeviceGetSamples"], "error = \"not_supported\""),
        ],
        ..Plan::of(Nanos::from_secs(120))
    };
    let outcome = plan.run();
    outcome.check_accounts(&plan);
    outcome.check_healthy(&plan);
    let summary = &outcome.summaries[1];
    let missing = WATTS * 120.0 - summary.energy.joules().unwrap();
    // Since the last poll before a call that returned after the end.
    assert!(missing <= WATTS * VALUE_LIFETIME.as_secs_f64(), "{missing} J are missing");
    let unobserved = summary.accounts[Account::Unobserved].time;
    assert!(unobserved <= Nanos::SECOND, "{unobserved:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]

    #[test]
    fn random_faults_change_no_span_and_no_neighbor(plan in any_plan()) {
        let outcome = plan.run();
        outcome.check_accounts(&plan);
        outcome.check_healthy(&plan);
        outcome.check_faults(&plan);
        outcome.check_exports(&plan);
    }
}
