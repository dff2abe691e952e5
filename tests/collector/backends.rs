//! A dead, a slow and a refusing Collector change no reading and no dollar.

use std::iter;
use std::thread;

use http::StatusCode;

use crate::backend::{Backend, Reply};
use crate::run::{RATE, Report, Run, billionths, nano_usd};
use crate::script::{BOUND, FREE, HELD, Plan, Script, UNDER};
use crate::shown::show;

const PLANS: [Plan; 2] = [
    Plan { edge: FREE, doings: &[(BOUND, 2), (HELD, 2), (UNDER, 1)] },
    Plan { edge: HELD, doings: &[(UNDER, 3), (BOUND, 2)] },
];

/// More requests than any of these runs makes.
const ALWAYS: usize = 10_000;

/// The same script once without a Collector and once beside each of those, all at the same time.
#[test]
fn a_dead_a_slow_and_a_refusing_collector_change_no_reading_and_no_dollar() {
    let always = |reply: Reply| Backend::start(iter::repeat_n(reply, ALWAYS));
    let slow = always(Reply::Silence);
    let refusing = always(Reply::Http(StatusCode::BAD_REQUEST, None, "not here"));
    let url = |address| format!("http://{address}");
    let collectors = [
        ("none", None),
        // Nobody listens on the port that is for discarding.
        ("dead", Some(url("127.0.0.1:9".parse().unwrap()))),
        ("slow", Some(url(slow.address))),
        ("refusing", Some(url(refusing.address))),
    ];
    let script = Script::begin(&PLANS);
    let run = |endpoint: &Option<String>| {
        let run = Run::of(&script).env("OTEL_METRIC_EXPORT_INTERVAL", "1000");
        match endpoint {
            Some(endpoint) => run.to(endpoint, "http/protobuf").report(),
            None => run.report(),
        }
    };
    let reports: Vec<_> = thread::scope(|scope| {
        let runs = collectors.each_ref().map(|(_, endpoint)| scope.spawn(|| run(endpoint)));
        runs.map(|run| run.join().unwrap()).into()
    });
    for ((collector, _), report) in collectors.iter().zip(&reports) {
        check(&script, report);
        show(&format!("Collector: {collector:8}  {}", report.note("of the readings came within")));
    }
    assert!(reports[1].note("spans").contains("left unsent"));
    assert!(reports[2].note("spans").contains("left unsent"));
    assert!(reports[3].note("spans").contains("refused"));
}

/// Each account of the report has the seconds of the script, and the bill is that of its time.
fn check(script: &Script, report: &Report) {
    for (place, gpu) in report.gpus().iter().enumerate() {
        let truth = script.gpu(place);
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
