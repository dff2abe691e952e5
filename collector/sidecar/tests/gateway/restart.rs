//! A gateway that is killed and started again.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use phasemeter_meter::instant as timestamp;
use phasemeter_meter::units::Timestamp;

use serde_json::Value;

use crate::dcgm::{START, page};
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::otlp::{self, Captured};
use crate::process::{Gateway, client};
use crate::span_requests::{ReceivedSpan, received_spans, span, traces};
use crate::{GPU, NANO_USD, NANOS, SOON, metered, metered_requests, sums};

/// Sends a reading each 15 s, from `from` to `to` seconds after the start.
fn send(gateway: &Gateway, from: u64, to: u64) {
    let client = client(&gateway.endpoint());
    for at in (from..=to).step_by(15) {
        client.enqueue(page(GPU, START + at, 50.0));
    }
    assert!(client.flush(SOON).all_sent());
}

fn total(captured: &Captured, metric: &str) -> u64 {
    sums(captured, metric).values().sum()
}

/// When GPUs began to be billed, as events, in seconds after the start.
fn starts(captured: &Captured) -> Vec<u64> {
    let name = "phasemeter.gpu.metering_started";
    let events = captured.events.iter().filter(|it| it.event_name == name);
    events.map(|event| event.time_unix_nano / NANOS - START).collect()
}

/// The seconds of gaps, as events.
fn gaps(captured: &Captured) -> Vec<f64> {
    let events = captured.events.iter().filter(|it| it.event_name == "phasemeter.gpu.gap.found");
    let seconds = |attributes: BTreeMap<String, String>| {
        attributes["phasemeter.gpu.gap.duration"].parse().unwrap()
    };
    events.map(|event| seconds(otlp::attributes(&event.attributes))).collect()
}

/// Scenario: a gateway is killed after some exports, while it holds readings; another one starts with its
/// data directory, receives a reading that the first one had billed, and then new ones.
/// Guarantee: what both have billed at the backend and the gap, which is an event and a line of the report,
/// are the whole time, to the nanosecond and the nano-dollar.
#[test]
fn sums_before_and_after_a_kill_and_the_gap_are_the_whole_time() {
    let backend = MockBackend::start([]);
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().to_str().unwrap();
    let options = ["--data-dir", data, "--hold", "0.1", "--stale-after", "45"];
    let gateway = Gateway::start(&backend, &options);
    send(&gateway, 0, 315);
    let began = Instant::now();
    let mut requests = Vec::new();
    while total(&metered_requests(&requests), "phasemeter.gpu.time") < 300 * NANOS {
        assert!(began.elapsed() < SOON, "{}", requests.len());
        thread::sleep(Duration::from_millis(50));
        requests.extend(backend.received());
    }
    gateway.kill();
    requests.extend(backend.received());
    let before = metered_requests(&requests);
    let (time, cost) =
        (total(&before, "phasemeter.gpu.time"), total(&before, "phasemeter.gpu.cost"));
    let seconds = time / 1_000_000_000;
    assert_eq!(cost, seconds * NANO_USD);

    let gateway = Gateway::start(&backend, &options);
    send(&gateway, 0, 30);
    send(&gateway, 600, 690);
    let (status, report, log) = gateway.stop_with_log();
    assert!(status.success(), "{log}");
    // What the first one had just sent is sent again, with the same bytes.
    let mut new = backend.received();
    new.retain(|request| requests.iter().all(|before| before.body != request.body));
    let after = metered_requests(&new);
    let (later, gaps) = (total(&after, "phasemeter.gpu.time"), gaps(&after));
    assert_eq!((starts(&before), starts(&after)), (vec![0], vec![]), "the gap is known");
    assert_eq!(gaps, [(600 - seconds) as f64]);
    assert_eq!(time + later + (600 - seconds) * 1_000_000_000, 690 * 1_000_000_000);
    assert_eq!(total(&after, "phasemeter.gpu.cost"), 90 * NANO_USD);
    let notes = report["assumptions"].to_string();
    let line = format!(
        "node-1 GPU 0: {}.0 s between an earlier run and this one are not billed",
        600 - seconds
    );
    assert!(notes.contains(&line), "{notes}");
}

/// Scenario: a gateway without a data directory is killed while it holds readings; another one starts.
/// Guarantee: each states when it began to bill the GPU. From there on its sums are exact; a line of the
/// report states that earlier time is unknown.
#[test]
fn restart_without_claims_states_where_sums_begin() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--hold", "0.1", "--stale-after", "45"]);
    send(&gateway, 0, 315);
    let began = Instant::now();
    let mut requests = Vec::new();
    while total(&metered_requests(&requests), "phasemeter.gpu.time") < 300 * NANOS {
        assert!(began.elapsed() < SOON, "{}", requests.len());
        thread::sleep(Duration::from_millis(50));
        requests.extend(backend.received());
    }
    gateway.kill();
    requests.extend(backend.received());
    let before = metered_requests(&requests);
    assert_eq!((starts(&before), gaps(&before)), (vec![0], vec![]));
    assert_eq!(total(&before, "phasemeter.gpu.cost"), 300 * NANO_USD);

    let gateway = Gateway::start(&backend, &[]);
    send(&gateway, 600, 690);
    let (_, report) = gateway.stop();
    let after = metered(&backend);
    assert_eq!((starts(&after), gaps(&after)), (vec![600], vec![]));
    assert_eq!(total(&after, "phasemeter.gpu.time"), 90 * NANOS);
    assert_eq!(total(&after, "phasemeter.gpu.cost"), 90 * NANO_USD);
    let notes = report.to_string();
    let line = "1 GPU is billed from its first reading on; whether an earlier gateway left a gap before is \
                unknown without its --data-dir";
    assert!(notes.contains(line), "{notes}");
}

/// Scenario: a gateway that begins a report every two seconds receives a reading each second until it is killed, and
/// so does another one until it ends.
/// Guarantee: the periods of each follow one another, and cost what the time of its GPU does, to the nano-dollar.
#[test]
fn periods_of_gateways_that_are_killed_or_end_sum_to_their_bills() {
    let options =
        ["--hold", "0.1", "--stale-after", "45", "--report-every", "1s", "--report-period", "2s"];
    for is_killed in [true, false] {
        let gateway = Gateway::start(&MockBackend::start([]), &options);
        let client = client(&gateway.endpoint());
        let began = Instant::now();
        while gateway.reports().len() < 3 {
            assert!(began.elapsed() < SOON, "{:?}", gateway.reports());
            client.enqueue(page(GPU, now(), 50.0));
            thread::sleep(Duration::from_secs(1));
        }
        assert!(client.flush(SOON).all_sent());
        let reports = if is_killed {
            let reports = gateway.reports();
            gateway.kill();
            reports
        } else {
            gateway.stop_with_periods()
        };
        let at = |text: &Value| text.as_str().unwrap().parse::<timestamp::Instant>().unwrap().0;
        // A period that ends before the first reading has no GPU.
        let gpus: Vec<&Value> = reports
            .values()
            .map(|report| &report["gpus"][0])
            .skip_while(|gpu| gpu.is_null())
            .collect();
        let spans: Vec<_> = gpus.iter().map(|gpu| (at(&gpu["start"]), at(&gpu["end"]))).collect();
        assert!(spans.windows(2).all(|pair| pair[0].1 == pair[1].0), "{spans:?}");
        let length = spans[spans.len() - 1].1.since(spans[0].0);
        let cost = |gpu: &&Value| nanos(&gpu["cost_usd"]);
        assert_eq!(gpus.iter().map(cost).sum::<u64>(), length.0 / NANOS * NANO_USD, "{spans:?}");
    }
}

fn nanos(usd: &Value) -> u64 {
    usd.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// The present, in whole seconds.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// Scenario: a file of claims states that all time until 2099 is billed, or until an hour from now.
/// Guarantee: it is kept under another name, which one line of the log states, and the readings are billed.
#[test]
fn claims_of_the_future_are_set_aside_and_readings_are_billed() {
    for seconds in [4_070_908_800, crate::spans::base() + 3_600] {
        let backend = MockBackend::start([]);
        let directory = tempfile::tempdir().unwrap();
        let claims = directory.path().join("claims.json");
        let until = timestamp::Instant(Timestamp::from_millis(seconds * 1_000).unwrap());
        let content = format!(
            r#"{{"schema":"phasemeter.claims/0.2","boot_id":null,"began":null,"claimed_until":
            {{"{GPU}":{{"wall":"{until}","since_boot_nanos":null}}}}}}"#
        );
        std::fs::write(&claims, &content).unwrap();
        let data = directory.path().to_str().unwrap();
        let gateway = Gateway::start(&backend, &["--data-dir", data]);
        send(&gateway, 0, 105);
        let (_, _, log) = gateway.stop_with_log();
        assert_eq!(log.matches("ahead of this machine's clock; it is kept as").count(), 1, "{log}");
        assert_eq!(total(&metered(&backend), "phasemeter.gpu.cost"), 105 * NANO_USD);
        let aside = directory.path().join("claims.json.unreadable");
        assert_eq!(std::fs::read_to_string(aside).unwrap(), content);
    }
}

/// Scenario: a gateway that prices spans is killed. A span has its cost; other spans could still arrive for
/// the time before and after it.
/// Guarantee: of each export, what spans have, what none will have, and what is not divided yet are the
/// bill, to the nano-dollar. So it is known what no span will ever have.
#[test]
fn cost_that_was_not_divided_before_a_kill_is_exported() {
    let backend = MockBackend::start([]);
    let gateway =
        Gateway::start(&backend, &["--price-spans", "*", "--span-all-gpus", "--hold", "0.1"]);
    let base = crate::spans::base() - 200;
    let send = |seconds: std::ops::RangeInclusive<u64>| {
        crate::spans::send(&gateway.endpoint(), seconds.map(|at| page(GPU, base + at, 50.0)));
    };
    let mut requests = Vec::new();
    let wait_until = |requests: &mut Vec<_>, is_done: &dyn Fn(&[ReceivedRequest]) -> bool| {
        let began = Instant::now();
        while !is_done(requests) {
            assert!(began.elapsed() < SOON, "{}", requests.len());
            thread::sleep(Duration::from_millis(50));
            requests.extend(backend.received());
        }
    };
    send(0..=130);
    let chosen = span("s", 0, base, 5 * NANOS, 15 * NANOS);
    crate::spans::send(&gateway.endpoint(), [traces(&[], &[chosen])]);
    wait_until(&mut requests, &|requests| !received_spans(requests).is_empty());
    // At least one whole minute more.
    send(131..=200);
    let of_spans = |requests: &[ReceivedRequest]| last(&metered_requests(requests), "spans");
    wait_until(&mut requests, &|requests| of_spans(requests) > 0);
    gateway.kill();
    let captured = metered_requests(&requests);
    let [ReceivedSpan { price: Some(price), .. }] = &received_spans(&requests)[..] else {
        panic!()
    };
    let spans = last(&captured, "spans");
    assert_eq!(spans, price.nano_usd);
    let pending = captured.streams("phasemeter.attribution.pending");
    let pending = pending.values().next().and_then(|stream| stream.points.last()).unwrap().value;
    let pending = (pending * 1e9).round() as u64;
    assert!(pending > 0);
    let bill = total(&captured, "phasemeter.gpu.cost");
    assert_eq!(spans + last(&captured, "unattributed") + pending, bill);
}

/// The last point of this state of the attribution, in nano-dollars.
fn last(captured: &Captured, state: &str) -> u64 {
    let streams = captured.streams("phasemeter.attribution.cost");
    let of_state =
        |attributes: &BTreeMap<String, String>| attributes["phasemeter.attribution.state"] == state;
    let found = streams.iter().find(|(attributes, _)| of_state(attributes));
    let point = found.and_then(|(_, stream)| stream.points.last());
    point.map_or(0, |point| (point.value * 1e9).round() as u64)
}
