//! Unreachable, slow and rejecting Collectors do not change the report.

use std::iter;
use std::thread;

use http::StatusCode;

use crate::mock_backend::{MockBackend, Reply, Unreachable};
use crate::otlp::billionths;
use crate::output::print;
use crate::run::{RATE, Report, Run, nano_usd};
use crate::script::{BOUND, FREE, HELD, Plan, Script, UNDER};

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, activities: &[(BOUND, 2), (HELD, 2), (UNDER, 1)] },
    Plan { edge: HELD, activities: &[(UNDER, 3), (BOUND, 2)] },
];

/// More requests than any of these runs sends.
const ALWAYS: usize = 10_000;

/// Runs one script concurrently without a Collector and with each of the failing ones.
#[test]
fn failing_collectors_do_not_change_report() {
    let always = |reply: Reply| MockBackend::start(iter::repeat_n(reply, ALWAYS));
    let slow = always(Reply::NoResponse);
    let rejecting = always(Reply::Http(StatusCode::BAD_REQUEST, None, "not here"));
    let unreachable = Unreachable::reserve();
    let url = |address| format!("http://{address}");
    let collectors = [
        ("none", None),
        ("dead", Some(url(unreachable.address))),
        ("slow", Some(url(slow.address))),
        ("rejecting", Some(url(rejecting.address))),
    ];
    let script = Script::begin(&PLANS);
    let run = |endpoint: &Option<String>| {
        let run = Run::new(&script).env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        match endpoint {
            Some(endpoint) => run.export_to(endpoint, "http/protobuf").report(),
            None => run.report(),
        }
    };
    let reports: Vec<_> = thread::scope(|scope| {
        let runs = collectors.each_ref().map(|(_, endpoint)| scope.spawn(|| run(endpoint)));
        runs.map(|run| run.join().unwrap()).into()
    });
    for ((collector, _), report) in collectors.iter().zip(&reports) {
        check(&script, report);
        print(&format!("Collector: {collector:8}  {}", report.note("tick lateness")));
    }
    assert!(reports[1].note("spans").contains("unsent"));
    assert!(reports[2].note("spans").contains("unsent"));
    assert!(reports[3].note("spans").contains("rejected"));
}

/// Each account has the script's seconds, and the bill covers the whole time.
fn check(script: &Script, report: &Report) {
    for (index, gpu) in report.gpus().iter().enumerate() {
        let truth = script.gpu(index);
        for (account, nanos) in truth.known() {
            let phase = &gpu["phases"][account];
            assert_eq!(billionths(phase["seconds"].as_f64().unwrap()), nanos, "{account}: {gpu:#}");
        }
        let span = billionths(gpu["span_seconds"].as_f64().unwrap());
        let bill = u128::from(RATE) * u128::from(span) / 3_600_000_000_000;
        assert_eq!(u128::from(nano_usd(&gpu["cost_usd"])), bill);
        assert_eq!(gpu["unobserved_seconds"], 0.0);
    }
}
