//! Spans of workloads leave with what they cost, and with what no span has that is the bill.
//!
//! Scenario: GPU readings as metrics, and the spans of an LLM server or a training loop, over sockets.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_otlp::EncodedRequest;
use serde_json::Value;

use crate::dcgm::{page, page_of_host, page_with};
use crate::llm::{LlmRequest, llm_requests};
use crate::mock_backend::{MockBackend, ReceivedRequest};
use crate::otlp::{self, Captured};
use crate::process::{Gateway, client};
use crate::span_requests::{Price, ReceivedSpan, price, received_spans, span, traces, with_tokens};
use crate::{NANO_USD, NANOS, SOON, metered_requests};

const GPUS: [&str; 2] = ["GPU-aaaaaaaa-0000", "GPU-bbbbbbbb-0000"];

/// Length of a script in seconds.
const LENGTH: u64 = 60;

/// Start of a script whose time is final: it ends longer ago than spans may be late.
pub(crate) fn base() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    now.as_secs() - LENGTH - 40
}

/// Readings of both GPUs, one per second.
pub(crate) fn readings(base: u64) -> impl Iterator<Item = EncodedRequest> {
    (0..=LENGTH)
        .flat_map(move |second| GPUS.map(|gpu| page(gpu, base + second, (second * 7 % 101) as f64)))
}

/// Requests of this many clients of an LLM server until `end`, with their tokens.
pub(crate) fn llm_spans(clients: u64, durations: Range<u64>, base: u64, end: u64) -> Vec<Span> {
    let requests = llm_requests(clients, &durations, end * NANOS);
    let request = |(number, it): (u64, &LlmRequest)| {
        with_tokens(span("llm_request", number, base, it.from, it.to), i64::from(it.tokens))
    };
    (0..).zip(&requests).map(request).collect()
}

/// Requests of 2 to 12 s, 200 at a time.
fn llm_spans_until(base: u64, end: u64) -> Vec<Span> {
    llm_spans(200, 2 * NANOS..12 * NANOS, base, end)
}

pub(crate) fn send(endpoint: &str, requests: impl IntoIterator<Item = EncodedRequest>) {
    let client = client(endpoint);
    requests.into_iter().for_each(|request| client.enqueue_waiting(request, SOON));
    assert!(client.flush(SOON).all_sent());
}

/// Waits until the backend has received this many spans of workloads, and returns all requests.
fn wait_for(backend: &MockBackend, requests: &mut Vec<ReceivedRequest>, spans: usize) {
    let started = Instant::now();
    while received_spans(requests).len() < spans {
        assert!(started.elapsed() < SOON, "{} of {spans}", received_spans(requests).len());
        thread::sleep(Duration::from_millis(50));
        requests.extend(backend.received());
    }
}

/// The prices of spans by ID: as attributes, or as events that followed.
fn prices(requests: &[ReceivedRequest], captured: &Captured) -> BTreeMap<Vec<u8>, Price> {
    let mut prices = BTreeMap::new();
    for ReceivedSpan { span, price, .. } in received_spans(requests) {
        if let Some(price) = price {
            assert!(prices.insert(span.span_id, price).is_none(), "a span was priced twice");
        }
    }
    for event in captured.events.iter().filter(|it| it.event_name == "phasemeter.span.priced") {
        let price = price(&event.attributes).unwrap();
        assert!(prices.insert(event.span_id.clone(), price).is_none(), "a span was priced twice");
    }
    prices
}

/// Nano-dollars of a report.
pub(crate) fn nano_usd(report: &Value) -> u64 {
    report.as_str().unwrap().replace('.', "").parse().unwrap()
}

/// What spans cost, by ID, what those cost that were not sampled, and what is unattributed.
pub(crate) struct Sums {
    pub(crate) prices: BTreeMap<Vec<u8>, Price>,
    pub(crate) unsampled: u64,
    pub(crate) unattributed: u64,
}

/// Spans + unsampled + unattributed = bill, on the wire and in the report.
pub(crate) fn assert_sums(requests: &[ReceivedRequest], report: &Value) -> Sums {
    let captured = metered_requests(requests);
    let prices = prices(requests, &captured);
    let spans: u64 = prices.values().map(|price| price.nano_usd).sum();
    let bill = nano_usd(&report["cost"]["total_usd"]);
    let attribution = &report["attribution"];
    let unattributed = nano_usd(&attribution["unattributed_usd"]);
    assert_eq!(nano_usd(&attribution["spans_usd"]), spans, "{attribution}");
    let unsampled = nano_usd(&attribution["unsampled_usd"]);
    assert_eq!(spans + unsampled + unattributed, bill, "{attribution}");
    let streams = captured.streams("phasemeter.attribution.cost");
    let last: BTreeMap<String, u64> = streams
        .into_iter()
        .map(|(attributes, stream)| {
            assert!(stream.is_sum && stream.points.is_sorted_by(|a, b| a.value <= b.value));
            let value = stream.points.last().unwrap().value;
            (attributes["phasemeter.attribution.state"].clone(), (value * 1e9).round() as u64)
        })
        .collect();
    let states = [("spans", spans), ("unsampled", unsampled), ("unattributed", unattributed)];
    let states = states.into_iter().filter(|(state, sum)| *state != "unsampled" || *sum > 0);
    assert_eq!(last, states.map(|(state, sum)| (state.to_owned(), sum)).collect());
    Sums { prices, unsampled, unattributed }
}

#[test]
fn request_costs_and_unattributed_sum_to_bill() {
    let backend = MockBackend::start([]);
    let options = ["--price-spans", "llm_*", "--span-weight", "gen_ai.usage.output_tokens"];
    let gateway =
        Gateway::start(&backend, &[&options[..], &["--hold", "1", "--span-all-gpus"]].concat());
    let base = base();
    // From 50 s on no request is active.
    let spans = llm_spans_until(base, 50);
    assert!(spans.len() > 1_000, "{}", spans.len());
    let others: Vec<_> =
        (0..40).map(|i| span("db_query", 1_000_000 + i, base, i, i + NANOS)).collect();
    let never_ends = Span { end_time_unix_nano: 0, ..span("llm_request", 900_000, base, 1, 2) };
    // Each request has spans that wait and one that does not.
    let mixed = spans.chunks(40).zip(others.iter().cycle()).enumerate();
    let mixed = mixed.map(|(index, (chunk, other))| {
        let other =
            Span { span_id: (2_000_000 + index as u64).to_be_bytes().to_vec(), ..other.clone() };
        [&chunk[..1], &[other], &chunk[1..]].concat()
    });
    let mixed: Vec<_> = mixed.collect();
    send(&gateway.endpoint(), mixed.iter().map(|spans| traces(&[], spans)));
    let again = traces(&[], &[spans[0].clone(), never_ends.clone()]);
    send(&gateway.endpoint(), [again]);
    let mut requests = Vec::new();
    wait_for(&backend, &mut requests, mixed.len() + 2);
    let passed = received_spans(&requests);
    assert!(passed.iter().all(|it| it.price.is_none()));
    let names: BTreeSet<&str> = passed.iter().map(|it| it.span.name.as_str()).collect();
    assert_eq!(names, ["db_query", "llm_request"].into(), "what cannot be priced passes at once");

    send(&gateway.endpoint(), readings(base));
    wait_for(&backend, &mut requests, mixed.len() + 2 + spans.len());
    // A request that arrives once all others are priced has the time that no span had.
    let late = span("llm_request", 950_000, base, 40 * NANOS, 55 * NANOS);
    send(&gateway.endpoint(), [traces(&[], std::slice::from_ref(&late))]);
    wait_for(&backend, &mut requests, mixed.len() + 3 + spans.len());
    let (_, report) = gateway.stop();
    requests.extend(backend.received());

    let received = received_spans(&requests);
    let sent: Vec<_> = mixed.concat();
    let chosen: BTreeMap<_, _> = spans.iter().chain([&late]).map(|it| (&it.span_id, it)).collect();
    for ReceivedSpan { span, price, .. } in &received {
        let known = sent.iter().chain([&never_ends, &late]).find(|it| it.span_id == span.span_id);
        assert_eq!(Some(span), known, "nothing else changes");
        assert!(price.is_none() || chosen.contains_key(&span.span_id), "{}", span.name);
    }
    let Sums { prices, unattributed, .. } = assert_sums(&requests, &report);
    assert_eq!(prices.len(), chosen.len());
    assert_eq!(nano_usd(&report["cost"]["total_usd"]), 2 * LENGTH * NANO_USD);
    // Before the first request, and from 55 s on.
    assert!((2 * 5 * NANO_USD..2 * 8 * NANO_USD).contains(&unattributed), "{unattributed}");
    let late = prices[&late.span_id];
    assert!((10.0..20.0).contains(&late.gpu_seconds), "{late:?}");
    assert_eq!(report["attribution"]["unpriced"], 2, "the duplicate, and what never ends");
    // More tokens in the same time cost more.
    let rate = |it: &&Span| {
        let price = prices[&it.span_id];
        price.nano_usd as f64 / (it.end_time_unix_nano - it.start_time_unix_nano) as f64
    };
    let tokens = |it: &&Span| {
        otlp::attributes(&it.attributes)["gen_ai.usage.output_tokens"].parse::<f64>().unwrap()
    };
    let (few, many): (Vec<&Span>, Vec<&Span>) = spans.iter().partition(|it| tokens(it) < 500.0);
    let mean = |of: &[&Span]| of.iter().map(rate).sum::<f64>() / of.len() as f64;
    assert!(2.0 * mean(&few) < mean(&many), "{} {}", mean(&few), mean(&many));
}

#[test]
fn step_costs_and_unattributed_sum_to_bill() {
    let backend = MockBackend::start([]);
    let gateway =
        Gateway::start(&backend, &["--price-spans", "train_step,name=epoch", "--span-all-gpus"]);
    let base = base();
    // Steps of 0.4 s, 0.1 s apart, in an epoch of 50 s, of which some call something else.
    let (step, gap) = (2 * NANOS / 5, NANOS / 10);
    let trace = |it: Span| Span { trace_id: vec![3; 16], ..it };
    let epoch = trace(span("epoch", 0, base, 5 * NANOS, 55 * NANOS));
    let steps: Vec<_> = (0..100)
        .map(|i| {
            let from = 5 * NANOS + i * (step + gap);
            let parent_span_id = epoch.span_id.clone();
            trace(Span { parent_span_id, ..span("train_step", i + 1, base, from, from + step) })
        })
        .collect();
    let epoch = Span { attributes: vec![crate::dcgm::text("name", "epoch")], ..epoch };
    send(&gateway.endpoint(), readings(base));
    // Out of order.
    let spans: Vec<_> = steps.iter().rev().chain([&epoch]).cloned().collect();
    send(&gateway.endpoint(), spans.chunks(30).map(|spans| traces(&[], spans)));
    let (_, report) = gateway.stop();
    let requests = backend.received();
    let Sums { prices, unattributed, .. } = assert_sums(&requests, &report);
    assert_eq!(prices.len(), 101);
    for it in &steps {
        let Price { nano_usd, gpu_seconds, utilization } = prices[&it.span_id];
        assert_eq!((nano_usd, gpu_seconds), (2 * 2 * NANO_USD / 5, 0.8), "both GPUs, alone");
        assert!(utilization.is_some_and(|it| (0.0..=1.0).contains(&it)));
    }
    // The epoch has the pauses only: its steps are nested in it.
    assert_eq!(prices[&epoch.span_id].nano_usd, 2 * 100 * NANO_USD / 10);
    assert_eq!(unattributed, 2 * 10 * NANO_USD);
}

#[test]
fn span_is_charged_for_the_gpus_of_its_resource() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let base = base();
    let hosts = GPUS.into_iter().zip(["node-1", "node-2"]);
    let readings = hosts.flat_map(|(gpu, host)| {
        (0..=LENGTH).map(move |second| page_of_host(gpu, host, base + second, 50.0))
    });
    send(&gateway.endpoint(), readings);
    let at = |number, resource: &[(&str, &str)]| {
        traces(resource, &[span("s", number, base, number * 10 * NANOS, (number * 10 + 5) * NANOS)])
    };
    send(
        &gateway.endpoint(),
        [
            at(0, &[("host.name", "node-2")]),
            at(1, &[("hw.id", GPUS[0]), ("host.name", "node-2")]),
            at(2, &[("host.name", "elsewhere")]),
            at(3, &[]),
        ],
    );
    let (_, report) = gateway.stop();
    let requests = backend.received();
    let received = received_spans(&requests);
    let seconds: BTreeMap<_, _> =
        received.iter().map(|it| (it.span.span_id[7], it.price.map(|it| it.gpu_seconds))).collect();
    // A resource that names an unknown host, or none, pays for no GPU.
    assert_eq!(seconds, [(1, Some(5.0)), (2, Some(5.0)), (3, None), (4, None)].into());
    let notes = report.to_string();
    let expected = "2 spans have no cost: their resource names no GPU, pod or host that is known";
    assert!(notes.contains(expected), "{report:#}");
    let host = |id: u8| received.iter().find(|it| it.span.span_id[7] == id).unwrap().host.clone();
    assert_eq!([1, 3, 4].map(host), [Some("node-2".into()), Some("elsewhere".into()), None]);
    assert_sums(&requests, &report);
}

/// Scenario: two GPUs of a node, each assigned to a pod. dcgm-exporter has the name of one pod, and the UID
/// of the other, too.
/// Guarantee: a span is charged for the GPU of its pod only, and that of an unknown pod for none: others have those of
/// its host.
#[test]
fn span_is_charged_for_the_gpu_of_its_pod() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let base = base();
    let first: &[_] = &[("exported_pod", "train-0"), ("exported_namespace", "ml"), ("pod", "dcgm")];
    let second: &[_] = &[("pod", "serve-0"), ("namespace", "web"), ("pod_uid", "u-2")];
    let pods = GPUS.into_iter().zip([first, second]);
    let readings = pods.flat_map(|(gpu, pod)| {
        (0..=LENGTH).map(move |second| page_with(gpu, "node-1", pod, base + second, 50.0))
    });
    send(&gateway.endpoint(), readings);
    let at = |number, resource: &[(&str, &str)]| {
        let (from, to) = (number * 10 * NANOS, (number * 10 + 5) * NANOS);
        let resource = [resource, &[("host.name", "node-1")]].concat();
        traces(&resource, &[span("s", number, base, from, to)])
    };
    send(
        &gateway.endpoint(),
        [
            at(0, &[("k8s.pod.name", "train-0"), ("k8s.namespace.name", "ml")]),
            at(1, &[("k8s.pod.uid", "u-2")]),
            at(2, &[("k8s.pod.name", "train-0"), ("k8s.namespace.name", "web")]),
        ],
    );
    let (_, report) = gateway.stop();
    let requests = backend.received();
    let prices = received_spans(&requests).into_iter().map(|it| (it.span.span_id[7], it.price));
    let seconds: BTreeMap<_, _> =
        prices.map(|(id, it)| (id, it.map(|it| it.gpu_seconds))).collect();
    assert_eq!(seconds, [(1, Some(5.0)), (2, Some(5.0)), (3, None)].into());
    assert_sums(&requests, &report);
}

/// Scenario: a pod of a StatefulSet moves from one GPU to another, and a second pod to the first. Each has a request
/// before and after that. A fleet of 50 more GPUs has neither.
/// Guarantee: each request is charged for the GPU that its pod had then, and for no other.
#[test]
fn pod_that_moved_pays_for_the_gpu_that_it_has() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--price-spans", "*"]);
    let base = base();
    let pod = |name: &'static str| [("exported_pod", name), ("exported_namespace", "ml")];
    let pages = (0..=LENGTH).flat_map(|second| {
        let pods = if second < 30 { ["train-0", "serve-0"] } else { ["serve-0", "train-0"] };
        let pages = GPUS.into_iter().zip(pods);
        pages.map(move |(gpu, name)| page_with(gpu, "node-1", &pod(name), base + second, 50.0))
    });
    send(&gateway.endpoint(), pages);
    let fleet = (0..50).flat_map(|gpu| {
        let name = format!("GPU-{gpu:08}");
        (0..=LENGTH).map(move |second| page_of_host(&name, "node-2", base + second, 50.0))
    });
    send(&gateway.endpoint(), fleet);
    let request = |number: u64, name: &'static str, from: u64| {
        let resource =
            [("k8s.pod.name", name), ("k8s.namespace.name", "ml"), ("host.name", "node-1")];
        traces(&resource, &[span("s", number, base, from * NANOS, (from + 5) * NANOS)])
    };
    send(
        &gateway.endpoint(),
        [
            request(0, "train-0", 10),
            request(1, "train-0", 40),
            // At the same time as the latter, so both would share both GPUs if one still had its old one.
            request(2, "serve-0", 40),
        ],
    );
    let (_, report) = gateway.stop();
    let requests = backend.received();
    let prices = received_spans(&requests).into_iter().map(|it| (it.span.span_id[7], it.price));
    let costs: BTreeMap<_, _> = prices.map(|(id, it)| (id, it.unwrap().nano_usd)).collect();
    let cost = 5 * NANO_USD;
    assert_eq!(costs, [(1, cost), (2, cost), (3, cost)].into());
    assert_sums(&requests, &report);
}

#[test]
fn span_beyond_the_limits_leaves_and_its_cost_follows() {
    let base = base();
    let spans = llm_spans_until(base, LENGTH);
    // Larger than what may wait.
    let bytes: String = "x".repeat(2_000);
    let large = |it: &Span| Span { trace_state: bytes.clone(), ..it.clone() };
    let large: Vec<_> = spans.iter().map(large).collect();
    for (limit, spans) in [(["--span-wait", "1"], &spans), (["--span-memory", "1"], &large)] {
        let backend = MockBackend::start([]);
        let options = [&["--price-spans", "llm_request", "--span-all-gpus"], &limit[..]].concat();
        // Readings are final at the end.
        let gateway = Gateway::start(&backend, &options);
        send(&gateway.endpoint(), readings(base));
        send(&gateway.endpoint(), spans.chunks(50).map(|spans| traces(&[], spans)));
        let mut requests = Vec::new();
        let is_by_time = limit[0] == "--span-wait";
        wait_for(&backend, &mut requests, if is_by_time { spans.len() } else { spans.len() / 3 });
        let left = received_spans(&requests);
        assert!(left.iter().all(|it| it.price.is_none()), "{limit:?}");
        let (_, report) = gateway.stop();
        requests.extend(backend.received());
        let mut received = received_spans(&requests);
        received.sort_by_key(|it| it.span.span_id.clone());
        assert!(received.iter().map(|it| &it.span).eq(spans), "each leaves once, unchanged");
        let without = received.iter().filter(|it| it.price.is_none()).count();
        assert_eq!(report["attribution"]["followed"], without, "{limit:?}");
        assert_eq!(assert_sums(&requests, &report).prices.len(), spans.len());
        let captured = metered_requests(&requests);
        let event = captured.events.iter().find(|it| it.event_name == "phasemeter.span.priced");
        let event = event.unwrap();
        let of = spans.iter().find(|it| it.span_id == event.span_id).unwrap();
        assert_eq!((&event.trace_id, event.time_unix_nano), (&of.trace_id, of.end_time_unix_nano));
    }
}
