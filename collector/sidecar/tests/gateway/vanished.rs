//! GPUs that vanish while others go on: what is exported then.
//!
//! Scenario: two nodes, of which one is scaled in after two minutes, and a server that counts work.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use crate::dcgm::{START, page_of_host};
use crate::mock_backend::MockBackend;
use crate::otlp::Captured;
use crate::process::{Gateway, client};
use crate::work::{CUMULATIVE, counter};
use crate::{GPU, NANO_USD, NANOS, SOON, metered_requests};

/// The GPU of the node that is scaled in, after its reading at this second.
const VANISHED: &str = "GPU-00000000-0000-4000-8000-000000000001";
const LAST: u64 = 135;

/// The values of a sum by second, over all its streams of which `is_own` is true.
fn sums(captured: &Captured, name: &str, hw_id: Option<&str>) -> BTreeMap<u64, f64> {
    let mut sums = BTreeMap::new();
    for (attributes, stream) in captured.streams(name) {
        if attributes.get("hw.id").map(String::as_str) == hw_id {
            for point in stream.points {
                *sums.entry((point.time - START * NANOS) / NANOS).or_default() += point.value;
            }
        }
    }
    sums
}

#[test]
fn rounds_go_on_without_a_vanished_gpu_and_have_its_last_points() {
    let backend = MockBackend::start([]);
    let gateway = Gateway::start(&backend, &["--hold", "0.01", "--stale-after", "45"]);
    let client = client(&gateway.endpoint());
    for i in 0..=24 {
        let at = i * 15;
        client.enqueue(page_of_host(GPU, "node-1", START + at, 50.0));
        if at <= LAST {
            client.enqueue(page_of_host(VANISHED, "node-2", START + at, 95.0));
        }
        client.enqueue(counter(
            "a",
            "vllm:generation_tokens_total",
            CUMULATIVE,
            Some(0),
            at,
            i as f64,
        ));
    }
    assert!(client.flush(SOON).all_sent());

    // Before the gateway ends: all whole minutes, of which no reading can still arrive.
    let (began, mut received) = (Instant::now(), Vec::new());
    let captured = loop {
        received.extend(backend.received());
        let captured = metered_requests(&received);
        if sums(&captured, "phasemeter.gpu.cost", Some(GPU)).contains_key(&300) {
            break captured;
        }
        assert!(began.elapsed() < SOON, "{:?}", sums(&captured, "phasemeter.gpu.cost", Some(GPU)));
        thread::sleep(Duration::from_millis(20));
    };
    let minutes: Vec<u64> = sums(&captured, "phasemeter.gpu.cost", Some(GPU)).into_keys().collect();
    assert_eq!(minutes, [60, 120, 180, 240, 300]);
    let work = sums(&captured, "phasemeter.work.done", None);
    assert_eq!(
        work.into_iter().collect::<Vec<_>>(),
        [(60, 4.0), (120, 8.0), (180, 12.0), (240, 16.0), (300, 20.0)]
    );
    let last = sums(&captured, "phasemeter.gpu.cost", Some(VANISHED));
    assert_eq!(last.keys().copied().collect::<Vec<_>>(), [60, 120, 180]);
    let cost = (last[&180] * 1e9).round() as u64;
    assert_eq!(cost, LAST * NANO_USD, "up to its last reading");
    gateway.kill();
}
