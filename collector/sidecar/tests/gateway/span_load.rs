//! Spans of an LLM server at 1, 10 and 100 times its load: their costs sum to the bill on the wire.
//!
//! Scenario: each client has one request after another of half a second to 2.5 s, within five seconds of
//! two GPUs. They are sent at once, before the readings of that time.

use std::thread;
use std::time::{Duration, Instant};

use crate::mock_backend::MockBackend;
use crate::process::Gateway;
use crate::span_requests::{received_costs, received_spans, traces};
use crate::spans::{Sums, assert_sums, base, llm_spans, readings, send};
use crate::{NANOS, SOON};

/// The GPU time of the requests in seconds.
const SECONDS: u64 = 5;

/// 20,000 requests at a time do not fit; those of a lower load do.
const MEMORY: [&str; 2] = ["--span-memory", "16"];

/// Most memory of the gateway, in KiB, of which 32 MiB are for spans that wait and those that left. With
/// the 24 MiB of a release program it stays within 96 MiB.
const MAX_MEMORY_KIB: u64 = 72 << 10;

#[test]
fn request_costs_and_unattributed_sum_to_bill_at_any_load() {
    for load in [1, 10, 100] {
        let backend = MockBackend::start([]);
        let chosen = [
            "--price-spans",
            "llm_*",
            "--span-all-gpus",
            "--span-weight",
            "gen_ai.usage.output_tokens",
        ];
        let options = [&chosen[..], &MEMORY, &["--hold", "1"]].concat();
        let gateway = Gateway::start(&backend, &options);
        let peak = gateway.peak_kib();
        let base = base();
        let spans = llm_spans(200 * load, NANOS / 2..5 * NANOS / 2, base, SECONDS);
        send(&gateway.endpoint(), spans.chunks(500).map(|spans| traces(&[], spans)));
        send(&gateway.endpoint(), readings(base));
        // Not only at the end, when all that is left is sent at once.
        let started = Instant::now();
        let (mut requests, mut received, mut with_cost, mut followed) = (Vec::new(), 0, 0, 0);
        while with_cost + followed < spans.len() {
            assert!(started.elapsed() < SOON, "{received}, {with_cost}, {followed}: {load}");
            thread::sleep(Duration::from_millis(50));
            let new = backend.received();
            let left = received_spans(&new);
            received += left.len();
            with_cost += left.iter().filter(|it| it.price.is_some()).count();
            followed += received_costs(&new);
            requests.extend(new);
        }
        assert_eq!(received, spans.len());
        let (_, report) = gateway.stop();
        let peak = peak.join().unwrap();
        requests.extend(backend.received());
        let Sums { prices, unattributed, .. } = assert_sums(&requests, &report);
        println!("load {load}: {with_cost} with cost, {followed} followed; {peak} KiB of memory");
        assert_eq!(prices.len(), spans.len());
        let attribution = &report["attribution"];
        assert_eq!(
            (&attribution["priced"], &attribution["followed"]),
            (&with_cost.into(), &followed.into())
        );
        assert_eq!(attribution["unpriced"], 0, "{attribution}");
        assert!(unattributed > 0, "from five seconds on there is no request");
        assert_eq!(followed > 0, load == 100, "only what exceeds the memory leaves without cost");
        assert!(with_cost > 20_000 || load < 100, "{with_cost}");
        assert!(peak <= MAX_MEMORY_KIB, "{peak} KiB");
    }
}
